"""How long several processes that write to one batch wait for each other, with shards and without.

On demand: `pytest -m bench tests/load -k writers`. Both are measured in turns, over PostgreSQL.
"""

from pathlib import Path

import pytest

from aggregator.service.storage.engine.postgresql import Postgresql
from tests.support.empty_store import SERVER
from tests.support.store import make_store, store_url
from tests.support.writers import KINDS, write

pytestmark = [pytest.mark.bench, pytest.mark.slow]

SECONDS = 6


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_writers_of_one_batch_do_not_wait_for_each_other(
    processes: int,
    tmp_path: Path,
    postgresql_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(SERVER, postgresql_server)
    waiting = []
    for shards in (1, Postgresql.shards):
        folder = tmp_path / f"{shards}"
        make_store(folder).close()
        found = write(store_url(folder), KINDS * processes, shards, SECONDS)
        waiting.append(found.waiting)
        rates = "; ".join(
            f"{kind} {found.reports[kind]:,.0f} reports/s, {1e3 * found.seconds[kind]:,.0f} ms each"
            for kind in KINDS
        )
        with capsys.disabled():
            print(  # noqa: T201 - what a measurement is for
                f"\n{processes} of each, {shards} shards: waits for locks "
                f"{100 * found.waiting:.0f} % of the time; {rates}"
            )
    before, after = waiting
    assert after < before / 4
