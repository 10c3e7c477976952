"""A service is ready only while its work moves, and says what waits and why."""

import math
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import anyio
import httpx
import pytest
from anyio import to_thread
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from aggregator.cli.service.running import run_services
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine import condition, tables
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS, TOO_EARLY_SECONDS
from aggregator.service.storage.ledger.journal import journal_faults
from aggregator.service.telemetry.health import Health, exposition
from aggregator.service.telemetry.metrics import process_exposition
from aggregator.service.telemetry.probe import Probe
from aggregator.service.web.health import create_health_app
from aggregator.service.web.pages.operator import operator_page
from tests.support.between import Between, cut_short
from tests.support.commands import run_here, service_file
from tests.support.look import Page
from tests.support.pair import Pair, Service, pair_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.tasks import LEADER_URL, make_task

STALLED_SECONDS = 120
ANSWERS = 15


pair = pair_of()


def health_of(service: Service, up_seconds: float = math.inf) -> Health:
    faults = journal_faults(service.journal)
    return service.database.read_sync(
        "health",
        lambda tx: read_aggregator_health(
            tx, service.role, STALLED_SECONDS, faults, up_seconds=up_seconds
        ),
    )


@contextmanager
def somebody_works(service: Service, seconds: float = 0) -> Iterator[None]:
    """Let somebody have worked for this long, as its process would show it."""
    here = service.database.presence([Duty.WORK])
    here.keep()
    try:
        with patch.object(time, "monotonic", partial(_later, time.monotonic, seconds)):
            yield
    finally:
        here.close()


def _later(clock: Callable[[], float], seconds: float) -> float:
    return clock() + seconds


async def test_reports_that_no_worker_takes_make_the_leader_not_ready(pair: Pair) -> None:
    assert health_of(pair.leader).is_ready
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(STALLED_SECONDS)
    assert health_of(pair.leader).is_ready
    pair.clock.advance(1)
    (fault,) = health_of(pair.leader).faults
    assert fault.startswith("3 reports and 0 collections wait, the oldest for 121 s")
    assert "`prio leader work`" in fault
    await pair.work_until_idle()
    found = health_of(pair.leader)
    assert found.is_ready
    assert found.document["waiting_reports"] == 0
    assert health_of(pair.helper).is_ready


async def test_what_waited_while_nobody_worked_is_no_stall_at_a_start(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(86_400)
    assert not health_of(pair.leader).is_ready
    with somebody_works(pair.leader):
        found = health_of(pair.leader)
        assert (found.faults, found.document["running"]) == ([], {"serve": False, "work": True})
    with somebody_works(pair.leader, STALLED_SECONDS + 1):
        (fault,) = health_of(pair.leader).faults
        assert fault.endswith("workers run, and none has taken one of them: the log says why")


async def test_what_lies_in_the_place_of_a_lock_is_a_fault_and_keeps_requests_coming(
    pair: Pair, tmp_path: Path
) -> None:
    if pair.leader.database._backend.free_bytes() is None:
        return  # a server's locks are no files
    place = tmp_path / "leader.sqlite.look"
    place.mkdir()
    found = health_of(pair.leader)
    (fault,) = found.faults
    assert fault.startswith(f"nobody can tell who runs: {place} cannot be read: is a directory")
    assert (found.obstacles, found.document["running"]) == ([], None)


async def test_a_process_that_only_serves_waits_for_a_worker_and_then_says_that_none_comes(
    pair: Pair,
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(86_400)
    assert health_of(pair.leader, up_seconds=0).is_ready
    assert health_of(pair.leader, up_seconds=STALLED_SECONDS).is_ready
    (fault,) = health_of(pair.leader, up_seconds=STALLED_SECONDS + 1).faults
    assert fault.endswith(
        "no worker runs; `prio leader work`, or `prio leader serve --work`, must run"
    )


async def test_a_job_that_worker_after_worker_dies_of_is_a_stall_at_each_start(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await JobCreator(pair.leader.runtime, job_size=100, linger_seconds=0).run_once()
    for attempt in range(4):
        pair.clock.advance(86_400)
        with somebody_works(pair.leader):
            assert health_of(pair.leader).is_ready == (attempt < 3), attempt
        leased = await pair.leader.database.run(
            "lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)
        )
        assert len(leased) == 1


async def test_a_journal_that_cannot_be_used_makes_a_service_not_ready_but_takes_requests(
    pair: Pair, tmp_path: Path
) -> None:
    path = tmp_path / "leader.sqlite.journal"
    away = path.rename(tmp_path / "away")
    found = health_of(pair.leader)
    assert found.faults == [
        f"no result leaves: the journal of releases {path}: No such file or directory"
    ]
    assert found.obstacles == []
    assert "prio_ready 0" in exposition(found.whole_metrics)
    away.rename(path)
    assert health_of(pair.leader).is_ready


async def test_a_helper_that_does_not_answer_shows_in_jobs_that_are_tried_again(pair: Pair) -> None:
    answer = await pair.upload(await pair.reports([0, 1, 2]))
    assert answer.status == ()
    reachable = pair.http
    pair.http = httpx.AsyncClient(
        mounts={
            LEADER_URL.rstrip("/"): httpx.ASGITransport(pair.leader),
            "all://": httpx.MockTransport(_unreachable),
        }
    )
    await pair.ask()
    for _ in range(7):
        await pair.work()
        pair.clock.advance(61)
    await pair.work()
    found = health_of(pair.leader)
    (fault,) = found.faults
    reason = r"one because: the helper https://helper\.\S+ does not answer: ConnectError"
    assert re.search(rf"jobs wait for another try \(attempt \d+\), {reason}", fault)
    job, collection = found.document["waiting_jobs"]  # type: ignore[misc]  # a list
    assert (job["kind"], job["state"]) == ("aggregation", "sent")
    assert job["reason"].endswith("does not answer: ConnectError")
    assert collection["state"] == "waiting"
    assert collection["reason"] == "3 reports of the batch are not aggregated yet"
    pair.http = reachable
    pair.clock.advance(61)
    await pair.work_until_idle()
    assert health_of(pair.leader).document["waiting_jobs"] == []
    assert health_of(pair.leader).is_ready


async def test_a_collection_that_waits_for_clients_is_no_stall(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task(batch_mode="leader_selected"))
    await pair.provision()
    assert (await pair.ask()).status == 201
    pair.clock.advance(10 * STALLED_SECONDS)
    await pair.work()
    found = health_of(pair.leader)
    assert found.is_ready
    (collection,) = found.document["waiting_jobs"]  # type: ignore[misc]  # a list
    assert collection["reason"] == "no batch that was not collected before is full"
    await pair.close()


async def test_reports_that_are_too_early_ask_for_the_clocks_and_for_no_worker(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(-1000)
    with capture_logs() as logs:
        await pair.work()
    (finished,) = (line for line in logs if line["event"] == "aggregation job finished")
    assert (finished["log_level"], finished["reasons"]) == ("warning", {"report_too_early": 3})

    def have_waited_for_a_day(tx: Transaction) -> None:
        tx.connection.execute(update(tables.report_groups).values(received_at=tx.now - 86400))

    pair.leader.database.run_sync("wait", have_waited_for_a_day)
    pair.clock.advance(TOO_EARLY_SECONDS - 1)
    found = pair.leader.database.read_sync(
        "health", lambda tx: read_aggregator_health(tx, pair.leader.role, TOO_EARLY_SECONDS - 2)
    )
    (job,) = found.document["waiting_jobs"]  # type: ignore[misc]  # a list
    assert (job["kind"], job["job"], job["state"]) == ("reports", "", "too_early")
    (fault,) = found.faults
    assert fault.endswith("3 reports are too early for the clock of one of the aggregators: set it")


async def test_a_held_job_is_named_with_its_reason_wherever_one_looks(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between = Between(pair)
    between.change = cut_short
    for _ in range(6):
        await pair.work()
        pair.clock.advance(61)
    await between.close()
    found = health_of(pair.leader)
    (job,) = found.document["waiting_jobs"]  # type: ignore[misc]  # a list
    assert (job["state"], job["next_seconds"]) == ("held", None)
    assert job["reason"].startswith("the helper's answer: ")
    (fault,) = found.faults
    assert fault.endswith(
        f"1 jobs are held until you decide (`prio job list`), one because: {job['reason']}"
    )
    assert 'prio_aggregation_jobs{state="held"} 1' in exposition(found.metrics).splitlines()
    done = await to_thread.run_sync(run_here, "status", "--config", leader_file(tmp_path))
    assert f"  aggregation {job['job']}, held, since " in done.stdout
    assert job["reason"] in done.stdout


async def test_metrics_tell_reports_by_task_stage_and_reason(pair: Pair) -> None:
    reports = await pair.reports([0, 1, 2])
    await pair.upload([*reports, reports[0]])
    text = exposition(health_of(pair.leader).metrics)
    name = str(pair.task.task_id)
    assert f'prio_waiting_reports{{task="{name}"}} 3' in text.splitlines()
    assert 'prio_report_bodies{generation="0"} 1' in text.splitlines()
    line = f'prio_reports_total{{task="{name}",stage="upload",reason="report_replayed"}} 1'
    assert line in text.splitlines()
    await pair.collect()
    text = exposition(health_of(pair.helper).metrics)
    line = f'prio_reports_total{{task="{name}",stage="aggregation",reason="aggregated"}} 3'
    assert line in text.splitlines()
    assert len([line for line in text.splitlines() if line.startswith("# TYPE")]) >= 10


async def test_a_full_disk_makes_a_service_not_ready(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition, "LEAST_FREE_BYTES", 2**80)
    assert "is full" in health_of(pair.helper).faults[0]


async def test_the_operator_s_page_says_what_waits_what_was_released_and_what_to_compare(
    pair: Pair,
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(STALLED_SECONDS + 1)
    page = _page(pair.leader)
    assert page.all("h1")[0].text == "Leader"
    text = page.all("main")[0].text
    assert "Not ready:" in text
    assert "3 reports and 0 collections wait" in text
    await pair.collect()
    for service in (pair.leader, pair.helper):
        page = _page(service)
        names, cells = ([each.text for each in page.all(name)] for name in ("th", "td"))
        assert "Ready: nothing waits for too long." in page.all("main")[0].text
        assert pair.task.fingerprint in cells
        said = page.all("summary")[0].text
        assert said == f"task id {pair.task.task_id}: {pair.task.configuration.task_info.decode()}"
        assert {"fingerprint", "releases", "most releases", "budget", "oldest report"} <= set(names)
    (task,) = health_of(pair.helper).document["tasks"]  # type: ignore[misc]  # a list
    assert (task["releases"], task["budget"]) == (1, None)
    assert task["reports"]["aggregation"] == {"aggregated": 3}


async def test_every_stage_of_a_batch_is_measured(pair: Pair) -> None:
    def counts() -> Counter[str]:
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(process_exposition()):
            for sample in family.samples:
                if sample.name.endswith("_count"):
                    # Other tests of this process may have had other peers.
                    labels = [name for name in sample.labels if name not in {"process", "peer"}]
                    key = sample.name + "".join(f" {sample.labels[name]}" for name in labels)
                    found[key] += int(sample.value)
        return found

    before = counts()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.collect()
    measured = counts() - before
    for name in (
        "prio_request_seconds_count POST /tasks/{task_id}/reports 200",
        "prio_request_seconds_count POST /tasks/{task_id}/aggregation_jobs 201",
        "prio_upload_group_reports_count",
        "prio_verification_seconds_count",
        "prio_verification_wait_seconds_count",
        "prio_job_step_seconds_count aggregation moved",
        "prio_job_step_seconds_count collection moved",
        "prio_collection_seconds_count",
        "prio_peer_request_seconds_count answered",
        "prio_transaction_seconds_count finish aggregation job",
        "prio_transaction_seconds_count release batch",
        "prio_transaction_wait_seconds_count write",
    ):
        assert measured[name] >= 1, name


def _page(service: Service) -> Page:
    return Page(bytes(operator_page(health_of(service)).body).decode())


async def test_the_health_listener_answers_while_the_service_is_busy() -> None:
    async def block(_request: Request) -> PlainTextResponse:
        is_blocked.set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(answered) < ANSWERS and time.monotonic() < deadline:
            time.sleep(0.01)  # noqa: ASYNC251  what must not happen, happens
        return PlainTextResponse(str(len(answered)))

    app = Starlette(routes=[Route("/", block)])

    def compute() -> None:
        while len(answered) < ANSWERS:
            pass

    address, health_address = (f"127.0.0.1:{port}" for port in free_ports(2))
    answered: list[int] = []
    while_blocked: list[str] = []
    is_blocked = threading.Event()

    def ask() -> None:
        """Ask from a thread: the event loop of this test is the one that is blocked."""
        with httpx.Client(timeout=PATIENCE_SECONDS) as http:
            http.get(f"http://{health_address}/health")  # opens the connection
            is_blocked.wait(PATIENCE_SECONDS)
            while len(answered) < ANSWERS:
                answered.append(http.get(f"http://{health_address}/health").status_code)
                time.sleep(0.02)

    def block_the_service() -> None:
        while_blocked.append(httpx.get(f"http://{address}/", timeout=PATIENCE_SECONDS).text)

    async def drive(_stop: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            for work in (ask, compute, compute, block_the_service):
                group.start_soon(to_thread.run_sync, work)
        os.kill(os.getpid(), signal.SIGTERM)

    probe = Probe(lambda: Health([], {}, []))
    probe.look()
    health = (create_health_app(probe), health_address)
    await run_services([(app, address)], [drive, probe.watch], 10, health)
    assert while_blocked == [str(ANSWERS)]
    assert set(answered) == {200}


async def test_status_tells_a_person_in_ten_lines(pair: Pair, tmp_path: Path) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    here = pair.leader.database.presence([Duty.SERVE])
    here.keep()
    done = await to_thread.run_sync(run_here, "status", "--config", leader_file(tmp_path))
    here.close()
    lines = done.stdout.splitlines()
    assert done.returncode == 1  # by the system's clock the reports have waited for years
    assert len(lines) <= 10
    assert lines[0].startswith("leader: not ready")
    assert "3 reports and 0 collections wait" in lines[1]
    assert f"{pair.task.task_id} 3 wait, 0 aggregated, refused: none" in done.stdout


def leader_file(folder: Path) -> Path:
    """Write the settings of the pair's leader, for commands."""
    key = folder / "leader.key"
    key.write_text("A" * 43)  # 32 zero bytes, the key of the pair's stores
    key.chmod(0o600)
    # The pair's clock is years behind a command's.
    return service_file(folder, "leader", "tuning.hpke_rotation_seconds = 0\n")


def _unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)
