"""What an id costs a store that is a year old.

On demand: `pytest -m bench tests/load/test_bytes_of_ids.py`. `PRIO_TEST_IDS` says how many ids
there are before, a million if it is not set.
"""

import os
from pathlib import Path

import pytest

from tests.support import leftovers, postgresql
from tests.support.bytes_of_ids import bytes_of_ids
from tests.support.empty_store import SERVER

pytestmark = [pytest.mark.bench, pytest.mark.slow]

BEFORE = int(os.environ.get("PRIO_TEST_IDS", "1000000"))
MORE = 20_000


def say(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{BEFORE:,} ids before, {MORE:,} more: {text}")  # noqa: T201 - a measurement


@pytest.mark.parametrize("days", [1, 30])
def test_an_id_in_a_file(tmp_path: Path, days: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = bytes_of_ids(tmp_path, BEFORE, MORE, days)
    say(f"of {days} days, SQLite, an id has {found.written:,.0f} B written", capsys)
    assert found.written <= 6_000


@pytest.mark.parametrize("days", [1, 30])
def test_an_id_on_a_server(
    tmp_path: Path,
    days: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log has pages whole when they change for the first time after a checkpoint, as usual."""
    with postgresql.new_server(["full_page_writes=on"]) as server:
        server.make()
        server.start()
        leftovers.may_stay(server.pid)
        monkeypatch.setenv(SERVER, server.url)
        found = bytes_of_ids(tmp_path, BEFORE, MORE, days)
    each = f"an id has {found.log:,.0f} B of log, and {found.written:,.0f} B written"
    say(f"of {days} days, PostgreSQL, {each}", capsys)
    assert found.log <= (300 if days == 1 else 1_000)
    assert found.written <= (700 if days == 1 else 2_000)
