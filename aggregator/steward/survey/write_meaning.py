"""What a task's numbers mean: the public part of a survey that travels with its task.

It is one line of JSON in the task file, and the task's `task_info` ends with its digest, which is
bound into every report: with labels in another order it is another task, which opens no report.
"""

import dataclasses
import json
from datetime import datetime
from functools import lru_cache

from pydantic import TypeAdapter, ValidationError

from aggregator.client.survey.read_meaning import VERSION
from aggregator.client.survey.routing import Routing
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.survey.conditions import Conditions, routing_of
from aggregator.steward.survey.questions import AnyQuestion, Question
from aggregator.steward.survey.questions.base import MAY_HAVE_LINES
from aggregator.steward.survey.report_parts import Sheet
from aggregator.steward.survey.windows import Windows
from aggregator.untrusted_text import first_unsafe_member

_CONDITIONS: TypeAdapter[Conditions] = TypeAdapter(Conditions)
_QUESTION: TypeAdapter[Question] = TypeAdapter(AnyQuestion)


@dataclasses.dataclass(frozen=True, slots=True)
class AskedText:
    """A text question, by its name and by when it is asked."""

    name: str
    ask_if: Conditions


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the numbers of one task mean.

    Attributes:
        title: The title of the survey.
        asked: Who is asked.
        windows: The windows in which answers are collected.
        sheet: The questions in order, with their labels, ranges, units and how each is asked, and
            then the tables.
        texts: The survey's text questions: their names, each with the `meaning` of its tasks.
        asked_if: Those of them that not everybody is asked, each with the answers that lead to it.
        translations: The languages besides its own, each with the digest of all it says there.
    """

    title: str
    asked: str
    windows: Windows
    sheet: Sheet
    texts: tuple[tuple[str, str], ...] = ()
    asked_if: tuple[tuple[str, Conditions], ...] = ()
    translations: tuple[tuple[str, str], ...] = ()

    @property
    def routing(self) -> Routing:
        """Which questions are asked of whom.

        Raises `ParameterError` if a question depends on none that is asked before it.
        """
        return routing_of(self.sheet.questions, self.asked_texts)

    @property
    def asked_texts(self) -> list[AskedText]:
        """The text questions."""
        found = dict(self.asked_if)
        return [AskedText(name, found.get(name, ())) for name, _ in self.texts]

    def to_json(self) -> str:
        """Return the canonical text of this meaning."""
        table = {
            "version": VERSION,
            "survey": self.title,
            "asked": self.asked,
            "window": dataclasses.asdict(self.windows),
            "questions": [
                {"question": question.model_dump(mode="json", by_alias=True), "design": design.name}
                for question, design in self.sheet.asked
            ],
            "tables": self.sheet.tables,
            **({"texts": dict(self.texts)} if self.texts else {}),
            **(
                {"texts_asked_if": {name: dict(each) for name, each in self.asked_if}}
                if self.asked_if
                else {}
            ),
            **({"translations": dict(self.translations)} if self.translations else {}),
        }
        return json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Meaning":
        """Return the meaning in a text that `to_json` made, or raise `ParameterError`."""
        return _of_json(text)

    @classmethod
    def of_task(cls, task: Task) -> "Meaning":
        """Return what a task's numbers mean.

        Raises `ParameterError` if the task is not of a survey, or its reports have other sections
        than the survey's questions.
        """
        if not task.meaning:
            raise ParameterError(
                f"task {task.task_id}: is of no survey, so its values have no labels"
            )
        meaning = cls.from_json(task.meaning)
        if meaning.sheet.circuit != task.prio3.circuit:
            raise ParameterError(
                f"task {task.task_id}: its questions are asked as "
                f"{' '.join(meaning.sheet.texts)}, which is another type of measurement"
            )
        return meaning

    def window(self, moment: datetime) -> tuple[datetime, datetime]:
        """Return the beginning and the end of the window that holds a moment."""
        start = self.windows.start(moment)
        return start, self.windows.end(start)


class _OtherVersion(ParameterError):
    """A meaning of another format version."""


def _check_version(version: int) -> None:
    if version != VERSION:
        raise _OtherVersion(
            f"meaning: version {version} is not known: make the task again from its survey"
        )


@lru_cache(maxsize=256)
def _of_json(text: str) -> Meaning:
    try:
        table = json.loads(text)
        _check_version(int(table["version"]))
        asked = []
        for each in table["questions"]:
            question = _QUESTION.validate_json(json.dumps(each["question"]))
            asked.append((question, question.design(each["design"])))
        pairs = tuple((str(of), str(by)) for of, by in table["tables"])
        sheet = Sheet(tuple(asked), pairs)
        _ = sheet.circuit if asked else sheet.parts
        meaning = Meaning(
            title=str(table["survey"]),
            asked=str(table["asked"]),
            windows=Windows(**table["window"]),
            sheet=sheet,
            texts=tuple((str(name), str(of)) for name, of in table.get("texts", {}).items()),
            asked_if=tuple(
                (str(name), _CONDITIONS.validate_python(each))
                for name, each in table.get("texts_asked_if", {}).items()
            ),
            translations=tuple(
                (str(name), str(digest)) for name, digest in table.get("translations", {}).items()
            ),
        )
        _ = meaning.routing
        if not asked and not meaning.texts:
            raise ValueError  # noqa: TRY301  told below, as of all that is not a meaning
        if not dict(meaning.asked_if).keys() <= dict(meaning.texts).keys():
            raise ValueError  # noqa: TRY301  likewise
        if not all(each for _, each in meaning.asked_if):
            raise ValueError  # noqa: TRY301  likewise
    except _OtherVersion:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ValidationError):
        raise ParameterError("meaning: not that of a survey") from None
    if name := first_unsafe_member(table, MAY_HAVE_LINES):
        raise ParameterError(f"meaning: {name}: must be without control characters")
    if meaning.to_json() != text:
        raise ParameterError("meaning: not as a survey writes it")
    return meaning
