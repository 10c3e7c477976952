"""Permits that an issuer signed without seeing them: each counts once, and no other does."""

import dataclasses
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.dap.ids import TaskId
from aggregator.dap.messages import Report
from aggregator.errors import ParameterError
from aggregator.protocol import signed_permits
from aggregator.protocol.reports import prepare_reports, seal_report
from aggregator.protocol.signed_permits import SIGNATURE_SIZE, is_signed
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from aggregator.service.storage.operator.permits import end_permits
from aggregator.service.storage.reports.counters import Stage
from tests.integration.test_permits import answers, collected
from tests.support.entropy import SeededEntropy
from tests.support.pair import NOW, Pair
from tests.support.permitted import (
    DOMAIN,
    SECRETS,
    WINDOW_SECONDS,
    given,
    names,
    openings,
    permitted,
    spent,
)
from tests.support.signed import (
    Permit,
    permits_of,
    reports_of,
    signature_of,
    signed_pair,
    signed_task,
    window_of,
)
from tests.support.tasks import make_task

LATER = NOW + WINDOW_SECONDS
THIRD_ID = TaskId(bytes([255]) * 32)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with signed_pair(tmp_path) as made:
        yield made


async def upload(pair: Pair, reports: list[Report], task: Task | None = None) -> list[str]:
    return names(pair, await pair.upload(reports, task))


async def test_a_signed_permit_counts_once_with_no_list_anywhere(pair: Pair, many: int) -> None:
    permits = permits_of(pair.task, many)
    sent = await reports_of(pair, permits, [1] * many)
    assert await upload(pair, sent) == []
    assert await upload(pair, sent) == []  # a repetition is silent
    again = await reports_of(pair, permits, [3] * many)
    assert await upload(pair, again) == ["permit_spent"] * many
    others = await reports_of(pair, permits_of(pair.task, 3), [0, 0, 2])
    assert await upload(pair, others) == []
    assert await collected(pair) == (2, many, 1, 0)
    assert (spent(pair.leader), spent(pair.helper)) == (many + 3, many + 3)


async def test_what_is_not_signed_for_a_reports_id_is_refused_before_it_is_stored(
    pair: Pair, many: int
) -> None:
    good = permits_of(pair.task, many + 2)
    opening, signature = good[0]
    forged: list[Permit] = [
        (opening, bytes(SIGNATURE_SIZE)),
        (opening, b"\xff" * SIGNATURE_SIZE),
        (opening, signature[:-1] + bytes([signature[-1] ^ 1])),
        (opening, good[1][1]),  # another id's
    ]
    bad = await reports_of(pair, forged, [3] * len(forged))
    honest = await reports_of(pair, good[2:], [0] * many)
    assert await upload(pair, [*honest, *bad]) == ["permit_unknown"] * len(forged)
    found = pair.leader.counts(pair.task, Stage.UPLOAD)
    assert found == {"stored": many, "permit_unknown": len(forged)}
    # The permit with which forgeries were tried is as good as before.
    rest = await reports_of(pair, good[:2], [1, 1])
    assert await upload(pair, rest) == []
    assert await collected(pair) == (many, 2, 0, 0)


async def test_strangers_lack_a_permit_and_other_sizes_are_no_message(pair: Pair) -> None:
    plain = make_task(privacy={"mechanism": "None", "window": 2})
    listed = permitted()
    longer = make_task(
        vdaf={"type": "Prio3Histogram", "length": 5, "chunk_length": 2},
        privacy={"mechanism": "None", "window": 2},
    )
    without = await pair.reports([1], task=plain)
    unsigned = await pair.reports([1], task=listed, openings=openings(listed, SECRETS[:1]))
    other = await pair.reports([1], task=longer)
    refused = await upload(pair, [*without, *unsigned, *other])
    assert refused == ["permit_missing", "permit_missing", "invalid_message"]
    assert spent(pair.leader) == 0


async def test_a_permit_of_another_window_stays_good_in_its_own(pair: Pair) -> None:
    (early,) = permits_of(pair.task, 1, LATER)
    moved = prepare_reports(
        pair.task,
        [1],
        pair.task.time(NOW),
        pair.client_entropy,
        [early[0]],
        [early[1]],
    )[0]
    # Its id is that of the window that it was signed for.
    assert pair.task.permits is not None
    of_later = pair.task.permits.report_id(early[0], window_of(pair.task, LATER))
    moved = dataclasses.replace(
        moved,
        metadata=dataclasses.replace(
            moved.metadata, report_id=dataclasses.replace(moved.metadata.report_id, value=of_later)
        ),
    )
    sealed = seal_report(pair.task, moved, *await pair.configs(), pair.client_entropy)
    assert await upload(pair, [sealed]) == ["permit_of_another_window"]
    assert await answers(pair, [sealed]) == ["permit_of_another_window"]
    # With the id that it would have in this window it is nobody's permit.
    assert await upload(pair, await reports_of(pair, [early], [1])) == ["permit_unknown"]
    pair.clock.advance(WINDOW_SECONDS)
    assert await upload(pair, await reports_of(pair, [early], [1], LATER)) == []


async def test_a_window_without_a_key_counts_nothing(pair: Pair) -> None:
    assert pair.task.issuer_keys is not None
    pair.clock.advance(10 * WINDOW_SECONDS)
    beyond = NOW + 10 * WINDOW_SECONDS
    assert pair.task.issuer_keys.of_window(window_of(pair.task, beyond)) is None
    (permit,) = permits_of(pair.task, 1)
    assert await upload(pair, await reports_of(pair, [permit], [1], beyond)) == ["permit_unknown"]


@pytest.mark.parametrize("first", [0, 1], ids=["of the earlier", "of the later"])
async def test_one_id_that_is_signed_for_two_windows_counts_in_the_one_that_it_names(
    pair: Pair, first: int
) -> None:
    """Otherwise one job could hold two reports of one id, and be refused whole."""
    task, permits = pair.task, pair.task.permits
    assert permits is not None
    opening = secrets.token_bytes(16)
    moments = [NOW, LATER]
    report_id = permits.report_id(opening, window_of(task, moments[first]))
    sealed = []
    for seconds in moments:
        signature = signature_of(task, report_id, window_of(task, seconds))
        (made,) = prepare_reports(
            task, [1], task.time(seconds), pair.client_entropy, [opening], [signature]
        )
        metadata = dataclasses.replace(
            made.metadata,
            report_id=dataclasses.replace(made.metadata.report_id, value=report_id),
        )
        made = dataclasses.replace(made, metadata=metadata)
        sealed.append(seal_report(task, made, *await pair.configs(), pair.client_entropy))
    pair.clock.advance(WINDOW_SECONDS)
    honest = await reports_of(pair, permits_of(task, 2), [0, 2])
    refused = await upload(pair, [*sealed, *honest])
    assert refused == ["permit_of_another_window"]
    # A leader that sends it all the same: the helper refuses it, and nothing else.
    other = sealed[1 - first]
    assert await answers(pair, [other, honest[0]]) == ["permit_of_another_window", "counted"]


async def test_a_leader_can_neither_make_reports_up_nor_use_what_it_has_seen(pair: Pair) -> None:
    good = permits_of(pair.task, 3)
    honest = await reports_of(pair, good, [0, 1, 2])
    assert await upload(pair, honest) == []
    # It has seen the id and the signature of the first, and knows no opening.
    (fresh,) = prepare_reports(
        pair.task, [3], pair.task.time(NOW), pair.client_entropy, [good[0][0]], [good[0][1]]
    )
    taken = dataclasses.replace(fresh, opening=bytes(16))
    configs = await pair.configs()
    stuffed = seal_report(pair.task, taken, *configs, pair.client_entropy)
    made_up = await reports_of(pair, [(bytes(16), bytes(SIGNATURE_SIZE))], [3])
    assert await answers(pair, [stuffed, *made_up]) == ["permit_unknown"] * 2
    assert spent(pair.helper) == 0
    assert await collected(pair) == (1, 1, 1, 0)


async def test_a_signed_task_lets_nothing_into_a_listed_one_of_its_domain(pair: Pair) -> None:
    """Both kinds in one transaction: a report without an entry does not count as signed."""
    listed = permitted(THIRD_ID)
    await pair.provision(listed)
    for service in (pair.leader, pair.helper):
        given(service, listed, secrets=SECRETS[:1])
    sent = await reports_of(pair, permits_of(pair.task, 2), [0, 0])
    people = await pair.reports([1, 1], task=listed, openings=openings(listed, SECRETS[:2]))
    assert await upload(pair, sent) == []
    assert await upload(pair, people, listed) == ["permit_unknown"]


async def test_a_window_that_was_ended_takes_no_signed_permit(pair: Pair) -> None:
    good = permits_of(pair.task, 2)
    assert await upload(pair, await reports_of(pair, good[:1], [1])) == []
    await pair.work_until_idle()
    for service in (pair.leader, pair.helper):
        end_permits(service.database, DOMAIN, window_of(pair.task, LATER))
    late = await reports_of(pair, good, [1, 1])
    assert await upload(pair, late) == ["permit_of_another_window"] * 2
    assert await answers(pair, late) == ["permit_of_another_window"] * 2


def test_a_report_is_not_made_without_its_signature() -> None:
    task = signed_task()
    (permit,) = permits_of(task, 1)
    time = task.time(NOW)
    for signatures, reason in ((None, "0 given"), ([b"short"], "must be 256 bytes, not 5")):
        with pytest.raises(ParameterError, match=reason):
            prepare_reports(task, [1], time, SeededEntropy(b"x"), [permit[0]], signatures)


def test_a_task_with_signed_permits_is_what_its_file_says() -> None:
    task = signed_task()
    assert task_from_toml(task_to_toml(task)) == task
    assert task.permits is not None
    assert task.permits.is_signed


async def test_no_signature_is_verified_while_a_transaction_writes(
    pair: Pair, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing: set[str] = set()
    written: set[str] = set()
    verified: list[set[str]] = []

    def note(name: str, moment: str) -> None:
        if moment == "begin":
            writing.add(name)
            written.add(name)
        elif moment == "committed":
            writing.discard(name)

    def watched(modulus: bytes, text: bytes, signature: bytes) -> bool:
        verified.append({*writing})
        return is_signed(modulus, text, signature)

    monkeypatch.setattr(signed_permits, "is_signed", watched)
    pair.leader.on_moment = pair.helper.on_moment = note
    permits = permits_of(pair.task, many + 2)
    assert await upload(pair, await reports_of(pair, permits, [1] * (many + 2))) == []
    await pair.work_until_idle()
    assert len(verified) >= 2 * (many + 2)  # at both aggregators
    assert not any(verified)
    assert {"upload", "commit aggregation job"} <= written
    assert spent(pair.helper) == many + 2
