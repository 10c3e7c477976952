"""What a table of answers was read as, in words and in JSON, and what no aggregator takes."""

from typing import TYPE_CHECKING

from aggregator.errors import ParameterError
from aggregator.written_times import counted, utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Answers, Windows
    from aggregator.steward.survey.read_counts import ReadCounts

_MOST_SHOWN = 40
_MOST_WINDOWS = 5


def print_read(windows: "Windows", answers: "Answers", *, whole: bool) -> None:
    """Print what was read, for a dry run as a whole: what shows that a wrong column was named."""
    span = counted(len(answers.by_start), "window")
    print(f"{counted(answers.count, 'row')} in {span}, each one report")
    starts = sorted(answers.by_start)
    if whole and starts:
        for said, start in (("first", starts[0]), ("last", starts[-1])):
            rows = counted(len(answers.by_start[start]), "row")
            print(f"  {said} window {windows.describe(start)}: {rows}")
        if answers.persons:
            people = len({person for each in answers.persons.values() for person in each})
            print(f"  {people:,} people")
    for name, read in answers.read.items():
        print(
            f"{name}: {counted(read.answers, 'answer')}, {read.missing:,} missing"
            f"{_halves(read)}, {read.clipped:,} clipped"
        )
        if whole:
            for line in _details(name, read):
                print(f"  {line}")


def read_document(answers: "Answers") -> dict[str, object]:
    """Return what was read for programs."""
    from aggregator.steward.survey.read_counts import TEXT_AND_NUMBER

    starts = sorted(answers.by_start)
    questions = [
        {
            "name": name,
            "columns": list(read.columns),
            "answers": read.answers,
            "missing": read.missing,
            **({"halves": read.halves} if read.by or read.parts == TEXT_AND_NUMBER else {}),
            "clipped": read.clipped,
            "ranges": {of: [str(each) for each in pair] for of, pair in read.ranges.items()},
            "most_frequent": [[label, count] for label, count in read.frequent],
        }
        for name, read in answers.read.items()
    ]
    return {
        "rows": answers.count,
        "windows": len(starts),
        "by_window": [
            {"start": utc_text(int(start.timestamp())), "rows": len(answers.by_start[start])}
            for start in starts
        ],
        "questions": questions,
        "missing_never_found": list(answers.unseen),
    }


def check_taken(tasks: "Sequence[Task]", windows: "Windows", answers: "Answers", now: int) -> None:
    """Refuse windows that no aggregator takes now, as far as a task and the time say."""
    found = [
        (start, why)
        for start in sorted(answers.by_start)
        if (why := _not_taken(tasks, int(start.timestamp()), now))
    ]
    if not found:
        return
    lines = [
        f"window {windows.describe(start)}, {counted(len(answers.by_start[start]), 'row')}: {why}"
        for start, why in found[:_MOST_WINDOWS]
    ]
    if more := len(found) - _MOST_WINDOWS:
        lines += [f"and {more:,} more windows"] if more > 0 else []
    raise ParameterError("\n".join([*lines, "no aggregator takes their reports now"]))


def _not_taken(tasks: "Sequence[Task]", seconds: int, now: int) -> str:
    """Return why no aggregator takes reports of a window that begins then; empty if one may."""
    from aggregator.protocol.reports import CLOCK_SKEW_SECONDS, MAX_AGE_SECONDS

    if seconds > now + CLOCK_SKEW_SECONDS:
        return "has not begun"
    if seconds < now - MAX_AGE_SECONDS:
        return f"too old: aggregators take reports of {MAX_AGE_SECONDS // 86_400} days"
    for task in tasks:
        if seconds < task.opens:
            return "is before the survey begins"
        if task.closes is not None and seconds >= task.closes:
            return "is after the survey's end"
    return ""


def _halves(read: "ReadCounts") -> str:
    what = f"no answer to {read.by}" if read.by else "only one of text and number"
    return f" ({read.halves:,} with {what})" if read.halves else ""


def _details(name: str, read: "ReadCounts") -> "list[str]":
    from aggregator.client.survey.numbers import as_text

    lines = []
    if list(read.columns) != [name]:
        if len(read.columns) == 1:
            lines.append(f"column {read.columns[0]!r}")
        elif list(read.columns) != list(read.parts):
            pairs = zip(read.columns, read.parts, strict=True)
            lines += [f"column {column!r} for {part!r}" for column, part in pairs]
    for of, (least, largest) in read.ranges.items():
        lines.append(f"{of} from {as_text(least)} to {as_text(largest)}".strip())
    if read.frequent:
        often = ", ".join(f"{_short(label)} {count:,}" for label, count in read.frequent)
        lines.append(f"most often {often}")
    return lines


def _short(label: str) -> str:
    return repr(label if len(label) <= _MOST_SHOWN else label[:_MOST_SHOWN] + "…")
