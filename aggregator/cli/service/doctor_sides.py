"""Both aggregators' versions, limits and tasks, compared by their operators.

Nobody publishes these, so each `prio doctor --ours` prints its own side, and `--theirs` reads the
other's.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

import aggregator
from aggregator.cli.service.parties import AggregatorParty
from aggregator.codec import encode
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.permit_lists import in_short
from aggregator.protocol.task import Task
from aggregator.service.config import (
    ANSWER_SECONDS,
    HelperSettings,
    LeaderSettings,
    in_words,
    place_of,
)
from aggregator.service.leader.job_creator import MAX_JOB_BYTES
from aggregator.service.runtime.in_band import agreements_of
from aggregator.service.storage.operator.permits import count_permits
from aggregator.service.storage.tasks.tasks import get_task
from aggregator.service.transport.examination import Finding
from aggregator.untrusted_text import escaped
from aggregator.written_times import utc_text

_MOST_BYTES = 16 * 2**20
_DIGEST_DIGITS = 16


class Side(BaseModel):
    """An aggregator's own side, as JSON for the other operator.

    Attributes:
        version: The version of this document.
        role: The aggregator's role.
        prio: The version of its program.
        clock_skew_seconds: How far ahead of its clock a report may lie.
        max_report_age_seconds: How far behind its clock a report may lie.
        answer_seconds: How long it may take to answer a request.
        request_timeout_seconds: How long a leader waits for its helper; None for a helper.
        max_job_bytes: The most bytes of reports in a leader's job; None for a helper.
        max_body_size: The most bytes of one job at a helper; None for a leader.
        tasks: Fingerprints of the tasks that it shares with the other, by task id.
        permits: Of the domains of permits that these tasks have, how many each window has, and the
            digest of its list, by the window's beginning.
        verify_keys: Digests by which verification keys can be compared; they reveal nothing else of
            the 32 random bytes.
        collectors: Digests of the HPKE configurations of collectors that tasks in band of these two
            aggregators may name, by their identity.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    role: Literal["leader", "helper"]
    prio: str
    clock_skew_seconds: NonNegativeInt
    max_report_age_seconds: PositiveInt | None = None
    answer_seconds: PositiveInt
    request_timeout_seconds: PositiveInt | None = None
    max_job_bytes: PositiveInt | None = None
    max_body_size: PositiveInt | None = None
    tasks: dict[str, str]
    verify_keys: dict[str, str] = {}
    permits: dict[str, dict[str, str]] = {}
    collectors: dict[str, str] = {}


def side_of(party: AggregatorParty, shared: Sequence[Task], endpoint: str) -> Side:
    """Return our side of what we share with the other aggregator, at an endpoint."""
    settings = party.settings
    timeout = settings.request_timeout_seconds if isinstance(settings, LeaderSettings) else None
    is_leader = party.role is Role.LEADER
    return Side(
        role="leader" if is_leader else "helper",
        prio=aggregator.__version__,
        clock_skew_seconds=settings.clock_skew_seconds,
        max_report_age_seconds=(
            settings.max_report_age_seconds
            if isinstance(settings, LeaderSettings | HelperSettings)
            else None
        ),
        answer_seconds=ANSWER_SECONDS,
        request_timeout_seconds=timeout,
        max_job_bytes=MAX_JOB_BYTES if is_leader else None,
        max_body_size=settings.max_body_size if isinstance(settings, HelperSettings) else None,
        tasks={str(task.task_id): task.fingerprint for task in shared},
        verify_keys={str(each): digest for each, digest in _key_digests(party, shared)},
        permits={
            encode_base64url(domain): said for domain, (_, said) in lists_of(party, shared).items()
        },
        collectors=dict(_collectors(party, endpoint)),
    )


def _collectors(party: AggregatorParty, endpoint: str) -> Iterator[tuple[str, str]]:
    agreements = agreements_of(party.settings)
    for endpoints, partner in ({} if agreements is None else agreements.partners).items():
        for identity, agreed in partner.collectors.items() if endpoint in endpoints else ():
            if identity is not None:
                digest = hashlib.sha256(encode(agreed.hpke_config)).hexdigest()[:_DIGEST_DIGITS]
                yield identity, digest


def lists_of(
    party: AggregatorParty, shared: Sequence[Task]
) -> dict[bytes, tuple[Task, dict[str, str]]]:
    """Return, by domain, one of its tasks and our lists in short, by a window's beginning."""
    domains = {task.permits.domain: task for task in shared if task.permits is not None}
    found = {}
    for domain, task in domains.items():
        counted = party.database.read_sync("count", partial(count_permits, domain=domain))
        said = {
            utc_text(task.permits_from(each.window)): in_short(each.given, each.digest)
            for each in counted
            if each.given
        }
        found[domain] = task, said
    return found


def _key_digests(party: AggregatorParty, shared: Sequence[Task]) -> Iterator[tuple[TaskId, str]]:
    for task_id in (task.task_id for task in shared):
        stored = party.database.read_sync("task", partial(get_task, task_id=task_id.value))
        if stored is not None:  # a task that is not forgotten
            content = b"prio verification key" + task_id.value + stored.record.verify_key
            yield task_id, hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]


def read_side(file: Path) -> Side:
    """Read what the other operator's `prio doctor --ours` printed, or raise `ParameterError`."""
    with file.open("rb") as stream:
        text = stream.read(_MOST_BYTES)
    try:
        return Side.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        says = ": ".join(filter(None, (place_of(first["loc"]), in_words(first))))
        raise ParameterError(f"theirs: {file}: not what --ours prints: {escaped(says)}") from None


def compared(ours: Side, theirs: Side) -> Iterator[Finding]:
    """Yield findings where the two sides, of different roles, do not fit together.

    Raises `ParameterError` if both sides have the same role.
    """
    if ours.role == theirs.role:
        raise ParameterError(f"theirs: a {theirs.role}'s, as ours is; give the other aggregator's")
    leader, helper = (ours, theirs) if ours.role == "leader" else (theirs, ours)
    yield Finding(
        "ok" if leader.prio == helper.prio else "look",
        "versions",
        f"leader {escaped(leader.prio)}, helper {escaped(helper.prio)}",
    )
    yield _at_most(
        "waiting",
        ("the helper's answer_seconds", helper.answer_seconds),
        ("the leader's request_timeout_seconds", leader.request_timeout_seconds),
        "the leader gives up what the helper still works at",
    )
    yield _at_most(
        "job size",
        ("bytes of reports in the leader's largest job", leader.max_job_bytes),
        ("the helper's max_body_size", helper.max_body_size),
        "the helper refuses the leader's largest jobs",
    )
    yield _at_most(
        "report age",
        ("the leader's max_report_age_seconds", leader.max_report_age_seconds),
        ("the helper's", helper.max_report_age_seconds),
        "the helper drops reports that the leader has accepted",
    )
    skews = f"leader {leader.clock_skew_seconds} s, helper {helper.clock_skew_seconds} s"
    is_even = leader.clock_skew_seconds == helper.clock_skew_seconds
    later = "; reports that only one takes wait until the other does, too"
    yield Finding("ok" if is_even else "look", "skew", skews + ("" if is_even else later))
    for task in sorted(ours.tasks.keys() | theirs.tasks.keys()):
        keys = [side.verify_keys.get(task) for side in (ours, theirs)]
        if None not in keys and keys[0] != keys[1]:
            says = f"{escaped(task)}: two different verify_keys: no report of it can pass"
            yield Finding("fault", "key", says)
        yield _of_task(task, ours.tasks.get(task), theirs.tasks.get(task))
    for domain in sorted(ours.permits.keys() & theirs.permits.keys()):
        yield from compared_lists(domain, ours.permits[domain], theirs.permits[domain])
    for identity in sorted(ours.collectors.keys() | theirs.collectors.keys()):
        yield _of_collector(identity, *(each.collectors.get(identity) for each in (ours, theirs)))


def compared_lists(
    domain: str, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield findings where both sides' lists of permits differ, by the beginning of a window."""
    name = f"domain {escaped(domain)}"
    others = [
        each for each in sorted(ours.keys() | theirs.keys()) if ours.get(each) != theirs.get(each)
    ]
    if not others:
        says = f"{name}: the same lists of {len(ours)} windows on both sides"
        yield Finding("ok" if ours else "look", "permits", says)
    for window in others:
        here, there = (escaped(side.get(window, "no permits")) for side in (ours, theirs))
        yield Finding(
            "fault",
            "permits",
            f"{name}, window from {escaped(window)}: {here} here, {there} there: what is in "
            "one list only is not counted",
        )


def _at_most(
    subject: str, low: tuple[str, int | None], high: tuple[str, int | None], otherwise: str
) -> Finding:
    (low_name, least), (high_name, most) = low, high
    says = f"{low_name} {least}, {high_name} {most}"
    if least is None or most is None:
        return Finding("look", subject, f"{says}: not all is said")
    if least > most:
        return Finding("fault", subject, f"{says}: {otherwise}")
    return Finding("ok", subject, says)


def _of_collector(identity: str, ours: str | None, theirs: str | None) -> Finding:
    name = escaped(identity)
    if ours is None or theirs is None:
        who = "they" if ours is None else "we"
        says = f"{name}: only {who} have it in an agreement, so its tasks are refused"
        return Finding("fault", "identity", says)
    if ours != theirs:
        says = f"{name}: HPKE configuration {ours} here, {escaped(theirs)} there"
        return Finding("fault", "identity", f"{says}: results are sealed to two keys")
    return Finding("ok", "identity", f"{name}: the same HPKE configuration on both sides, {ours}")


def _of_task(task: str, ours: str | None, theirs: str | None) -> Finding:
    name = escaped(task)
    if ours is None or theirs is None:
        who = "they" if ours is None else "we"
        return Finding("look", "task", f"{name}: only {who} take part, or have not forgotten it")
    if ours != theirs:
        says = f"{name}: fingerprint {ours} here, {escaped(theirs)} there: two different tasks"
        return Finding("fault", "task", says)
    return Finding("ok", "task", f"{name}: the same fingerprint on both sides, {ours}")
