"""What an id costs a store that is a year old.

On demand: `pytest -m bench tests/load/test_bytes_of_ids.py`. `PRIO_TEST_IDS` says how many ids
there are before, a million if it is not set.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.sizing import ID_LOG, IDS_PER_PAGE, PAGE_LOG, whole_pages
from tests.support import leftovers, postgresql
from tests.support.bytes_of_ids import OfAnId, bytes_of_ids
from tests.support.empty_store import SERVER

pytestmark = [pytest.mark.bench, pytest.mark.slow]

BEFORE = int(os.environ.get("PRIO_TEST_IDS", "1000000"))
MORE = 20_000


def say(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{BEFORE:,} ids before; {text}")  # noqa: T201 - a measurement


@pytest.mark.parametrize("days", [1, 30])
def test_an_id_in_a_file(tmp_path: Path, days: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = bytes_of_ids(tmp_path, BEFORE, MORE, days)
    say(f"{MORE:,} of {days} days, SQLite, an id has {found.written:,.0f} B written", capsys)
    assert found.written <= 6_000


@pytest.fixture
def _whole_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep stores on a server whose log has pages whole when they change first, as is usual."""
    with postgresql.new_server(["full_page_writes=on", "checkpoint_timeout=1h"]) as server:
        server.make()
        server.start()
        leftovers.may_stay(server.pid)
        monkeypatch.setenv(SERVER, server.url)
        yield


def on_a_server(found: OfAnId) -> str:
    return f"an id has {found.log:,.0f} B of log, and {found.written:,.0f} B written"


@pytest.mark.usefixtures("_whole_pages")
@pytest.mark.parametrize("days", [1, 30])
def test_an_id_on_a_server(tmp_path: Path, days: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = bytes_of_ids(tmp_path, BEFORE, MORE, days)
    say(f"{MORE:,} of {days} days, PostgreSQL, {on_a_server(found)}", capsys)
    assert found.log <= (300 if days == 1 else 1_000)
    assert found.written <= (700 if days == 1 else 2_000)


@pytest.mark.usefixtures("_whole_pages")
@pytest.mark.parametrize("more", [2_000, 10_500, 42_000])
def test_an_id_of_a_day_that_has_many_costs_what_sizing_says(
    tmp_path: Path, more: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fewer come between two checkpoints, the more of their pages are logged whole."""
    found = bytes_of_ids(tmp_path, BEFORE, more, of_today=True)
    say(f"{more:,} of the same day, PostgreSQL, {on_a_server(found)}", capsys)
    assert found.log == pytest.approx(
        ID_LOG + PAGE_LOG * whole_pages(IDS_PER_PAGE * more / BEFORE), rel=0.15
    )
