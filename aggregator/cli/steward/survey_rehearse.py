"""`prio survey rehearse`: puts made-up answers through both aggregators of a `prio up`.

They are in tasks of their own, of people of their own, so nothing of the survey itself is spent.
"""

import hashlib
import shlex
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aggregator.cli.client.sending import outbox_in, sender_to, with_progress
from aggregator.cli.options import Up
from aggregator.cli.steward.collecting import collect_windows
from aggregator.cli.steward.survey_making import check_people, planned_of, survey_in, tasks_of
from aggregator.cli.steward.survey_results import end_in, print_table, print_texts
from aggregator.cli.steward.survey_tasks import survey_of
from aggregator.cli.steward.survey_texts import write_survey
from aggregator.cli.steward.survey_words import Looked, text_windows
from aggregator.clock import SystemClock
from aggregator.errors import LocalError
from aggregator.service.config.constants import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aggregator.cli.local.folder import LocalFolder
    from aggregator.client import Row, SurveyClient
    from aggregator.steward.survey import Survey

PEOPLE: Final = 500
"""How many people answer in each window, unless a number is given."""
WINDOWS: Final = 3
"""How many windows are filled: from three on, results are also shown over time."""
WORDS: Final = "words.txt"
_MOST_PEOPLE: Final = 100_000

People = Annotated[
    int, typer.Option(min=1, max=_MOST_PEOPLE, help="How many people answer in each window.")
]


def rehearse(
    file: Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")],
    people: People = PEOPLE,
    windows: Annotated[
        int, typer.Option(min=1, max=100, help="How many windows, the latest that are over.")
    ] = WINDOWS,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print no figures, only where pages show them.")
    ] = False,
    up: Up = None,
) -> None:
    """Show what a survey's results will look like: made-up answers, with the noise of real ones.

    They go through the aggregators and the collector of a `prio up` that runs, in tasks of their
    own, which no other party takes part in; the survey's own budget is not touched. All windows
    have the same answers, so whatever differs between them is noise. The rehearsal before is
    forgotten.
    """
    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.local.tasks import place_of
    from aggregator.protocol.task import MADE_UP
    from aggregator.service.config import read_text
    from aggregator.steward.survey.made_up import past_windows, rehearsal_of

    folder = local_folder.found(up)
    if folder is None or not folder.is_up:
        raise LocalError(
            "no `prio up` runs here, whose aggregators could take made-up answers: "
            f"`prio up {shlex.quote(str(file))} --rehearse` starts one and rehearses the survey"
        )
    survey = survey_in(file, read_text(file))
    check_people(survey, people)
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    rehearsal = rehearsal_of(survey, now, windows, nobody(survey.title))
    place = folder.rehearsals / place_of(folder, survey).name
    public = taken_part(folder, rehearsal, place)
    starts = past_windows(rehearsal, now)
    print(f"made-up answers of {people:,} people to {survey.title} in {_windows(starts)}")
    _upload(public, rehearsal, people, starts)
    _collect(folder, public, starts, quiet=quiet)
    for url in folder.chart_urls(place):
        print(f"{place.name}, {MADE_UP.lower()}{url}")
    if survey.texts:
        print(f"pages name what people write by a list: paste {place / WORDS} there")


def nobody(title: str) -> str:
    """Return who is asked: the same people in each rehearsal of a survey.

    Parties know a text question by its words, title included, and take it for one population only.
    """
    return f"made-up people {hashlib.sha256(title.encode()).hexdigest()[:8]}"


def _windows(starts: "Sequence[datetime]") -> str:
    return "1 window" if len(starts) == 1 else f"each of {len(starts)} windows"


def taken_part(folder: "LocalFolder", rehearsal: "Survey", place: Path) -> Path:
    """Make the tasks of a rehearsal, in place of the one before; return their public file."""
    from aggregator.cli.local.folder import public_in
    from aggregator.cli.local.tasks import collector_config, files_in, hand_out, undo
    from aggregator.steward.survey.made_up import TEXTS

    if place.exists():
        undo(folder, place)
    planned, texts = planned_of(rehearsal)
    config = collector_config(folder)
    made = tasks_of(rehearsal, planned, texts, config, folder.url("leader"), folder.url("helper"))
    place.parent.mkdir(exist_ok=True)
    write_survey(*made, place, {WORDS: "".join(f"{each}\n" for each in TEXTS)} if texts else {})
    hand_out(folder, files_in(place), rehearses=True)
    return public_in(place)


def _upload(public: Path, rehearsal: "Survey", people: int, starts: "Sequence[datetime]") -> None:
    """Upload what made-up people answer, or raise `LocalError` if not all of it is taken."""
    from aggregator.client import SurveyClient
    from aggregator.client.reporter import NO_AGE

    with (
        closing(outbox_in(None)) as outbox,
        closing(sender_to(environment_proxy=False)) as sender,
        closing(SurveyClient(public, outbox, max_age_seconds=NO_AGE, sender=sender)) as client,
    ):
        total = people * len(starts) * (len(client.asked.texts) + bool(client.asked.task))
        rows = _rows(client, rehearsal, people, starts)
        found = with_progress(total, lambda settled: client.upload(rows, settled=settled))
    if found.counted != total:
        raise LocalError(
            f"{total - found.counted:,} of {total:,} reports with made-up answers were not taken"
            + (f": {found.reason}" if found.reason else "")
        )


def _rows(
    client: "SurveyClient", rehearsal: "Survey", people: int, starts: "Sequence[datetime]"
) -> "Iterator[Row]":
    """Yield what made-up people answer, window after window, at the end of each."""
    from aggregator.client import Row
    from aggregator.steward.survey.made_up import made_up

    texts = bool(rehearsal.texts)
    for start in starts:
        seconds = int(rehearsal.windows.end(start).timestamp()) - 1
        for number, each in enumerate(made_up(rehearsal, people)):
            entries = client.sheet.measurement(each.answers)
            yield Row(entries, each.texts, seconds, f"{number}" if texts else None)


def _collect(
    folder: "LocalFolder", public: Path, starts: "Sequence[datetime]", *, quiet: bool
) -> None:
    """Collect all windows, and print what they say unless it is to be `quiet`."""
    from aggregator.steward.survey import SurveyResults
    from aggregator.steward.survey.made_up import TEXTS

    asked, meaning = survey_of(public)
    config, windows = folder.config("collector"), meaning.windows
    collected, troubles = collect_windows(
        config, asked, {}, windows, starts, WAIT_SECONDS, now=False
    )
    end_in(troubles)
    if quiet:
        return
    own = [(each.task, each.batch()) for each in collected if each.task == asked.task]
    print_table(SurveyResults(own).table())
    texts = text_windows(
        asked, {}, windows, lambda task: [each for each in collected if each.task == task]
    )
    print_texts(texts, windows, Looked(TEXTS))
