"""`--processes`, as far as it goes without starting any."""

from pathlib import Path

import pytest

from tests.support.commands import run_here


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_several_processes_must_share_a_port(tmp_path: Path, role: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text(f'role = "{role}"\ndatabase = "store.sqlite"\nlisten = "127.0.0.1:0"\n')
    done = run_here(role, "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert "listen: several processes need one port" in done.stderr


def test_where_traces_may_not_go_is_said_once_before_any_process_begins(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    settings = 'role = "helper"\ndatabase = "store.sqlite"\nlisten = "127.0.0.1:1"\n'
    config.write_text(f'{settings}traces_endpoint = "http://receiver.example/v1/traces"\n')
    done = run_here("helper", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr.count("traces_endpoint") == 1
