"""The answer to another question by which strings are counted: a table of both.

A report tells a string and the place of a label, both in one entry of one report; so both are for
one epsilon. Whoever wrote something and chose no label gave no answer, and whoever only chose too.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Final

from aggregator.client.survey.alternatives import Labels
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP
from aggregator.untrusted_text import first_unsafe_member

MOST_SPELLED: Final = 160
"""The most bytes in which a task names the labels; its title needs some, too."""

_LABEL: Final = r'"(?:[^"\\]|\\.)*"'
_SPELLED: Final = re.compile(
    rf"^({re.escape(MADE_UP)})?by ([A-Za-z0-9_-]+) (\[{_LABEL}(?:,{_LABEL})*\]): "
)


@dataclasses.dataclass(frozen=True, slots=True)
class ByChoice:
    """A question of the same survey, and its labels, of which everybody has one at most.

    A description has it, and each task says it, for a collector who has no description.
    """

    question: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if first_unsafe_member({"question": self.question, "labels": [*self.labels]}):
            raise ParameterError("by: question and labels: must be without control characters")
        try:
            Labels(self.labels)
        except ValueError as error:
            raise ParameterError(f"by: {error}") from None
        spelled = self.before("")
        if len(spelled.encode()) > MOST_SPELLED:
            raise ParameterError(
                f"by: the labels of {self.question} are too long: each task names them, in at most "
                f"{MOST_SPELLED} bytes, and {spelled!r} has {len(spelled.encode())}"
            )
        if len(self.labels) < 2 or _said_in(spelled) != (self.question, self.labels):  # noqa: PLR2004  one tells nothing
            raise ParameterError("by: must be a name, with two labels or more")

    @classmethod
    def of_table(cls, table: Mapping[str, object]) -> "ByChoice":
        """Return that of a description; raises ValueError, TypeError or KeyError."""
        question, labels = table["question"], table["labels"]
        if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
            raise TypeError("labels: not a list of text")
        return cls(str(question), tuple(labels))

    @property
    def levels(self) -> int:
        """How many levels a report may have: one for each label."""
        return len(self.labels)

    @property
    def table(self) -> dict[str, object]:
        """What a description states of it."""
        return {"question": self.question, "labels": [*self.labels]}

    @property
    def told(self) -> "ByChoice":
        """What a task says of it: all."""
        return self

    def level(self, place: int, _: Entropy) -> int:
        """Return the level of a label's place, which nothing is drawn for."""
        return place

    def before(self, title: str) -> str:
        """Return a title that says it first; only the mark of a rehearsal stays before it."""
        labels = json.dumps(self.labels, ensure_ascii=False, separators=(",", ":"))
        mark = MADE_UP if title.startswith(MADE_UP) else ""
        return f"{mark}by {self.question} {labels}: {title.removeprefix(mark)}"


def choice_in(title: str) -> ByChoice | None:
    """Return by which answers the `task_info` of a task says that it counts; None if by none."""
    found = _said_in(title)
    if found is None:
        return None
    try:
        return ByChoice(*found)
    except ParameterError:
        return None


def _said_in(title: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name and the labels that are said."""
    found = _SPELLED.match(title)
    try:
        return None if found is None else (found[2], tuple(json.loads(found[3])))
    except ValueError:  # no text of JSON
        return None


def without_choice(title: str) -> str:
    """Return what a task is for, without that."""
    return _SPELLED.sub(r"\1", title)
