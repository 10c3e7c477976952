"""What commands that upload share: where reports wait and go, and what became of them, in words."""

import dataclasses
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.dap.report_errors import ReportError
from aggregator.errors import PeerError
from aggregator.written_times import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from ssl import SSLContext

    from aggregator.client import Outbox
    from aggregator.client.bulk import Uploaded
    from aggregator.client.stdlib_sender import HttpSender
    from aggregator.protocol.task import Task

PerRequest = Annotated[int, typer.Option(min=1, help="How many reports one request carries.")]

_MOST_BYTES = 2**40

MEANINGS = {
    ReportError.BATCH_COLLECTED: "the batch of that time was collected",
    ReportError.REPORT_DROPPED: "the task has ended, or takes no more reports of that time",
    ReportError.REPORT_TOO_EARLY: "the time lies in the future, or is being collected just now",
    ReportError.VDAF_VERIFY_ERROR: "the aggregators found it invalid, and it does not count",
    ReportError.PERMIT_SPENT: "another answer was counted for the same personal link",
    ReportError.PERMIT_OF_ANOTHER_WINDOW: "the personal link does not count in that window",
    ReportError.HPKE_DECRYPT_ERROR: "an aggregator could not open it, and it does not count",
}
"""What the leader's reasons mean to a client."""


_REASONS = {
    "unreachable": "{leader} or {helper} could not be reached",
    "busy": "{leader} or {helper} is busy",
    "not_an_aggregator": "no aggregator answered at {leader} or {helper}",
    "unrecognizedTask": "the task is not known at {leader}",
    "report_too_early": "their time lies in the future, or is being collected just now",
    "permit_unknown": "no list that {leader} was given has their personal links",
    "too_large": "{leader} takes no request with a report of this size",
}
"""Why reports wait."""


def outbox_in(state: Path | None) -> "Outbox":
    """Return the outbox in a file, or in memory if there is none."""
    from aggregator.client import Outbox

    return Outbox(state, _MOST_BYTES)


def sender_to(
    *,
    environment_proxy: bool,
    tls: "SSLContext | None" = None,
    headers: "Mapping[str, str] | None" = None,
) -> "HttpSender":
    """Return what sends to aggregators, through the environment's proxies if that is asked for."""
    from aggregator.client.stdlib_sender import HttpSender, environment_proxies
    from aggregator.protocol.clear_text import check_proxies

    if not environment_proxy:
        return HttpSender(headers=headers, tls=tls)
    check_proxies()
    return HttpSender(headers=headers, proxies=environment_proxies(), tls=tls)


def with_progress(total: int, send: "Callable[[Callable[[int], None]], Uploaded]") -> "Uploaded":
    """Upload so many reports with a bar on a terminal; `send` is given what moves it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=total)
        return send(lambda count: progress.advance(bar, count))


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """What became of the reports of some tasks.

    Attributes:
        accepted: How many the leader counts.
        refused: How many it does not, by the draft's name of the reason.
        waiting: How many have no outcome yet.
        before: How many were left out, since their people had answered before.
        refused_before: How many of these were refused then, by the name of the reason.
    """

    accepted: int
    refused: "Mapping[str, int]"
    waiting: int
    before: int
    refused_before: "Mapping[str, int]"

    def print(self, name: str = "") -> None:
        """Print it in lines, each beginning with a name if one is given."""
        begin = f"{name}: " if name else ""
        count = self.accepted + sum(self.refused.values()) + self.waiting
        left_out = f", {self.before} left out, who had answered before" if self.before else ""
        print(f"{begin}{self.accepted} of {count} reports accepted{left_out}")
        meanings = {error.draft_name: f" ({meaning})" for error, meaning in MEANINGS.items()}
        for refusals, then in ((self.refused, ""), (self.refused_before, " before")):
            for reason, refused in refusals.items():
                print(f"{begin}{refused} refused{then}: {reason}{meanings.get(reason, '')}")

    def to_json(self) -> dict[str, object]:
        """Return it as members of a document."""
        return {
            "accepted": self.accepted,
            "refused": dict(self.refused),
            "answered_before": self.before,
            "refused_before": dict(self.refused_before),
            "waiting": self.waiting,
        }


def summary_of(
    found: "Uploaded", *tasks: bytes, total: int, is_list: bool = False, is_kept: bool = True
) -> Summary:
    """Return what became of the reports of tasks.

    Args:
        found: The upload.
        tasks: Their ids.
        total: How many reports it was to send, with those that were left out.
        is_list: Whether what an earlier call settled is of the same list, and so not left out.
        is_kept: Whether reports that the leader does not take now are kept to be sent again; if
            not, they are refused.
    """
    from aggregator.client.bulk import told_apart

    outcomes, before = found.of(*tasks), found.before_of(*tasks)
    if is_list:
        outcomes, before = outcomes + before, Counter()
    accepted, refused = told_apart(outcomes)
    _, refused_before = told_apart(before)
    if not is_kept and found.reason is None:
        refused += Counter(found.declined.values())
    left = total - before.total() - accepted - refused.total()
    # What waited of another list is settled beyond `total`, and hides nothing of this one.
    known = sum(found.unmade[task] + (found.waiting[task] if is_kept else 0) for task in tasks)
    waiting = max(left, known)
    return Summary(accepted, refused, waiting, before.total(), refused_before)


def note_others(found: "Uploaded", tasks: "Iterable[bytes]", state: Path | None) -> None:
    """Say on standard error how many reports wait that are of none of these tasks."""
    others = found.waiting.total() - sum(found.waiting[task] for task in {*tasks})
    if others:
        print(
            f"{others} reports of other tasks wait in {state}: only the command that made them, "
            "with the same task file and --spelled, sends them",
            file=sys.stderr,
        )


def teller(task: "Task") -> "Callable[[str], None]":
    """Return what says each reason once, on standard error, why an upload is tried again."""
    said = set[str]()

    def tell(reason: str) -> None:
        if reason not in said:
            said.add(reason)
            again = "trying again for a minute or so, or until Ctrl-C"
            print(f"prio: {_in_words(reason, task)}; {again}", file=sys.stderr, flush=True)

    return tell


def _in_words(reason: str, task: "Task") -> str:
    configuration = task.configuration
    return _REASONS.get(reason, "the leader does not take them now").format(
        leader=configuration.leader_aggregator_endpoint,
        helper=configuration.helper_aggregator_endpoint,
    )


def check_sent(found: "Uploaded", waiting: int, state: Path | None, task: "Task") -> None:
    """Raise `PeerError` if reports have no outcome yet, or the call ended before all were made."""
    if not waiting and found.reason is None:
        return
    reason = found.reason or next(iter(found.declined.values()), "")
    why = _in_words(reason, task)
    goes_on = (
        "the same command sends them"
        if state is not None
        else "some of them may be counted; with --state the same command would go on"
    )
    are = "is" if waiting == 1 else "are"
    unsettled = f"{counted(waiting, 'report')} {are} not settled"
    raise PeerError(f"{unsettled}, as {why} ({reason}): {goes_on}")
