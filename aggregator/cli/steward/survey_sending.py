"""Sends a table of answers to a survey: all of it, or once for each person of a state folder."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.entropy import SystemEntropy
from aggregator.errors import PeerError

if TYPE_CHECKING:
    from aggregator.client import UploadSummary
    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.protocol.requirements import Floor
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Answers, Meaning
    from aggregator.steward.survey.written import Written

_REPORTS = "reports.sqlite"


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """What became of the survey's own reports.

    Attributes:
        accepted: How many were counted.
        refused: How many were not, by the draft's name of the reason.
        before: How many people had answered before, whose rows were left out.
        refused_before: How many reports of these were refused then, by the name of the reason.
        waiting: How many reports still wait, and `reason` why.
    """

    accepted: int
    refused: Mapping[str, int]
    before: int = 0
    refused_before: Mapping[str, int] = dataclasses.field(default_factory=dict)
    waiting: int = 0
    reason: str = ""


async def upload_all(
    task: "Task",
    meaning: "Meaning",
    answers: "Answers",
    per_request: int,
    floor: "Floor",
    http_options: dict[str, bool],
) -> Sent:
    """Send all answers, and return how many reports were accepted and refused."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client import Client
    from aggregator.service.transport.client import open_client

    console = Console(stderr=True)
    accepted, refused, sent = 0, Counter[str](), 0
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=answers.count)

        def advance(count: int) -> None:
            nonlocal sent
            sent += count
            progress.advance(bar, count)

        async with open_client(
            insecure_http=http_options["insecure_http"],
            environment_proxy=http_options["environment_proxy"],
        ) as http:
            client = Client(task, http, floor=floor)
            for start, of_window in sorted(answers.by_start.items()):
                try:
                    summary = await client.upload(
                        [meaning.sheet.measurement(given) for given in of_window],
                        time=start,
                        reports_per_request=per_request,
                        progress=advance,
                    )
                except PeerError:
                    console.print(
                        f"prio: {sent} reports are settled, window after window; it ended in "
                        f"{meaning.windows.describe(start)}"
                    )
                    raise
                accepted += summary.accepted
                refused.update(
                    {error.draft_name: count for error, count in summary.refused.items()}
                )
    return Sent(accepted, refused)


def upload_once(
    task: "Task",
    meaning: "Meaning",
    answers: "Answers",
    per_request: int,
    floor: "Floor",
    state: Path,
) -> Sent:
    """Send the answers of people who have no report in their window; reports wait in a file."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.client import resuming
    from aggregator.client.outbox import State
    from aggregator.client.window_claims import claim_of

    reports = []
    for start, of_window in sorted(answers.by_start.items()):
        seconds = int(start.timestamp())
        for person, given in zip(answers.persons[start], of_window, strict=True):
            claim = claim_of(task, person, seconds)
            reports.append(resuming.OnlyReport(claim, seconds, meaning.sheet.measurement(given)))
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading", total=len(reports))
        sent = resuming.upload_once(
            state / _REPORTS,
            task,
            reports,
            per_request=per_request,
            floor=floor,
            settled=lambda count: progress.update(bar, completed=count),
        )
    accepted, waiting = (
        sum(count for outcome, count in sent.outcomes.items() if outcome.state is state)
        for state in (State.COUNTED, State.WAITING)
    )
    refused, refused_before = (
        Counter({each.reason: count for each, count in outcomes.items() if each.reason})
        for outcomes in (sent.outcomes, sent.before)
    )
    return Sent(accepted, refused, sent.before.total(), refused_before, waiting, sent.reason or "")


async def upload_texts(
    texts: "AskedTexts",
    written: "Written",
    state: Path,
    floor: "Floor",
    http_options: dict[str, bool],
) -> "dict[str, tuple[UploadSummary, int]]":
    """Send what was written; return for each text question what became of it."""
    from aggregator.cli.steward.survey_texts import send_texts
    from aggregator.service.transport.client import open_client

    async with open_client(
        insecure_http=http_options["insecure_http"],
        environment_proxy=http_options["environment_proxy"],
    ) as http:
        return await send_texts(texts, written, state, http, SystemEntropy(), floor)


def print_sent(sent: Sent) -> None:
    """Print what became of the survey's own reports."""
    from aggregator.cli.client.upload import MEANINGS

    meanings = {error.draft_name: f" ({meaning})" for error, meaning in MEANINGS.items()}
    count = sent.accepted + sum(sent.refused.values()) + sent.waiting
    left_out = f", {sent.before} left out, who had answered before" if sent.before else ""
    print(f"{sent.accepted} of {count} reports accepted{left_out}")
    for refusals, then in ((sent.refused, ""), (sent.refused_before, " before")):
        for name, refused in refusals.items():
            print(f"{refused} refused{then}: {name}{meanings.get(name, '')}")


def print_texts(of_texts: "Mapping[str, tuple[UploadSummary, int]]") -> None:
    """Print what became of the reports of text questions."""
    for name, (summary, before) in of_texts.items():
        left_out = f", {before} left out, who had answered before" if before else ""
        print(f"{name}: {summary.accepted} of {summary.total} reports accepted{left_out}")
        for error, count in summary.refused.items():
            print(f"{name}: {count} refused: {error.draft_name}")
