"""`--processes`, as far as it goes without starting any."""

import os
from pathlib import Path

import pytest

from aggregator.cli.service import services
from aggregator.cli.service.listening import listen
from aggregator.cli.service.processes import Part, processes_by_default
from aggregator.cli.service.reading import Reading
from aggregator.service.config import LeaderSettings
from tests.support.commands import run_here
from tests.support.ports import free_ports


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_several_processes_must_share_a_port(tmp_path: Path, role: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text(f'role = "{role}"\ndatabase = "store.sqlite"\nlisten = "127.0.0.1:0"\n')
    done = run_here(role, "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert "listen: the port must not be 0" in done.stderr


def test_where_traces_may_not_go_is_said_once_before_any_process_begins(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    settings = 'role = "helper"\ndatabase = "store.sqlite"\nlisten = "127.0.0.1:1"\n'
    config.write_text(f'{settings}traces_endpoint = "http://receiver.example/v1/traces"\n')
    done = run_here("helper", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr.count("traces_endpoint") == 1


@pytest.mark.parametrize("setting", ["listen", "health_listen"])
def test_an_address_of_another_service_is_named_before_any_process_begins(
    tmp_path: Path, setting: str
) -> None:
    """Both may be called so that their processes share it, and neither would notice."""
    config = tmp_path / "service.toml"
    ports = dict(zip(("listen", "health_listen"), free_ports(2), strict=True))
    config.write_text(
        'role = "leader"\ndatabase = "store.sqlite"\nstore_key_file = "store.key"\n'
        + "".join(f'{name} = "127.0.0.1:{port}"\n' for name, port in ports.items())
    )
    with listen(f"127.0.0.1:{ports[setting]}", reuse_port=True):
        done = run_here("leader", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr == f"prio: listen: 127.0.0.1:{ports[setting]}: Address already in use\n"


def test_one_address_for_two_purposes_is_refused_before_any_process_begins(tmp_path: Path) -> None:
    """Half of the reports would go to the health listener, which does not know them."""
    config, address = tmp_path / "service.toml", f"127.0.0.1:{free_ports(1)[0]}"
    config.write_text(
        'role = "helper"\ndatabase = "store.sqlite"\nstore_key_file = "store.key"\n'
        f'listen = "{address}"\nhealth_listen = "{address}"\n'
    )
    done = run_here("helper", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr == f"prio: listen: {address}: Address already in use\n"


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (3, 3), (64, 4)])
def test_a_service_has_a_process_for_each_core_and_no_more_than_four(
    monkeypatch: pytest.MonkeyPatch, cores: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert processes_by_default() == expected


@pytest.mark.parametrize(
    ("work", "of", "expected"),
    [
        (False, 3, ["serves", "serves", "serves"]),
        (True, 1, ["serves and works"]),
        (True, 2, ["works", "serves"]),
        (True, 3, ["works", "serves", "works"]),
    ],
)
def test_of_several_processes_none_that_serves_opens_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, work: bool, of: int, expected: list[str]
) -> None:
    roles: list[str] = []

    def leader(_: object, *, serve: bool, work: bool, others_serve: bool = False) -> None:
        roles.append(" and ".join(["serves"] * serve + ["works"] * work))
        # It says that the leader is up, and waits for those that take uploads.
        assert others_serve == (not serve)

    def run(reading: Reading[LeaderSettings], opening: object, count: int | None) -> None:
        assert callable(opening)
        assert count == of
        for number in range(of):
            opening(reading.now, Part(number, of))

    monkeypatch.setattr(services, "_leader", leader)
    monkeypatch.setattr(services, "_run", run)
    config = tmp_path / "service.toml"
    config.write_text('role = "leader"\ndatabase = "store.sqlite"\n')
    services.serve_leader(Reading(LeaderSettings, config), work=work, processes=of)
    assert roles == expected
