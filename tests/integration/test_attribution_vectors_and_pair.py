"""The published reports of attribution, made by another implementation, through both aggregators.

Their task comes in band, and so do its collector's rights; nobody adds anything.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from aggregator.codec import decode, encode
from aggregator.collector.results.result import Result, open_result
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.ids import CollectionJobId, encode_base64url
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectionJobResp,
    Report,
    UploadErrors,
    UploadRequest,
)
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import path
from aggregator.dap.times import DAY
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.protocol.in_band import HEADER
from aggregator.service.config import LeaderSettings
from aggregator.service.storage.reports.counters import AGGREGATED, Stage, report_counts
from aggregator.service.storage.tasks.hpke_keys import HpkeKey, put_hpke_key
from tests.support.entropy import SeededEntropy
from tests.support.in_band import agreed_collector, agreements
from tests.support.pair import Answer, Pair, Service
from tests.support.tasks import LEADER_URL, collector_keypair

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "kat" / "data" / "attribution" / "reports.json").read_text("utf-8")
)
TASK = VECTORS["tasks"][0]
CONFIGURATION = bytes.fromhex(TASK["task_configuration"])
REQUEST = bytes.fromhex(TASK["collection_job_req"])
REPORTS = [bytes.fromhex(each["report"]) for each in TASK["reports"]]
MALFORMED = TASK["malformed"]
TOKEN = "agreed-for-the-measuring-site"  # noqa: S105  a test's
LINGER_SECONDS = 10
KEPT_DAYS = 60
SOMEBODY_ELSE = generate_keypair(9, SeededEntropy(b"whose tasks name nobody")).config
PARTNER: dict[str, str | int] = {
    "vdafs": "Prio3L1BoundSum",
    "min_batch_size": 20,
    "collector_hpke_config": encode_base64url(encode(SOMEBODY_ELSE)),
}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A pair with the keys of the vectors that has agreed on their collector, and has no task."""
    agreed = {
        role: agreements(
            role,
            PARTNER,
            {"mechanism": "None"},
            [agreed_collector(role, TASK["collector_identity"], TOKEN)],
        )
        for role in (Role.LEADER, Role.HELPER)
    }
    given = agreed[Role.LEADER].partner_of(CONFIGURATION).provision(CONFIGURATION)
    settings = LeaderSettings(database="none", bundle_linger_seconds=LINGER_SECONDS)
    # Browsers keep a key for as long as a release of theirs, and sites keep reports for weeks.
    rotation = HpkeRotation(cache_seconds=KEPT_DAYS * DAY, age_seconds=KEPT_DAYS * DAY)
    made = Pair(tmp_path, given.task, leader_settings=settings, rotation=rotation)
    for service in (made.leader, made.helper):
        service.agreements = agreed[service.role]
        keys = VECTORS["hpke"][service.role.name.lower()]
        config = bytes.fromhex(keys["hpke_config"])
        key = HpkeKey(config[0], config, bytes.fromhex(keys["private_key"]))
        service.database.run_sync("key of the vectors", lambda tx, key=key: put_hpke_key(tx, key))
        service.restart()
    yield made
    await made.close()


async def begin(pair: Pair) -> str:
    """Return the path of a new collection job."""
    url = pair.url_of("collection_jobs")
    answer = await pair.send("POST", url, CollectionJobReq.message, REQUEST, TOKEN, _header())
    assert answer.status == 201, answer.problem
    return answer.headers["location"]


def _header() -> dict[str, str]:
    return {HEADER: TASK["header"]}


async def hand_in(pair: Pair, job: str, reports: list[bytes]) -> list[tuple[bytes, int]]:
    """Upload reports below a job; return the ids and the errors of those that are refused."""
    name = CollectionJobId.parse(job.rsplit("/", 1)[-1])
    target = path("reports_of_job", task_id=pair.task.task_id, collection_job_id=name)
    url, body = LEADER_URL.rstrip("/") + target, b"".join(reports)
    answer = await pair.send("POST", url, UploadRequest.message, body)
    assert answer.status == 200, answer.problem
    errors = decode(UploadErrors, answer.body).status if answer.body else ()
    return [(each.id.value, each.error) for each in errors]


async def collect(pair: Pair, job: str) -> Answer:
    """Close a job's batch and wait for what becomes of it."""
    url = urljoin(LEADER_URL, job)
    pair.clock.advance(LINGER_SECONDS)
    await pair.send("GET", url, token=TOKEN)
    await pair.work_until_idle()
    return await pair.send("GET", url, token=TOKEN)


def opened(pair: Pair, answer: Answer) -> Result:
    assert answer.status == 200, answer.problem
    request = decode(CollectionJobReq, REQUEST)
    return open_result(
        pair.task, collector_keypair(), request, decode(CollectionJobResp, answer.body)
    )


def id_of(report: str) -> bytes:
    return decode(Report, bytes.fromhex(report)).report_metadata.report_id.value


def counted(service: Service) -> Counter[str]:
    """Return how many reports an aggregator has not counted at aggregation, by reason."""
    task_id = bytes.fromhex(TASK["task_id"])
    counts = service.database.read_sync(
        "counts", lambda tx: report_counts(tx, task_id, Stage.AGGREGATION)
    )
    return Counter({reason: count for reason, count in counts.items() if reason != AGGREGATED})


async def test_the_published_reports_are_summed_exactly(pair: Pair) -> None:
    job = await begin(pair)
    assert await hand_in(pair, job, REPORTS) == []
    result = opened(pair, await collect(pair, job))
    assert list(result.values) == TASK["sum"]
    assert result.report_count == len(REPORTS)


async def test_malformed_reports_are_refused_with_the_error_that_is_published(pair: Pair) -> None:
    job, profile = await begin(pair), pair.task.profile
    malformed = [bytes.fromhex(each["report"]) for each in MALFORMED]
    refused = await hand_in(pair, job, [*malformed, *REPORTS])
    errors = [(each, ReportError(each["error"])) for each in MALFORMED]
    names = {id_of(each["report"]): each["what"] for each in MALFORMED}
    assert {names[report_id]: code for report_id, code in refused} == {
        each["what"]: profile.code(profile.at_upload.get(error, error))
        for each, error in errors
        if each["seen"] == "upload"
    }
    result = opened(pair, await collect(pair, job))
    assert list(result.values) == TASK["sum"]
    assert counted(pair.leader) == Counter(
        profile.at_aggregation.get(error, error).draft_name
        for each, error in errors
        if each["seen"] != "upload"
    )


async def test_a_report_below_the_budget_of_its_collection_is_refused_as_it_comes(
    pair: Pair,
) -> None:
    """It would make the helper refuse the whole bundle."""
    (poor,) = [each for each in MALFORMED if "one micro-epsilon less" in each["what"]]
    refused = await hand_in(pair, await begin(pair), [bytes.fromhex(poor["report"])])
    assert refused == [(id_of(poor["report"]), 3)]


async def test_a_report_opens_weeks_after_the_key_of_its_browser_was_replaced(pair: Pair) -> None:
    async def days_later(days: int) -> None:
        for _ in range(days):
            pair.clock.advance(DAY)
            for service in (pair.leader, pair.helper):
                await service.runtime.key_rotation().run_once()

    old = {each.id for each in await pair.configs()}
    await days_later(KEPT_DAYS + 1)
    assert old.isdisjoint({each.id for each in await pair.configs()})
    await days_later(2 * KEPT_DAYS - 2)
    job = await begin(pair)
    assert await hand_in(pair, job, REPORTS) == []
    assert list(opened(pair, await collect(pair, job)).values) == TASK["sum"]
    await days_later(2)
    refused = await hand_in(pair, await begin(pair), [bytes.fromhex(MALFORMED[-1]["report"])])
    assert [error for _, error in refused] == [11], "outdated_config"
