"""What people wrote to a survey's text questions, as far as lists or letters tell."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.protocol.task import MADE_UP
from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.client.survey.texts import SpelledTexts
    from aggregator.client.text.question import TextQuestion
    from aggregator.client.text.spelling import Spelling
    from aggregator.collector import Collected
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Windows
    from aggregator.steward.text.decode import Decoded, Found
    from aggregator.steward.text.spelled import Spelled


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """What is looked for: strings of lists, those to show whatever their count, or everything."""

    strings: "Sequence[str]" = ()
    show: "Sequence[str]" = ()
    every: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class TextWindow:
    """What was collected of a text question, or of letters of its answers, in one window."""

    name: str
    start: datetime
    asked: "TextQuestion | Spelling"
    tasks: "Sequence[Task]"
    collected: "Sequence[Collected]"

    @property
    def is_whole(self) -> bool:
        """Whether all tasks have a result."""
        return len(self.collected) == len(self.tasks)

    def heading(self, windows: "Windows") -> str:
        """Return what it is of, with how many people took part, for a reader."""
        mark = MADE_UP if self.tasks[0].is_made_up else ""
        about = f"{self.name}, {mark}{windows.describe(self.start)}"
        if not self.is_whole:
            return (
                f"{about}: {len(self.collected)} of {len(self.tasks)} tasks are collected, and all "
                "are needed"
            )
        return f"{about}: {self.people:,} people took part"

    @property
    def people(self) -> int:
        """How many people took part, each in one of the tasks."""
        return sum(each.batch().report_count for each in self.collected)

    def shown(self, looked: "Looked") -> tuple[list[str], dict[str, object]]:
        """Return what people wrote as lines and as JSON, if all tasks have a result.

        Where nothing is looked for, only letters have names.
        """
        from aggregator.client.text.spelling import Spelling
        from aggregator.steward.text.found_strings import decoded_document
        from aggregator.steward.text.released import released_tables
        from aggregator.steward.text.spelled import spelled

        head = {"name": self.name, "start": self.start.isoformat(), "people": self.people}
        head |= {"made_up": True} if self.tasks[0].is_made_up else {}
        tables = released_tables(self.tasks, [each.document for each in self.collected])
        if isinstance(self.asked, Spelling):
            named = spelled(self.asked, tables)
            return _spelled_lines(named), head | _spelled_document(named)
        if not (looked.strings or looked.show or looked.every):
            return ["  name strings with --words FILE, or find all with --all"], head
        decoded = _decoded(self.asked, tables, looked)
        return _decoded_lines(decoded), head | decoded_document(decoded)


def text_windows(
    asked: "AskedSurvey",
    letters: "SpelledTexts",
    windows: "Windows",
    results_of: "Callable[[Task], Iterable[Collected]]",
) -> list[TextWindow]:
    """Return what was collected of a survey's text questions, each question's first window first.

    `results_of` returns all collected results of a task; those of no window are left out.
    """
    found = []
    for name, (question, of_question) in asked.texts.items():
        of_window: list[tuple[TextQuestion | Spelling, Sequence[Task]]] = [
            (question, of_question),
            *((each.spelling, each.tasks) for each in letters.get(name, ())),
        ]
        for what, tasks in of_window:
            by_start: dict[datetime, list[Collected]] = {}
            for task in tasks:
                for each in results_of(task):
                    if (windows.start(each.start), windows.end(each.start)) == (
                        each.start,
                        each.end,
                    ):
                        by_start.setdefault(each.start, []).append(each)
            found += [
                TextWindow(name, start, what, tasks, by_start[start]) for start in sorted(by_start)
            ]
    return found


def strings_in(lists: Iterable[Path]) -> list[str]:
    """Return the candidates in some files, one on each line, or raise `ConfigurationError`."""
    from aggregator.service.config import read_text

    return [line for file in lists for line in read_text(file).splitlines()]


def _decoded(
    question: "TextQuestion", tables: "npt.NDArray[np.int64]", looked: Looked
) -> "Decoded":
    """Decode; if all fingerprints are tried, with a progress bar that shows each pass."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.steward.text.beside import decode_beside
    from aggregator.steward.text.candidates import Listed, candidates_of

    lists, show = (Listed.of(each, question.meaning) for each in (looked.strings, looked.show))
    candidates = candidates_of(lists, show, every=looked.every)
    console = Console(stderr=True)
    is_shown = looked.every and console.is_terminal
    with Progress(console=console, transient=True, disable=not is_shown) as progress:
        bar = progress.add_task("pass 1", total=candidates.count)
        tried = 0

        def advance(more: int) -> None:
            nonlocal tried
            tried += more
            passes, rest = divmod(tried, candidates.count)
            progress.update(bar, completed=rest, description=f"pass {passes + 1}")

        told = None if question.beside is None else question.beside.told
        return decode_beside(question.hashes, tables, told, candidates, show=show, progress=advance)


def _decoded_lines(decoded: "Decoded") -> list[str]:
    from aggregator.steward.text.found_strings import found_in_words

    rest = f"no answer: {decoded.no_answer:,.0f}; answers not explained: {decoded.unexplained:,.0f}"
    return [
        *(line for each in decoded.found for line in _counted(each)),
        *found_in_words(decoded),
        *(["shown whatever their count:"] if decoded.shown else []),
        *(line for each in decoded.shown for line in _counted(each)),
        rest,
    ]


def _counted(found: "Found") -> list[str]:
    """Return how many people wrote a string, and a line for each label that they chose."""
    from aggregator.dp.utility import PERCENT
    from aggregator.steward.text.found_strings import name_of

    # Estimates may be below 0, outside their intervals.
    least = max(found.count, found.low)
    count = f"{least:,.0f} ({found.low:,.0f} to {found.high:,.0f}, {PERCENT})"
    chosen = [
        f"    {escaped(label)}: {max(of.sum, of.sum_low):,.0f} "
        f"({of.sum_low:,.0f} to {of.sum_high:,.0f})"
        for label, of in found.by
    ]
    return [f"  {name_of(found)}: {count}{_mean(found)}", *chosen]


def _mean(found: "Found") -> str:
    from aggregator.steward.text.found_strings import mean_in_words

    if found.amount is None:
        return ""
    unit, mean = f" {found.amount.law.range.unit}".rstrip(), mean_in_words(found)
    said = "too few to say how much each" if mean is None else f"{mean[0]}{unit} each ({mean[1]})"
    return f"; {escaped(said)}"


def _spelled_lines(named: "Spelled") -> list[str]:
    lines = [
        f"  {each:08x}: {'not named' if name is None else escaped(name)}"
        for each, name in named.names.items()
    ]
    count = sum(each is not None for each in named.names.values())
    false = f"{named.expected_false:.2g} of these are expected to be names that nobody wrote"
    return [*lines, f"{count} of {len(named.names)} named; {false}"]


def _spelled_document(named: "Spelled") -> dict[str, object]:
    return {
        "spelled": [{"fingerprint": each, "name": name} for each, name in named.names.items()],
        "tried": named.tried,
        "expected_false": named.expected_false,
    }
