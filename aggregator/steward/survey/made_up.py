"""Made-up answers to a survey, to see what its results will look like before anybody is asked.

They are the same in each window and whenever they are made, so that windows differ by noise alone.
"""

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from aggregator.client.survey.answers import Answer
from aggregator.client.survey.routing import are_met
from aggregator.client.text.levels import Written, labelled
from aggregator.errors import ParameterError
from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.protocol.task import MADE_UP
from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.base import spread_over
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale
from aggregator.steward.survey.questions.vectors import Vector

_LONGEST_TITLE: Final = 100
_Given = TypeVar("_Given")
TEXTS: Final = tuple(f"made-up answer {number}" for number in range(1, 31))
"""What made-up people write, the most frequent first."""


@dataclasses.dataclass(frozen=True, slots=True)
class MadeUp:
    """What one made-up person answers, by the names of text questions what they write."""

    answers: Sequence[Answer | None]
    texts: Mapping[str, Written]


def rehearsal_of(survey: Survey, now: datetime, windows: int, population: str) -> Survey:
    """Return the same survey of made-up people in the last windows that are over.

    There are fewer windows if the survey has fewer, or aggregators take no reports that old. Raises
    `ParameterError` if they take none of any window that is over.
    """
    length = timedelta(seconds=survey.windows.seconds)
    oldest = now - timedelta(seconds=MAX_AGE_SECONDS)
    last = survey.windows.last(now)
    if last + length <= oldest:
        raise ParameterError(
            f"window: aggregators take answers of {MAX_AGE_SECONDS // 86_400} days, and the last "
            f"window that is over, {survey.windows.describe(last)}, is older: rehearse the survey "
            "with shorter windows"
        )
    recent = 1 + (last + length - oldest - timedelta(seconds=1)) // length
    first = last - (min(windows, survey.releases, recent) - 1) * length
    return survey.model_copy(
        update={
            "title": f"{MADE_UP}{survey.title}"[:_LONGEST_TITLE],
            "asked": population,
            "answers": "by open link",  # nobody is invited
            "first": first,
            "until": first + survey.releases * length,
        }
    )


def past_windows(survey: Survey, now: datetime) -> list[datetime]:
    """Return the beginnings of a survey's windows that are over, the earliest first."""
    length = timedelta(seconds=survey.windows.seconds)
    return [survey.first + number * length for number in range((now - survey.first) // length)]


def made_up(survey: Survey, people: int) -> Iterator[MadeUp]:
    """Yield what each of some people answers to the questions that they are asked."""
    routing = survey.routing
    columns = [
        _dealt(each.question.made_up_answers(), people, _shape_of(each.question), number)
        for number, each in enumerate(survey.questions)
    ]
    texts = {
        each.name: _dealt(TEXTS, people, "falling", len(columns) + number)
        for number, each in enumerate(survey.texts)
    }
    # Dealt as texts are, so that strings differ in their means.
    amounts = {
        each.name: _dealt(
            spread_over([each.asked_amount.grid.steps]), people, "bell", len(columns) + number
        )
        for number, each in enumerate(survey.texts)
        if each.asked_amount is not None
    }

    names = [each.question.name for each in survey.questions]
    by = {each.name: names.index(each.by) for each in survey.texts if each.by is not None}

    def written(name: str, person: int, given: Sequence[Answer | None]) -> Written:
        text = texts[name][person]
        if name in by:
            chosen = given[by[name]]
            return labelled(text, chosen[0] if chosen else None)
        return (text, amounts[name][person][0]) if name in amounts else text

    for person in range(people):
        given = list[Answer | None]()
        for column, needs in zip(columns, routing.needs, strict=True):
            given.append(column[person] if are_met(needs, given) else None)
        yield MadeUp(
            given,
            {
                name: written(name, person, given) if are_met(routing.texts[name], given) else None
                for name in texts
            },
        )


def _dealt(answers: Sequence[_Given], people: int, shape: str, seed: int) -> Sequence[_Given]:
    """Return one of some answers for each person: as many of each as the shape says."""
    counts = shared_out(people, len(answers), shape)
    dealt = [answer for answer, count in zip(answers, counts, strict=True) for _ in range(count)]
    random.Random(seed).shuffle(dealt)  # noqa: S311  nothing is secret, and all get the same
    return dealt


def _shape_of(question: Question) -> str:
    """Return how frequent the answers are: of numbers most are in the middle."""
    return "bell" if isinstance(question, Number | Bins | Scale | Vector) else "falling"


def shared_out(people: int, parts: int, shape: str) -> list[int]:
    """Return how many people are in each part: whole numbers that add up to `people`."""
    middle = (parts - 1) / 2
    match shape:
        case "falling":
            weights = [1 / (index + 1) for index in range(parts)]
        case "bell":
            width = parts / 4
            weights = [math.exp(-(((index - middle) / width) ** 2) / 2) for index in range(parts)]
        case _:
            weights = [1.0] * parts
    whole, before, shares = sum(weights), 0.0, []
    placed = 0
    for weight in weights:
        before += weight
        upto = round(people * before / whole)
        shares.append(upto - placed)
        placed = upto
    return shares
