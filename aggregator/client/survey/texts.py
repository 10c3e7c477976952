"""Text questions of a survey in an application: which tasks people are in, and what is sent.

A person is in one task of each question for ever, and no aggregator can enforce that. So the toss
is stored in the outbox before an answer is read. If two processes share the outbox, the first toss
is kept.
"""

from collections.abc import Mapping, Sequence

from aggregator.client.outbox import Outbox
from aggregator.client.survey.answers import AnswerError
from aggregator.client.text.beside import AskedTexts
from aggregator.client.text.toss import Toss
from aggregator.client.together import Together
from aggregator.entropy import Entropy
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task import Task

_MOST = 200
"""The most people whose tosses are stored at once."""


class TextParts:
    """Tasks and measurements of people for a survey's text questions; threads may share it.

    Args:
        asked: The questions.
        outbox: Where tosses are kept.
        entropy: For tosses.
    """

    def __init__(self, asked: AskedTexts, outbox: Outbox, entropy: Entropy) -> None:
        self.asked = asked
        self._outbox, self._entropy = outbox, entropy
        self._tosses = Together(self._toss_all, _MOST)

    def tosses(self, person: str | None) -> list[Toss]:
        """Return the toss of a person for each question, made and kept now if there is none.

        Raises:
            ParameterError: No person is named.
            OutboxFull: There is no room for it.
            ConfigurationError: A kept number is not a task of the question.
        """
        if person is None:
            raise ParameterError(
                "person: must be named, as the survey has text questions: each person stays in one "
                f"task of {', '.join(self.asked)}"
            )
        return self._tosses.do(person)

    def parts(
        self, tosses: Sequence[Toss], answers: Mapping[str, object]
    ) -> list[tuple[Task, int]]:
        """Return for each question the task that a person is in, and what they report to it.

        Args:
            tosses: The person's, as `tosses` returns them.
            answers: By the names of all questions of the survey.

        Raises:
            AnswerError: An answer is no text.
        """
        parts = []
        for toss, (name, (_, tasks)) in zip(tosses, self.asked.items(), strict=True):
            answer = answers.get(name)
            if answer is not None and not isinstance(answer, str):
                raise AnswerError(name, "must be text, or None for no answer")
            parts.append((tasks[toss.number], toss.measurement(answer)))
        return parts

    def task_of(self, person: str, name: str) -> Task | None:
        """Return the task of a question that a person is in; None if they never tossed.

        Raises:
            ParameterError: The survey has no such text question.
        """
        if name not in self.asked:
            raise ParameterError(f"question: there is no text question {name!r}")
        question, tasks = self.asked[name]
        number = self._outbox.toss(question.meaning, person)
        return None if number is None else tasks[number]

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
