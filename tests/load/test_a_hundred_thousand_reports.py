"""A hundred thousand reports through several processes of each aggregator, over PostgreSQL.

On demand: `pytest -m bench tests/load -k thousand_reports_of_several`.
"""

import json
import random
import time
from collections import Counter
from pathlib import Path

import anyio
import psycopg
import psycopg.sql
import pytest

from aggregator.protocol.task_file import task_from_toml
from tests.load.test_twenty_thousand_reports import HOUR, LENGTH, requests, upload
from tests.support.empty_store import SERVER, url_of
from tests.support.postgresql import named
from tests.support.processes import COMMANDS, WORKER, Processes
from tests.support.server_costs import ServerCosts

pytestmark = [pytest.mark.bench, pytest.mark.slow]

REPORTS = 100_000


def test_a_hundred_thousand_reports_of_several_processes_are_counted_once(
    tmp_path: Path,
    postgresql_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(SERVER, postgresql_server)
    start = int(time.time()) // HOUR * HOUR - HOUR
    draw = random.Random(256)  # noqa: S311 - no secret
    measurements = [min(draw.randrange(LENGTH), draw.randrange(LENGTH)) for _ in range(REPORTS)]
    with Processes(tmp_path, linger_seconds=2) as services:
        for party in ("leader", "helper"):
            services.options[party] = ("--processes=2",)
        task_id, task_file = services.make_task(
            "task",
            *("--vdaf", "Prio3Histogram", "--length", str(LENGTH), "--mechanism=None"),
            *("--min-batch-size", str(REPORTS), "--max-reports", "1000000"),
        )
        task = task_from_toml(task_file.read_text())
        services.start(*COMMANDS)
        services.start(WORKER)
        bodies = requests(task, measurements, start, 200)
        server_before = ServerCosts.of(named(postgresql_server, "postgres"))
        began = time.monotonic()
        assert set(anyio.run(upload, task, bodies)) == {200}
        uploaded = time.monotonic()
        done = services.prio(
            *("collect", "--config", services.configs["collector"], task_id),
            *("--start", str(start), "--end", str(start + HOUR), "--json"),
        )
        collected = time.monotonic()
        server = ServerCosts.of(named(postgresql_server, "postgres"))

        result, counts = json.loads(done.stdout)["result"], Counter(measurements)
        assert result["report_count"] == REPORTS
        assert list(map(int, result["values"])) == [counts[bucket] for bucket in range(LENGTH)]
        for party in ("leader", "helper"):
            assert services.counts(task_id, party) == {"aggregated": REPORTS}
        for name in ("leader", "helper", WORKER):
            assert [x for x in services.log(name) if x["level"] in {"error", "critical"}] == []
        stored = {party: tables(tmp_path / f"{party}.sqlite") for party in ("leader", "helper")}
    with capsys.disabled():
        cpu = server.cpu_seconds - server_before.cpu_seconds
        print(  # noqa: T201 - what a measurement is for
            f"\nuploaded: {REPORTS / (uploaded - began):,.0f} reports/s; from the first upload to "
            f"the result: {REPORTS / (collected - began):,.0f} reports/s"
            f"\ndatabase of both, per report: {1e6 * cpu / REPORTS:,.0f} us, "
            f"{(server.log - server_before.log) / REPORTS:,.0f} bytes of log"
        )
        for party, found in stored.items():
            for name, rows, size in found:
                print(f"{party} {name}: {rows:,} rows, {size / 2**20:,.1f} MiB")  # noqa: T201 - as above


def tables(store: Path) -> list[tuple[str, int, int]]:
    """Return the largest tables of a store: name, rows, and bytes with indices."""
    largest = (
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 6"
    )
    with psycopg.connect(url_of(store)) as connection:
        found = []
        for name, size in connection.execute(largest).fetchall():
            query = psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(name))
            row = connection.execute(query).fetchone()
            assert row is not None
            found.append((name, int(row[0]), int(size)))
    return found
