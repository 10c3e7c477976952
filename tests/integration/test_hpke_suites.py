"""Aggregators with several HPKE suites at once: a client that knows one of them is served.

And nobody gains by there being several. Who might are a client that has one report counted under
each key, and somebody on the way who has a share opened as something that its client did not seal.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from aggregator.codec import decode, encode
from aggregator.collector.results.result import open_result
from aggregator.dap.hpke import HpkeCiphertext, HpkeConfig, HpkeConfigList, generate_keypair
from aggregator.dap.hpke_suites import NAMED, REQUIRED
from aggregator.dap.ids import encode_base64url
from aggregator.dap.messages import CollectionJobResp, Report
from aggregator.dap.times import DAY
from aggregator.protocol.hpke_rotation import HpkeRotation
from tests.support.entropy import SeededEntropy
from tests.support.pair import Pair, Service
from tests.support.reports import make_reports
from tests.support.tasks import HELPER_URL, LEADER_URL, make_task

SUITES = NAMED["P-256/AES-256-GCM"], NAMED["X25519/ChaCha20-Poly1305"]
COLLECTOR = generate_keypair(3, SeededEntropy(b"collector"), NAMED["P-256/ChaCha20-Poly1305"])
MONTH = 30 * DAY


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    task = make_task(collector_hpke_config=encode_base64url(encode(COLLECTOR.config)))
    async with Pair(tmp_path, task, rotation=HpkeRotation(suites=SUITES)) as pair:
        yield pair


async def advertised(pair: Pair) -> list[tuple[HpkeConfig, ...]]:
    """Return what clients are told, of the leader and of the helper."""
    answers = [await pair.send("GET", f"{url}hpke_config") for url in (LEADER_URL, HELPER_URL)]
    return [decode(HpkeConfigList, answer.body).configs for answer in answers]


async def test_configurations_have_distinct_ids_and_say_how_long_they_may_be_kept(
    pair: Pair,
) -> None:
    answer = await pair.send("GET", f"{LEADER_URL}hpke_config")
    ids = [each.id for each in decode(HpkeConfigList, answer.body).configs]
    assert len({*ids}) == len(ids) == len(SUITES)
    assert answer.headers["cache-control"] == "max-age=86400"


async def upload_to_each(pair: Pair, told: list[tuple[HpkeConfig, ...]]) -> int:
    """Upload a report to every choice of the two aggregators' keys; return how many these are."""
    time = pair.task.time(pair.clock.now())
    reports = [
        make_reports(pair.task, *configs, [1], time, pair.client_entropy)[0]
        for configs in product(*told)
    ]
    assert (await pair.upload(reports)).status == ()
    return len(reports)


async def count(pair: Pair) -> tuple[int, ...]:
    """Collect the batch of now, and open it with the collector's own key."""
    interval = pair.interval(pair.clock.now())
    location = (await pair.ask(interval)).headers["location"]
    await pair.work_until_idle()
    response = decode(CollectionJobResp, (await pair.poll(location)).body)
    return open_result(pair.task, COLLECTOR, pair.request(interval), response).values


async def test_reports_to_any_of_the_suites_are_counted_together(pair: Pair) -> None:
    told = await advertised(pair)
    for configs in told:
        assert [each.suite_ids for each in configs] == [suite.ids for suite in SUITES]
    assert await upload_to_each(pair, told) == 4
    assert await count(pair) == (0, 4, 0, 0)


async def rotate(service: Service) -> int:
    return await service.runtime.key_rotation().run_once()


async def test_a_key_of_each_suite_is_replaced_by_age(pair: Pair) -> None:
    told = await advertised(pair)
    pair.clock.advance(MONTH)
    for service in (pair.leader, pair.helper):
        assert await rotate(service) == len(SUITES)
        assert await rotate(service) == 0
    for configs, before in zip(await advertised(pair), told, strict=True):
        assert [each.suite_ids for each in configs] == [suite.ids for suite in SUITES]
        assert len({each.id for each in (*configs, *before)}) == 2 * len(SUITES)
    both = [old + new for old, new in zip(told, await advertised(pair), strict=True)]
    assert await upload_to_each(pair, both) == 16
    assert await count(pair) == (0, 16, 0, 0)


async def test_a_suite_that_is_set_no_longer_is_advertised_no_longer_but_opened(
    pair: Pair,
) -> None:
    told = await advertised(pair)
    for service in (pair.leader, pair.helper):
        service.database.close()
        service.rotation = HpkeRotation(suites=(SUITES[1], REQUIRED))
        service.start()
        await service.runtime.ensure_keypair()
        assert await rotate(service) == 1
        assert await rotate(service) == 0
    for configs, before in zip(await advertised(pair), told, strict=True):
        assert [each.suite_ids for each in configs] == [SUITES[1].ids, REQUIRED.ids]
        assert configs[0] == before[1]
    assert await upload_to_each(pair, told) == 4
    assert await count(pair) == (0, 4, 0, 0)


def seal_for(pair: Pair, leader: HpkeConfig, helper: HpkeConfig) -> Report:
    """Seal the one report of a client to these keys; its id, shares and time are the same."""
    time, entropy = pair.task.time(pair.clock.now()), SeededEntropy(b"one client")
    return make_reports(pair.task, leader, helper, [1], time, entropy)[0]


async def test_a_report_that_is_sealed_to_every_key_is_counted_once(pair: Pair) -> None:
    told = await advertised(pair)
    reports = [seal_for(pair, *configs) for configs in product(*told)]
    assert len({each.report_metadata.report_id for each in reports}) == 1
    assert len(set(reports)) == 4
    for report in reports:
        await pair.upload([report])
    await pair.upload(reports)
    assert await upload_to_each(pair, told) == 4
    assert await count(pair) == (0, 5, 0, 0)


@pytest.mark.parametrize("whose", ["leader", "helper"])
async def test_a_share_that_is_labelled_with_a_key_of_another_suite_is_not_opened(
    pair: Pair, whose: str
) -> None:
    """The label is in no ciphertext; but what is agreed on depends on the key and the suite."""
    told = await advertised(pair)
    first, other = told[whose == "helper"]
    report = seal_for(pair, told[0][0], told[1][0])
    sealed: HpkeCiphertext = getattr(report, f"{whose}_encrypted_input_share")
    assert sealed.config_id == first.id
    changed = replace(sealed, config_id=other.id)
    await pair.upload([replace(report, **{f"{whose}_encrypted_input_share": changed})])
    assert await upload_to_each(pair, told) == 4, "the others of its jobs are not refused with it"
    assert await count(pair) == (0, 4, 0, 0)
