"""The client of a survey in an application: answers by the names of questions.

    with SurveyClient("task.json", "outbox.sqlite") as survey:
        survey.put({"education": "degree", "hours": 40}, person="17")

In each window a person has one report of the survey and one more of each text question. The client
knows the survey by the meaning that is bound into its task. A `Reporter` does everything else: it
keeps reports, sends them, and tells what becomes of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from aggregator.client.outbox import MAX_BYTES, Outbox, Outcome
from aggregator.client.reporter import MAX_AGE_SECONDS, Reporter
from aggregator.client.sender import Sender
from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.client.window_claims import MARK, WindowClaim, claim_of, survey_digest
from aggregator.clock import Clock, SystemClock
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.requirements import Floor
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml

if TYPE_CHECKING:
    from aggregator.client.survey.texts import SpelledTexts, TextParts
    from aggregator.client.text.beside_survey import AskedTexts

_OUTBOX = "outbox.sqlite"

Settled = Callable[[bytes, str | None, Outcome, str | None], None]
"""Called with a report's id, its person if one was named, its outcome, and the text question that
it answers, which is None for the report of all other questions."""


class SurveyClient:
    """The client of one survey, over an outbox that outlives it; threads may share it.

    Args:
        task_file: The survey's public file, `task.json` or `task.toml`; its text questions lie
            beside it, in the folder `text`.
        outbox: The file in which reports wait; `outbox.sqlite` beside the task file unless given.
        spelled: Folders that `prio text spell --window` made of its text questions. In those
            windows people are asked for letters, and not for what they write.
        max_bytes: How large that file may become.
        max_age_seconds: How long a report may wait; then it is given up.
        on_settled: Called for each report, after its outcome is stored.
        floor: The least protection of a survey that this application takes part in.
        sender: Sends requests.
        clock: What time it is.
        entropy: Where report ids, shares and HPKE keys come from.

    Attributes:
        sheet: What the survey asks.
        reporter: Sends the reports; see there what it can tell.

    Raises:
        ParameterError: The file is not of one survey, was changed since it was made, names other
            text questions than lie beside it, or a task is below the floor; or a spelling is of
            none of its questions, or does not fit it.
        ConfigurationError: The outbox cannot be used.
        OSError: The file cannot be read.
    """

    def __init__(
        self,
        task_file: Path | str,
        outbox: Path | str | None = None,
        *,
        spelled: Sequence[Path | str] = (),
        max_bytes: int = MAX_BYTES,
        max_age_seconds: int = MAX_AGE_SECONDS,
        on_settled: Settled | None = None,
        floor: Floor | None = None,
        sender: Sender | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        path = Path(task_file)
        task = task_from_toml(path.read_text("utf-8"))
        self.sheet = AnswerSheet.of_task(task)
        self._task = task
        self._clock = SystemClock() if clock is None else clock
        self._on_settled = on_settled
        asked = self._asked_beside(path)
        meanings = [question.meaning for question, _ in asked.values()]
        self._asked = [survey_digest(task.meaning), *meanings]
        letters = self._letters_of(asked, [Path(folder) for folder in spelled])
        self._outbox = Outbox(path.with_name(_OUTBOX) if outbox is None else outbox, max_bytes)
        try:
            source = SystemEntropy() if entropy is None else entropy
            self._texts = self._parts_of(asked, letters, source)
            self.reporter = Reporter(
                task,
                self._outbox,
                entropy=entropy,
                clock=self._clock,
                sender=sender,
                on_settled=partial(self._settled, None),
                floor=floor,
                max_age_seconds=max_age_seconds,
                claim_at=self._claim,
                windows_at=self._windows,
                beside=[
                    (each, partial(self._settled, name))
                    for name, (_, tasks) in asked.items()
                    for some in (tasks, *(window.tasks for window in letters.get(name, ())))
                    for each in some
                ],
            )
        except BaseException:
            self._outbox.close()
            raise

    @property
    def task(self) -> Task:
        """The survey's task: who reports are sealed to, and what is promised."""
        return self._task

    def put(self, answers: Mapping[str, object], *, person: str | None = None) -> bytes:
        """Make a report of all answers of one person and store it; return its id.

        Each text question has one more report, of one size, stored with it or not at all.

        Args:
            answers: By the names of questions: a label, a list of labels, a number, a truth value,
                a table of numbers, or text, as each asks. What is left out, None or blank is
                counted as no answer, in a report of the same size.
            person: Whose answers these are: a person has one report in each window of this task.
                The name stays in the outbox. Text questions need it, and the outbox then keeps
                which of their tasks the person is in.

        Raises:
            AnswerError: A question does not take its answer; the message does not have the answer.
            AlreadyAnswered: The person has a report in this window; or in one that meets it, of
                another task of this survey or of one of its text questions, in the same outbox.
            OutboxFull: There is no room for it.
            ParameterError: There are text questions, and no person is named; or not by text.
        """
        if person is not None and not isinstance(person, str):
            raise ParameterError(f"person: must be text, not {type(person).__name__}")
        # Before any answer is read: the tasks that a person is in must not depend on answers.
        tosses = [] if self._texts is None else self._texts.tosses(person)
        entries = self.sheet.entries(answers)
        own = (self._task, entries)
        if self._texts is None:
            return self.reporter.put_together(lambda _: [own], claim=person)[0]
        at = self._texts.parts(tosses, answers, self.sheet.skipped_texts(answers))
        return self.reporter.put_together(lambda now: [own, *at(now)], claim=person)[0]

    async def aput(self, answers: Mapping[str, object], *, person: str | None = None) -> bytes:
        """`put`, in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(lambda: self.put(answers, person=person))

    def answered(self, person: str, *, question: str | None = None) -> Outcome | None:
        """Return what became of a person's report in this window; None if there is none.

        Args:
            person: Who answered.
            question: A text question, which has a report of its own.

        Raises:
            ParameterError: The survey has no such text question.
        """
        task, now = self._task, self._clock.now()
        if question is not None:
            if self._texts is None:
                raise ParameterError(f"question: there is no text question {question!r}")
            of_person = self._texts.task_of(person, question, now)
            if of_person is None:
                return None
            task = of_person
        return self.reporter.claimed(self._claim(person, now), task)

    def start(self, seconds: float = 1.0) -> None:
        """Send from now on in a background thread, with a pass every `seconds`."""
        self.reporter.start(seconds)

    def close(self) -> None:
        """Stop, and close the connections and the outbox; what waits stays there."""
        self.reporter.close()
        self._outbox.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _claim(self, person: str, seconds: int) -> str:
        """Return the claim to the one report of a person in the window that holds a time."""
        return claim_of(self._task, person, seconds)

    def _windows(self, person: str, seconds: int) -> list[WindowClaim]:
        """Return that the person has no other report, even if survey or questions change."""
        return [WindowClaim.of(asked, person, self._task, seconds) for asked in self._asked]

    def _asked_beside(self, path: Path) -> "AskedTexts":
        if not self.sheet.texts:
            return {}
        # Imports NumPy, which an application without text questions needs only at its first `put`.
        from aggregator.client.text.beside_survey import texts_beside

        return texts_beside(path, self._task, self.sheet.texts)

    def _letters_of(self, asked: "AskedTexts", folders: Sequence[Path]) -> "SpelledTexts":
        if not folders:
            return {}
        from aggregator.client.survey.texts import spelled_of

        return spelled_of(asked, folders)

    def _parts_of(
        self, asked: "AskedTexts", letters: "SpelledTexts", entropy: Entropy
    ) -> "TextParts | None":
        if not asked:
            return None
        from aggregator.client.survey.texts import TextParts

        return TextParts(asked, letters, self._outbox, entropy)

    def _settled(
        self, question: str | None, report: bytes, claim: str | None, outcome: Outcome
    ) -> None:
        if self._on_settled is not None:
            person = None if claim is None else claim.partition(MARK)[2]
            self._on_settled(report, person, outcome, question)
