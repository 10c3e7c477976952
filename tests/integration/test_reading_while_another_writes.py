"""Commands that only read take no lock that a writer holds, and hold none that it needs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import run_here, service_file

READING = (
    ("status",),
    ("status", "--json"),
    ("ledger",),
    ("ledger", "--json"),
    ("task", "list"),
    ("hpke", "list"),
)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's open write transaction on a helper's store."""
    service_file(tmp_path, "helper")
    assert run_here("hpke", "new", "--config", tmp_path / "helper.toml").returncode == 0
    with closing(sqlite3.connect(tmp_path / "helper.sqlite", timeout=0)) as connection:
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE hpke_keys SET retired_at = 1")
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_that_reads_does_not_wait_for_the_writer(
    tmp_path: Path, writer: sqlite3.Connection, command: tuple[str, ...]
) -> None:
    done = run_here(*command, "--config", tmp_path / "helper.toml")
    # `prio status` says that the helper does not run.
    assert (done.returncode, done.stderr) == (int(command[0] == "status"), "")
    writer.execute("COMMIT")


def test_the_collectors_public_key_is_printed_while_another_writes(tmp_path: Path) -> None:
    config = service_file(tmp_path, "collector")
    first = run_here("collector", "config", "--config", config).stdout
    with closing(sqlite3.connect(tmp_path / "collector.sqlite", timeout=0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert run_here("collector", "config", "--config", config).stdout == first != ""
