"""Text questions of a survey in an application: which tasks people are in, and what is sent.

A person is in one task of each question for ever, and no aggregator can enforce that. So the toss
is stored in the outbox before an answer is read. If two processes share the outbox, the first toss
is kept.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.client.batched_calls import BatchedCalls
from aggregator.client.outbox import Outbox
from aggregator.client.text.beside_survey import AskedTexts
from aggregator.client.text.fitting import SpelledWindow, read_spelling
from aggregator.client.text.levels import Written
from aggregator.client.text.toss import Toss
from aggregator.entropy import Entropy
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task import Task

SpelledTexts = Mapping[str, Sequence[SpelledWindow]]
"""Windows of letters, by the name of the question."""

_MOST = 200
"""The most people whose tosses are stored at once."""


class TextParts:
    """Tasks and measurements of people for a survey's text questions; threads may share it.

    `spelled` are the windows in which letters are asked for instead, by the question's name.
    """

    def __init__(
        self, asked: AskedTexts, spelled: SpelledTexts, outbox: Outbox, entropy: Entropy
    ) -> None:
        self.asked, self._spelled = asked, spelled
        self._outbox, self._entropy = outbox, entropy
        self._tosses = BatchedCalls(self._toss_all, _MOST)

    def tosses(self, person: str | None) -> list[Toss]:
        """Return the toss of a person for each question, made and kept now if there is none.

        Raises:
            ParameterError: No person is named.
            OutboxFull: There is no room for it.
            ConfigurationError: A kept number is not a task of the question.
        """
        return self._tosses.do(self._named(person))

    def tosses_of(self, people: Sequence[str | None]) -> list[list[Toss]]:
        """Return what `tosses` does for each person; they are kept in one transaction."""
        return self._toss_all([self._named(person) for person in people])

    def parts(
        self, tosses: Sequence[Toss], answers: Mapping[str, Written], seconds: int
    ) -> list[tuple[Task, int]]:
        """Return, for each question, a person's task at a time and what they report.

        In a window of letters it is the spelling's task of the same place. Where there is no
        answer, it is what anybody reports who gives none.
        """
        return [
            self._part(name, toss, answers.get(name), seconds)
            for toss, name in zip(tosses, self.asked, strict=True)
        ]

    def _named(self, person: str | None) -> str:
        if person is None:
            raise ParameterError(
                "person: must be named, as the survey has text questions: each person stays in one "
                f"task of {', '.join(self.asked)}"
            )
        return person

    def _part(self, name: str, toss: Toss, answer: Written, seconds: int) -> tuple[Task, int]:
        asked, question = self._asked_at(name, seconds), self.asked[name][0]
        if isinstance(asked, SpelledWindow):
            measurement = asked.spelling.measurement(toss.number, question.text_in(answer))
            return asked.tasks[toss.number], measurement
        return asked[toss.number], question.measurement(toss.number, answer, self._entropy)

    def _asked_at(self, name: str, seconds: int) -> SpelledWindow | Sequence[Task]:
        """Return the spelling that is asked at a time, or the question's own tasks."""
        of_letters = (each for each in self._spelled.get(name, ()) if each.holds(seconds))
        return next(of_letters, self.asked[name][1])

    def task_of(self, person: str, name: str, seconds: int) -> Task | None:
        """Return the task that a person is in at a time; None if they never tossed.

        Raises `ParameterError` if the survey has no such text question.
        """
        if name not in self.asked:
            raise ParameterError(f"question: there is no text question {name!r}")
        number = self._outbox.toss(self.asked[name][0].meaning, person)
        if number is None:
            return None
        asked = self._asked_at(name, seconds)
        return (asked.tasks if isinstance(asked, SpelledWindow) else asked)[number]

    def _toss_all(self, people: Sequence[str]) -> list[list[Toss]]:
        questions = [(name, question.hashes) for name, (question, _) in self.asked.items()]
        drawn = {
            (hashes.meaning, person): Toss.of(hashes, self._entropy).number
            for person in people
            for _, hashes in questions
        }
        kept = dict(zip(drawn, self._outbox.keep_tosses(drawn), strict=True))
        try:
            return [
                [Toss(hashes, kept[hashes.meaning, person]) for _, hashes in questions]
                for person in people
            ]
        except ParameterError as error:
            raise ConfigurationError(
                f"the outbox {self._outbox.path}: a toss is not one of this survey's text "
                "questions; nobody tosses twice, so restore the file from a copy"
            ) from error


def spelled_of(asked: AskedTexts, folders: Sequence[Path]) -> SpelledTexts:
    """Return the windows of letters in folders that `prio survey spell` made.

    Raises `ParameterError` if one is of no question, or does not fit it, or two are of one question
    and time; OSError if a file cannot be read.
    """
    found: dict[str, list[SpelledWindow]] = {}
    for folder in folders:
        spelling, its_tasks = read_spelling(folder)
        names = [name for name, (question, _) in asked.items() if question == spelling.question]
        if not names:
            raise ParameterError(f"{folder}: is a spelling of no text question of this survey")
        window = SpelledWindow(spelling, its_tasks)
        try:
            window.check(asked[names[0]][1])
        except ParameterError as error:
            raise ParameterError(f"{folder}: {error}") from error
        if any(window.meets(each) for each in found.setdefault(names[0], [])):
            raise ParameterError(f"{folder}: has a window of which another folder is, too")
        found[names[0]].append(window)
    return found
