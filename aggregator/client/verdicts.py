"""What a client makes of a leader's word on a report: one table, which `browser/client.js` repeats.

Only a word on the facts of a report settles it at once. A client knows that its own bytes are well
formed, so whoever cannot read them may be a leader with another task file or a broken proxy: the
report waits until that was said on several days. A clock of one moment settles nothing either.
"""

import dataclasses
from enum import StrEnum

from aggregator.client.records import Outcome, Record, State
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY

SEVERAL_DAYS = 5
"""On how many days a leader declines a report before it is given up: more than a long weekend."""

UNKNOWN_TASK = "unrecognizedTask"
"""A leader being set up will know the task later, and the answer is only here."""


class Verdict(StrEnum):
    """What a client does with a report after a leader's word on it."""

    COUNTED = "counted"
    LATE = "late"
    EARLY = "early"
    """It waits for its time, and is never refused for this."""

    OUTDATED = "outdated"
    """It is sealed again, if there are other keys."""

    DOUBTED = "doubted"
    """It waits, and is refused once this was said on several days."""

    REFUSED = "refused"
    """It is refused at once: waiting changes nothing about its permit."""


_VERDICTS = {
    ReportError.REPORT_REPLAYED: Verdict.COUNTED,
    ReportError.BATCH_COLLECTED: Verdict.LATE,
    ReportError.REPORT_DROPPED: Verdict.LATE,
    ReportError.TASK_EXPIRED: Verdict.LATE,
    ReportError.REPORT_TOO_EARLY: Verdict.EARLY,
    ReportError.TASK_NOT_STARTED: Verdict.EARLY,
    # What leaders answer, by the draft or by habit, to a report sealed to a key they do not have.
    ReportError.OUTDATED_CONFIG: Verdict.OUTDATED,
    ReportError.HPKE_UNKNOWN_CONFIG_ID: Verdict.OUTDATED,
    # An unknown permit waits: its list may come later.
    ReportError.PERMIT_SPENT: Verdict.REFUSED,
    ReportError.PERMIT_OF_ANOTHER_WINDOW: Verdict.REFUSED,
}
_BY_NAME = {
    "": Verdict.COUNTED,
    UNKNOWN_TASK: Verdict.EARLY,
    **{error.draft_name: verdict for error, verdict in _VERDICTS.items()},
}


def verdict_of(error: str) -> Verdict:
    """Return what the draft's name of an error means; an empty one is that there was none."""
    return _BY_NAME.get(error, Verdict.DOUBTED)


def outcome_of(error: str) -> Outcome | None:
    """Return the outcome that a leader's word has at once; None if the report waits."""
    verdict = verdict_of(error)
    if verdict is Verdict.COUNTED:
        return Outcome(State.COUNTED)
    if verdict is Verdict.REFUSED:
        return Outcome(State.REFUSED, error)
    return Outcome(State.LATE, error) if verdict is Verdict.LATE else None


def declined(record: Record, now: int) -> Record:
    """Return a record whose report the leader does not take now, with this day counted."""
    days = {*record.declined.split(), str(now // DAY)}
    return dataclasses.replace(record, declined=" ".join(sorted(days)))


def given_up(
    record: Record, error: str, now: int, max_age_seconds: int, clock_ahead: int | None
) -> Outcome | None:
    """Return the outcome of a report that the leader has declined, if on several days.

    Age is told only by a clock that agrees with the leader's; `clock_ahead` is None if that is
    unknown.
    """
    if len(record.declined.split()) < SEVERAL_DAYS:
        return None
    if verdict_of(error) is Verdict.DOUBTED:
        return Outcome(State.REFUSED, error)
    is_clock_right = clock_ahead is not None and abs(clock_ahead) < DAY
    is_old = now - record.created > max_age_seconds
    return Outcome(State.LATE, "too_old") if is_clock_right and is_old else None
