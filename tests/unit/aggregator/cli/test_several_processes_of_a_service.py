"""`--processes`, as far as it goes without starting any."""

import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from aggregator.cli.service import processes, services
from aggregator.cli.service.attendance import shown_duties
from aggregator.cli.service.listening import listen
from aggregator.cli.service.machine import MEBIBYTE, memory_of, processes_in_memory, usable_cores
from aggregator.cli.service.processes import Part, processes_by_default
from aggregator.cli.service.reading import Reading
from aggregator.service.config import LeaderSettings
from aggregator.service.storage.engine.presence import Duty
from tests.support.commands import run_here, service_text
from tests.support.ports import free_ports


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_several_processes_must_share_a_port(tmp_path: Path, role: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text(
        f'service.role = "{role}"\n'
        f'service.database = "store.sqlite"\nservice.listen = "127.0.0.1:0"\n'
    )
    done = run_here(role, "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert "listen: the port must not be 0" in done.stderr


def test_where_traces_may_not_go_is_said_once_before_any_process_begins(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    settings = (
        'service.role = "helper"\n'
        'service.database = "store.sqlite"\nservice.listen = "127.0.0.1:1"\n'
    )
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
        service_text("leader", "store")
        + "".join(f'service.{name} = "127.0.0.1:{port}"\n' for name, port in ports.items())
    )
    with listen(f"127.0.0.1:{ports[setting]}", reuse_port=True):
        done = run_here("leader", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr == f"prio: listen: 127.0.0.1:{ports[setting]}: Address already in use\n"


def test_one_address_for_two_purposes_is_refused_before_any_process_begins(tmp_path: Path) -> None:
    """Half of the reports would go to the health listener, which does not know them."""
    config, address = tmp_path / "service.toml", f"127.0.0.1:{free_ports(1)[0]}"
    config.write_text(
        service_text("helper", "store")
        + f'service.listen = "{address}"\nservice.health_listen = "{address}"\n'
    )
    done = run_here("helper", "serve", "--processes", "2", "--config", config)
    assert done.returncode == 2
    assert done.stderr == f"prio: listen: {address}: Address already in use\n"


@pytest.mark.parametrize(
    ("cores", "groups", "expected"),
    [
        (1, {}, 1),
        (2, {}, 1),
        (3, {}, 3),
        (64, {}, 4),
        (64, {"": {"cpu.max": "200000 100000"}}, 1),
        (64, {"": {"cpu.max": "250000 100000"}}, 3),
        (64, {"": {"cpu.max": "50000 100000"}}, 1),
        (64, {"a": {"cpu.max": "max 100000", "memory.max": "max"}}, 4),
        (64, {"a": {"memory.max": f"{memory_of(3) * MEBIBYTE}"}}, 3),
        (64, {"a": {"memory.max": f"{memory_of(3) * MEBIBYTE - 1}"}}, 2),
        (64, {"a": {"memory.max": "1000000"}}, 1),
        (64, {"a": {"memory.max": f"{2**40}"}, "": {"memory.max": f"{2**30}"}}, 1),
        (64, {"another": {"memory.max": "1000000"}}, 4),
    ],
)
def test_a_service_has_a_process_for_two_cores_or_as_many_as_cores_and_memory_hold_up_to_four(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cores: int,
    groups: Mapping[str, Mapping[str, str]],
    expected: int,
) -> None:
    """What a control group and those around it allow counts, the least of them."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("1:name=systemd:/x\n0::/a/b\n")
    for group, files in groups.items():
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, said in files.items():
            (folder / name).write_text(f"{said}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    for function in (usable_cores, processes_in_memory):
        monkeypatch.setattr(processes, function.__name__, partial(function, tmp_path))
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

    def leader(
        _: object, *, serve: bool, work: bool, others: frozenset[Duty], began: float, check: object
    ) -> None:
        assert check is None  # what one process of several gets
        roles.append(" and ".join(["serves"] * serve + ["works"] * work))
        # It says that the leader is up, and waits for those that take uploads.
        assert (Duty.SERVE in others) == (not serve)
        assert began <= time.monotonic()
        # Whoever asks is told of all that the service does, whichever process is there first.
        shown = shown_duties(others, serve=serve, work=work)
        assert shown == ({Duty.SERVE, Duty.WORK} if is_working else {Duty.SERVE})

    def run(
        reading: Reading[LeaderSettings],
        opening: object,
        count: int | None,
        *,
        is_open: bool,
        verifies: bool,
    ) -> None:
        assert callable(opening)
        assert is_open
        assert verifies == work
        assert count == of
        for number in range(of):
            opening(reading.now, Part(number, of), None)

    monkeypatch.setattr(services, "_leader", leader)
    monkeypatch.setattr(services, "start", run)
    config = tmp_path / "service.toml"
    config.write_text('service.role = "leader"\nservice.database = "store.sqlite"\n')
    is_working = work
    services.run_leader(Reading(LeaderSettings, config), work=work, processes=of)
    assert roles == expected
