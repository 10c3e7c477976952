"""`prio load` on services of its own, over both databases, and on those of a `prio up`."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.postgresql import databases
from tests.support.processes import ROOT
from tests.support.up import is_up
from tests.support.warm_start import run_warm

pytestmark = pytest.mark.slow

LITTLE = ("--reports", "400", "--singles", "40", "--connections", "8", "--length", "8", "--json")

KEYS = {
    "reports",
    "right",
    "reports_per_second",
    "upload_reports_per_second",
    "single_uploads_per_second",
    "single_upload_us",
    "cpu_us_per_report",
    "exchanges_per_report",
    "peak_mib",
    "database_bytes_per_report",
    "written_bytes_per_report",
}


def load(*arguments: str, cwd: Path = ROOT, status: int = 0) -> dict[str, object]:
    command = [sys.executable, "-m", "aggregator.cli", "load", *LITTLE, *arguments]
    done = run_warm(command, cwd=cwd)
    assert done.returncode == status, done.stderr
    if status:
        return {"said": done.stderr}
    found: dict[str, object] = json.loads(done.stdout)
    return found


def check(found: dict[str, object]) -> None:
    assert found.keys() >= KEYS
    assert found["reports"] == 440
    assert found["right"] is True
    numbers = [value for value in found.values() if isinstance(value, float)]
    assert len(numbers) >= 7
    assert min(numbers) > 0
    assert min(found["peak_mib"].values()) > 50
    assert found["exchanges"].keys() == found["cpu_us"].keys()
    assert sum(found["exchanges"].values()) == pytest.approx(
        found["exchanges_per_report"], abs=0.03
    )
    assert sum(found["written_bytes"].values()) == pytest.approx(
        found["written_bytes_per_report"], abs=1
    )
    assert found["report_bytes"] > 400


def test_reports_go_through_services_of_its_own() -> None:
    check(load("--stack"))


@pytest.mark.parametrize("kind", ["listed", "signed"])
def test_what_a_permit_adds_is_measured_beside_the_plain_task(kind: str) -> None:
    found = load("--stack", "--permits", kind, "--rounds", "2")
    permits = found.pop("permits")
    check(found)
    assert isinstance(permits, dict)
    assert permits["cpu_us_per_report_with"] > 0
    assert permits["added_us"] == pytest.approx(
        permits["cpu_us_per_report_with"] - permits["cpu_us_per_report_without"], abs=0.1
    )
    for name in ("cpu_us_with", "cpu_us_without"):
        assert [each.keys() for each in permits[name]] == [found["cpu_us"].keys()] * 2


def test_ids_of_earlier_reports_are_there_beforehand(postgresql_server: str) -> None:
    """Otherwise the ids of a few reports, in a table of their own, cost next to nothing."""
    plain = load("--stack")
    found = load("--stack", "--ids", "2000", "--postgres", postgresql_server)
    check(found)
    assert plain["log_bytes_per_report"] is None
    logged = found["log_bytes_per_report"]
    assert isinstance(logged, float)
    assert logged > 0


def test_the_same_over_postgresql_whose_databases_go_afterwards(postgresql_server: str) -> None:
    before = databases(postgresql_server)
    found = load("--stack", "--postgres", postgresql_server)
    check(found)
    assert found["cpu_us"].keys() == {"leader", "worker", "helper", "database"}
    assert databases(postgresql_server) == before


def test_reports_go_through_a_prio_up_that_runs(tmp_path: Path) -> None:
    with is_up(tmp_path, "here", is_cold=True):
        check(load("--up", str(tmp_path / "here")))


def test_what_it_needs_is_named(tmp_path: Path) -> None:
    said = load("--up", str(tmp_path), status=2)["said"]
    assert "was not made by `prio up`" in str(said)
    assert "goes with --stack" in str(load("--postgres", "postgresql://x/y", status=2)["said"])
    nowhere = load("--stack", "--postgres", "postgresql://127.0.0.1:9/y", status=2)["said"]
    assert "postgres: " in str(nowhere)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://u:geheim@127.0.0.1/x", "PGPASSFILE"),
        ("postgresql://u@db.example/x", "on this machine"),
        ("postgresql://u:geheim@[::1x/x", "must be a URL, postgresql://"),
        ("postgresql://u@127.0.0.1/x?foo=geheim", "postgres: "),
        ("sqlite:///geheim", "must begin with postgresql://"),
    ],
)
def test_a_server_elsewhere_and_a_password_are_refused_and_not_shown(url: str, why: str) -> None:
    said = str(load("--stack", "--postgres", url, status=2)["said"])
    assert why in said
    assert "geheim" not in said
