"""What a leader remembers of tasks and keys, while a command changes them in its store."""

from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfigList
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type
from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.service.leader.uploads import Uploads
from aggregator.service.runtime import UploadTerms
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import Stage
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.hpke_keys import destroy_hpke_key, retire_hpke_key
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.pair import Pair

HEADERS = {"content-type": media_type(UploadRequest.message)}


async def upload(pair: Pair, measurements: list[int]) -> httpx.Response:
    reports = await pair.reports(measurements)
    body = encode(UploadRequest(tuple(reports)))
    return await pair.http.post(pair.url_of("reports"), content=body, headers=HEADERS)


def errors(answer: httpx.Response) -> list[object]:
    assert answer.status_code == 200, answer.text
    if not answer.content:
        return []
    statuses = decode(UploadErrors, answer.content).status
    return [DAP_18.report_error(each.error) for each in statuses]


async def test_a_second_upload_reads_nothing_but_in_the_transaction_that_stores_it(
    pair: Pair,
) -> None:
    assert errors(await upload(pair, [0])) == []
    begun: list[str] = []
    pair.leader.on_moment = lambda name, moment: begun.append(name) if moment == "begin" else None
    reports = await pair.reports([1])
    begun.clear()
    body = encode(UploadRequest(tuple(reports)))
    answer = await pair.http.post(pair.url_of("reports"), content=body, headers=HEADERS)
    assert answer.status_code == 200
    assert begun == ["upload"]


async def test_a_task_that_has_ended_takes_no_upload_more(pair: Pair) -> None:
    assert errors(await upload(pair, [0])) == []
    await pair.leader.database.run("end", lambda tx: end_task(tx, pair.task.task_id.value))
    assert errors(await upload(pair, [1, 2])) == [ReportError.REPORT_DROPPED] * 2
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {"stored": 1, "report_dropped": 2}


async def test_a_forgotten_task_is_unknown(pair: Pair) -> None:
    assert errors(await upload(pair, [0])) == []
    task_id = pair.task.task_id.value
    await pair.leader.database.run("end", lambda tx: end_task(tx, task_id))
    forget(pair.leader.database, task_id)
    assert (await upload(pair, [1])).status_code == 404


async def test_a_key_that_is_gone_is_refused_and_a_new_one_taken(pair: Pair) -> None:
    assert errors(await upload(pair, [0])) == []
    old = await pair.reports([1])
    gone, made = (await pair.configs())[0].id, list[int]()

    def replace(tx: Transaction) -> None:
        made.append(new_key(tx, pair.leader.runtime.entropy))
        retire_hpke_key(tx, gone)
        destroy_hpke_key(tx, gone)

    await pair.leader.database.run("replace", replace)
    body = encode(UploadRequest(tuple(old)))
    answer = await pair.http.post(pair.url_of("reports"), content=body, headers=HEADERS)
    assert errors(answer) == [ReportError.OUTDATED_CONFIG]
    configs = decode(HpkeConfigList, (await pair.http.get(pair.url_of("hpke_config"))).content)
    assert [config.id for config in configs.configs] == made
    assert errors(await upload(pair, [2])) == []
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {"stored": 2, "outdated_config": 1}


async def test_settings_that_never_stand_still_are_answered_503_and_lose_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aggregator.service.leader import upload_group  # noqa: PLC0415  patched here

    with monkeypatch.context() as patch:
        patch.setattr(upload_group, "settings_version", lambda _tx: -1)
        assert (await upload(pair, [0])).status_code == 503
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {}
    assert errors(await upload(pair, [0])) == []


async def test_a_key_that_goes_while_a_body_comes_is_refused(pair: Pair) -> None:
    """A body may take longer than a retired key is kept."""
    assert errors(await upload(pair, [0])) == []
    body = encode(UploadRequest(tuple(await pair.reports([1]))))
    old = (await pair.configs())[0].id

    async def slowly() -> AsyncIterator[bytes]:
        yield body[:100]
        entropy = pair.leader.runtime.entropy
        await pair.leader.database.run("new", lambda tx: new_key(tx, entropy))
        await pair.leader.database.run("retire", lambda tx: retire_hpke_key(tx, old))
        pair.clock.advance(30 * 86_400)
        yield body[100:]

    answer = await pair.http.post(pair.url_of("reports"), content=slowly(), headers=HEADERS)
    assert errors(answer) == [ReportError.OUTDATED_CONFIG]


async def test_who_looked_before_a_change_delays_and_repeats_nobody_else(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two uploads of a transaction was checked by what is no longer so."""
    runtime, database = pair.leader.runtime, pair.leader.database
    taken = Uploads(runtime, MAX_AGE_SECONDS)
    task_id = pair.task.task_id
    bodies = [encode(UploadRequest(tuple(await pair.reports([n])))) for n in range(3)]
    stale = await runtime.upload_terms(task_id)
    await database.run("new", lambda tx: new_key(tx, runtime.entropy))
    runtime.forget_terms(stale.version)
    looked: list[int] = []
    real = runtime.upload_terms

    async def looks(of: TaskId) -> UploadTerms:
        looked.append(1)
        return stale if len(looked) == 2 else await real(of)

    monkeypatch.setattr(runtime, "upload_terms", looks)
    async with anyio.create_task_group() as group:
        for body in bodies:  # written together
            group.start_soon(taken.take, task_id, body)
    assert len(looked) == 4  # one looked again
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {"stored": 3}
