"""From reports to the collector's stored document: what it holds, and what it must not hold."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path

import httpx
import pytest

from aggregator.collector import models, store
from aggregator.collector.documents import Document
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import CollectionState
from tests.support.collector_service import CollectorService
from tests.support.entropy import SeededEntropy
from tests.support.pair import LEASE_SECONDS, NOW, Pair
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, make_task

START = NOW // TIME_PRECISION * TIME_PRECISION
GEOMETRIC: Mapping[str, str | int] = {
    "mechanism": "TruncatedGeometric",
    "epsilon": "4",
    "delta": "1e-5",
}
K = 6  # the least k with an edge mass of at most 1/200000 at epsilon 2


@asynccontextmanager
async def collected(
    folder: Path, task: Task, measurements: Sequence[int | list[int]]
) -> AsyncIterator[tuple[Document, httpx.AsyncClient]]:
    """Upload and collect; give the finished collection's document, and the collector's API."""
    pair = Pair(folder, task)
    await pair.provision()
    await pair.upload(await pair.reports(measurements))
    service = CollectorService(folder, task, clock=pair.clock, http=pair.http)
    request = collection_request(task, {"start": START, "end": START + TIME_PRECISION})
    new = new_collection(task, request, SeededEntropy(b"collector"))
    service.database.run_sync("put collection", lambda tx: store.put_collection(tx, new))
    driver, api = service.driver, service.client(shows_token=True)
    try:
        await driver.ask(new.collection_id)
        await pair.work_until_idle()
        pair.clock.advance(LEASE_SECONDS)
        assert await driver.ask(new.collection_id) is None
        answer = await api.get(f"/api/collections/{new.collection_id.hex()}")
        document: Document = answer.json()
        assert document["state"] == CollectionState.FINISHED, document
        models.Collection.model_validate_json(answer.content)
        yield document, api
    finally:
        await api.aclose()
        service.database.close()
        await pair.close()


def result_of(document: Document) -> Document:
    result = document["result"]
    assert isinstance(result, dict)
    return result


async def test_with_truncated_noise_only_buckets_above_their_thresholds_are_kept(
    tmp_path: Path,
) -> None:
    privacy = {**GEOMETRIC, "public_threshold": 0, "public_buckets": "3"}
    task = make_task(privacy=privacy)
    assert task.policy.thresholds is not None
    assert task.policy.thresholds.of_buckets(task.prio3.circuit, task.policy.mechanism) == [
        *[2 * K] * 3,
        0,
    ]
    async with collected(tmp_path, task, [0] * 60 + [1] * 3 + [3] * 20) as (document, _):
        result = result_of(document)
    values = result["values"]
    assert isinstance(values, list)
    assert values[1] is values[2] is None
    assert abs(values[0] - 60) <= 2 * K
    assert abs(values[3] - 20) <= 2 * K
    selection = result["selection"]
    assert isinstance(selection, dict)
    assert (selection["rule"], selection["shown"], selection["withheld"]) == ("threshold", 2, 2)
    assert selection["shown_above"] == {"private": 2 * K, "public": 0, "public_buckets": [3]}
    assert "no bucket that nobody chose is shown" in selection["guarantee"]
    assert "half widths: before selection" in str(result["error"])
    privacy_shown = result["privacy"]
    assert isinstance(privacy_shown, dict)
    assert (privacy_shown["epsilon"], privacy_shown["delta"]) == ("4", "1/100000")
    assert privacy_shown["neighbours"] == "replacement"
    assert result["scale"] == f"truncated symmetric geometric, t = 1/2, k = {K}"


async def test_suppressed_counts_are_in_no_file_of_the_collectors(tmp_path: Path) -> None:
    task = make_task(privacy={**NO_NOISE, "suppress_at_or_below": 5}, min_batch_size=12)
    async with collected(tmp_path, task, [0] * 4 + [1] * 11 + [2] * 12 + [3] * 13) as found:
        document, _ = found
    result = result_of(document)
    assert result["values"] == [None, None, 12, 13]  # 11 would have told the 4
    selection = result["selection"]
    assert isinstance(selection, dict)
    assert (selection["rule"], selection["withheld"]) == ("suppression", 2)
    assert selection["suppressed_at_or_below"] == 5
    assert selection["theorem"] is None
    assert "No guarantee" in selection["guarantee"]
    assert "The collector sees every count" in selection["caveats"][0]
    privacy = result["privacy"]
    assert isinstance(privacy, dict)
    assert privacy["mechanism"] == "None"
    assert privacy["epsilon"] is None
    assert "[4, 11" not in json.dumps(document)
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("collector.sqlite*"))  # noqa: ASYNC240 - nothing else runs
    assert b"[null, null, 12, 13]" in stored
    assert b"[4, 11" not in stored


async def test_a_count_comes_with_the_theorems_figures(tmp_path: Path) -> None:
    privacy = {**NO_NOISE, "suppress_at_or_below": 10, "assumed_probability": "1/20"}
    task = make_task({"type": "Prio3Count"}, privacy, min_batch_size=22)
    async with collected(tmp_path, task, [1] * 3 + [0] * 57) as (document, _):
        result = result_of(document)
    assert result["values"] == [None]
    selection = result["selection"]
    assert isinstance(selection, dict)
    theorem = selection["theorem"]
    assert theorem["assumed_probability_below"] == "1/20"
    # C(59, 10) p^10 (1-p)^49, and that over 1 - r with r = p 59 / ((1-p) 10)
    assert theorem["sharper"]["delta"] == pytest.approx(4.969496630925939e-4, rel=1e-9)
    ratio = Fraction(59, 190)
    assert theorem["delta"] == pytest.approx(4.969496630925939e-4 / float(1 - ratio), rel=1e-9)


async def test_post_processed_values_stand_beside_the_raw_ones(tmp_path: Path) -> None:
    task = make_task(privacy=LAPLACE)
    async with collected(tmp_path, task, [0] * 20 + [3] * 3) as (document, api):
        url = f"/api/collections/{document['collection_id']}"
        raw = result_of(document)["values"]
        assert isinstance(raw, list)
        for rule in ("clamp", "simplex"):
            shown = await api.get(url, params={"post_process": rule})
            models.Collection.model_validate_json(shown.content)
            answer = shown.json()["result"]
            assert answer["values"] == raw
            processed = answer["post_processed"]
            assert processed["rule"] == rule
            assert processed["statement"].startswith("Post-processed")
            assert all(0 <= value <= 23 for value in processed["integers"])
        assert sum(processed["integers"]) == 23
        assert sum(map(Fraction, processed["values"])) == 23
        unknown = await api.get(url, params={"post_process": "round"})
        assert unknown.status_code == 400
        assert "post_process" in unknown.json()["detail"]
        assert (await api.get(url)).json() == document


async def test_what_cannot_be_projected_is_refused_and_the_result_stays(tmp_path: Path) -> None:
    task = make_task({"type": "Prio3Count"}, LAPLACE)
    async with collected(tmp_path, task, [1, 0, 1]) as (document, api):
        url = f"/api/collections/{document['collection_id']}"
        refused = await api.get(url, params={"post_process": "simplex"})
        assert refused.status_code == 400
        assert "Prio3Count" in refused.json()["detail"]
        assert (await api.get(url)).json() == document


async def test_an_unbound_policy_is_called_so_in_the_result(tmp_path: Path) -> None:
    for is_bound in (True, False):
        folder = tmp_path / str(is_bound)
        folder.mkdir()
        task = make_task(privacy={**LAPLACE, "bound": is_bound})
        assert task.is_policy_bound is is_bound
        async with collected(folder, task, [0, 1, 2]) as (document, _):
            privacy = result_of(document)["privacy"]
        assert isinstance(privacy, dict)
        assert privacy["bound_into_reports"] is is_bound
        assert privacy["epsilon"] == "1/2"
