"""The client of a survey in an application: answers by the names of questions.

    with SurveyClient("task.json", "outbox.sqlite") as survey:
        survey.put({"education": "degree", "hours": 40}, person="17")

In each window a person has one report of the survey and one more of each text question. The client
knows the survey by the meaning that is bound into its task. A `Reporter` does everything else: it
keeps reports, sends them, and tells what becomes of them.
"""

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from aggregator.client import bulk
from aggregator.client.bulk import Uploaded
from aggregator.client.contributions import MARK, Contribution, check_person, claim_of
from aggregator.client.delivery import room_of
from aggregator.client.making import Put
from aggregator.client.outbox import MAX_BYTES, Outbox
from aggregator.client.records import Outcome
from aggregator.client.reporter import MAX_AGE_SECONDS, Reporter
from aggregator.client.right_time import PATIENCE_SECONDS, RightTime, word_now
from aggregator.client.sender import REPORTS_PER_REQUEST, Sender
from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.client.survey.rows import Row, written_in
from aggregator.client.text.levels import Written, labelled
from aggregator.clock import Clock, SystemClock
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.permit_codes import name_of, secret_of
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from aggregator.client.survey.texts import SpelledTexts, TextParts
    from aggregator.client.text.toss import Toss

_OUTBOX = "outbox.sqlite"


class NotAsked(ParameterError):
    """Nobody is asked now: the survey has not begun, or it is over."""


Settled = Callable[[bytes, str | None, Outcome, str | None], None]
"""Called with a report's id, its person if one was named, its outcome, and the text question that
it answers, which is None for the report of all other questions."""


class SurveyClient:
    """The client of one survey, over an outbox that outlives it; threads may share it.

    Args:
        task_file: The survey's public file: `task.json` or `task.toml`, or `survey.json` of a
            survey of text questions only. Text questions lie beside it, in the folder `text`.
        outbox: The file in which reports wait; `outbox.sqlite` beside the task file unless given.
            An `Outbox` that the caller closes may be given, too.
        spelled: Folders that `prio survey spell` made of its text questions. In those
            windows people are asked for letters, and not for what they write.
        max_bytes: How large that file may become.
        max_age_seconds: How long a report may wait; then it is given up.
        on_settled: Called for each report, after its outcome is stored.
        requirements: What this application requires of a survey before it takes part.
        sender: Sends requests.
        clock: What time it is.
        entropy: Where report ids, shares and HPKE keys come from.
        reports_per_request: The most reports of one request.

    Attributes:
        asked: The survey.
        sheet: What its own report holds.
        reporter: Sends the reports; see there what it can tell.

    Raises:
        ParameterError: The file is not of one survey, was changed since it was made, names other
            text questions than lie beside it, or a task protects too little; or a spelling is of
            none of its questions, or does not fit it.
        ConfigurationError: The outbox cannot be used.
        OSError: The file cannot be read.
    """

    def __init__(
        self,
        task_file: Path | str,
        outbox: Outbox | Path | str | None = None,
        *,
        spelled: Sequence[Path | str] = (),
        max_bytes: int = MAX_BYTES,
        max_age_seconds: int = MAX_AGE_SECONDS,
        on_settled: Settled | None = None,
        requirements: Requirements | None = None,
        sender: Sender | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        reports_per_request: int = REPORTS_PER_REQUEST,
    ) -> None:
        path = Path(task_file)
        self.asked = read_survey(path)
        self.sheet = self.asked.sheet
        self._clock = SystemClock() if clock is None else clock
        self._on_settled = on_settled
        texts = self.asked.texts
        self._meanings = [self.asked.digest, *(each.meaning for each, _ in texts.values())]
        self._letters = _letters_of(self.asked, [Path(folder) for folder in spelled])
        self._owned: list[Callable[[], None]] = []
        if isinstance(outbox, Outbox):
            self._outbox = outbox
        else:
            self._outbox = Outbox(path.with_name(_OUTBOX) if outbox is None else outbox, max_bytes)
            self._owned.append(self._outbox.close)
        asking: Sender
        if sender is None:
            from aggregator.client.stdlib_sender import HttpSender

            sender, asking = HttpSender(), HttpSender(PATIENCE_SECONDS)
            self._owned += [sender.close, asking.close]
        else:
            asking = sender
        self._sender = sender
        # Over connections of its own: an answer does not wait behind an upload.
        self._time = RightTime(self.asked.first, asking, self._clock)
        try:
            source = SystemEntropy() if entropy is None else entropy
            self._texts = _parts_of(self.asked, self._letters, self._outbox, source)
            told = list[tuple[Task, str | None]]()
            if self.asked.task is not None:
                told.append((self.asked.task, None))
            told += [(each, name) for name in texts for each in self.tasks_of(name)]
            (first, of_first), *beside = [
                (each, partial(self._settled, name)) for each, name in told
            ]
            self.reporter = Reporter(
                first,
                self._outbox,
                entropy=entropy,
                clock=self._clock,
                sender=sender,
                on_settled=of_first,
                requirements=requirements,
                max_age_seconds=max_age_seconds,
                reports_per_request=reports_per_request,
                beside=beside,
                keeps_places=True,  # of text questions, by the tosses
            )
        except BaseException:
            self._close_owned()
            raise

    @property
    def task(self) -> Task:
        """A task of the survey: its own, if it has one. Who aggregates it, and its windows."""
        return self.asked.first

    def tasks_of(self, question: str) -> list[Task]:
        """Return all tasks of a text question, also those of windows in which letters are asked."""
        letters = self._letters.get(question, ())
        return [*self.asked.texts[question][1], *(each for one in letters for each in one.tasks)]

    def put(
        self,
        answers: Mapping[str, object],
        *,
        person: str | None = None,
        permit: str | None = None,
    ) -> bytes:
        """Make a report of all answers of one person and store it; return its id.

        Each text question has one more report, of one size, stored with it or not at all.

        Args:
            answers: By the names of questions: a label, a list of labels, a number, a truth value,
                a table of numbers, text, or text and a number, as each asks. What is left out,
                None, NaN or blank is counted as no answer, in a report of the same size; so is
                text without the number that is asked for beside it, or a number without text, and
                text without an answer to the question by which it is counted.
            person: Whose answers these are: a person has one report in each window of this task.
                The name stays in the outbox. Text questions need it, and the outbox then keeps
                which of their tasks the person is in.
            permit: The code of the person's link, where the survey counts only answers with one.
                The aggregators count one answer of it in a window, on whichever device. Without
                `person`, what the outbox keeps is kept by a name that only the code gives.

        Raises:
            AnswerError: A question does not take its answer; the message does not have the answer.
            AlreadyAnswered: The person has a report in this window; or in one that meets it, of
                another task of this survey or of one of its text questions, in the same outbox.
            OutboxFull: There is no room for it.
            NotAsked: The survey has not begun, or it is over.
            TimeUnknown: This machine's clock is wrong, and the aggregators do not agree on it.
            ParameterError: There are text questions, and no person is named; or by what is no name.
                Or the survey counts only answers with a link, and there is none; or it is not
                whole.
        """
        secret = None if permit is None else secret_of(permit)
        if person is None and secret is not None:
            person = name_of(secret)
        # Before any answer is read: the tasks that a person is in must not depend on answers.
        tosses = [] if self._texts is None else self._texts.tosses(_checked(person))
        row = dataclasses.replace(self.row(answers, person=person), secret=secret)
        if (why := self._not_asked(row.seconds)) is not None:
            raise NotAsked(why)
        return self.reporter.put_together(self._put(row, tosses))[0]

    def row(
        self,
        answers: Mapping[str, object],
        *,
        person: str | None = None,
        seconds: int | None = None,
    ) -> Row:
        """Return what `upload` takes of one person, from their answers.

        `seconds` is when they answered, in seconds since the epoch; now by default, by the
        aggregators' clocks if this machine's is wrong. Raises `AnswerError`, `TimeUnknown` and
        `ParameterError` as `put` does.
        """
        read = self.sheet.read(answers)
        entries, skipped = self.sheet.measurement(read), self.sheet.skipped_texts(read)
        texts: dict[str, Written] = {}
        for name, (question, _) in self.asked.texts.items():
            is_asked = name not in skipped
            texts[name] = written_in(answers, name, question.amount, is_asked=is_asked)
            if question.by is not None:
                texts[name] = labelled(texts[name], self.sheet.chosen(read, question.by.question))
        time = self._time.now() if seconds is None else _whole(seconds)
        return Row(entries, texts, time, _checked(person))

    @property
    def clock(self) -> RightTime:
        """The time that answers of now get: this machine's or, if wrong, the aggregators'."""
        return self._time

    def closed(self) -> str | None:
        """Return why nobody can answer now, in words; None if people can.

        Asks the aggregators, so that an application can say it before the first question. Raises
        `TimeUnknown` as `put` does.
        """
        why = self._not_asked(self._time.now())
        if why is None and (word := word_now(self.asked.first, self._sender)) is not None:
            why = f"no more answers are taken now ({word})"
        return why

    def _not_asked(self, seconds: int) -> str | None:
        task = self.asked.first
        if seconds < task.opens:
            return f"the survey begins at {IN_UTC.moment(task.opens)}"
        if task.closes is not None and seconds >= task.closes:
            return f"the survey ended at {IN_UTC.moment(task.closes)}"
        return None

    async def aput(
        self,
        answers: Mapping[str, object],
        *,
        person: str | None = None,
        permit: str | None = None,
    ) -> bytes:
        """`put`, in a thread."""
        from asyncio import to_thread

        return await to_thread(self.put, answers, person=person, permit=permit)

    def upload(
        self,
        rows: Iterable[Row],
        *,
        settled: Callable[[int], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Uploaded:
        """Put the rows of people who have not answered in their window, and send what waits.

        Rows are put in groups, each in one transaction, and settled likewise. Whenever this is
        interrupted, a second call with the same rows goes on: nobody who is named is lost or
        counted twice. A row without a person is another person's in every call.

        Args:
            rows: What each person answered; their order may change from call to call.
            settled: Called with the number of reports that have been settled or left out since.
            tell: Called before something is tried again, with the reason why it has to be.

        Raises:
            ParameterError: There are text questions, and a row names no person.
            ConfigurationError, OutboxFull: The outbox cannot be used, or its disk is full.
        """
        first_tasks = [tasks[0] for _, tasks in self.asked.texts.values()]
        own = [] if self.asked.task is None else [self.asked.task]
        groups = bulk.groups_of(rows, sum(map(room_of, [*own, *first_tasks])))
        puts = map(self._puts, groups)
        return bulk.upload(self.reporter, self._outbox, puts, settled=settled, tell=tell)

    def answered(self, person: str, *, question: str | None = None) -> Outcome | None:
        """Return what became of a person's report in this window; None if there is none.

        Args:
            person: Who answered.
            question: A text question, which has a report of its own.

        Raises:
            ParameterError: The survey has no such text question; or this is no name of a person.
        """
        check_person(person)
        now = self._time.known()
        task: Task | None = self.asked.first
        if question is None and self.asked.task is None:
            question = next(iter(self.asked.texts))  # stored together with all others
        if question is not None:
            if self._texts is None:
                raise ParameterError(f"question: there is no text question {question!r}")
            task = self._texts.task_of(person, question, now)
            if task is None:
                return None
        return self.reporter.claimed(claim_of(self.asked.first, person, now), task)

    def start(self, seconds: float = 1.0) -> None:
        """Send from now on in a background thread, with a pass every `seconds`."""
        self.reporter.start(seconds)

    def close(self) -> None:
        """Stop, and close the connections and the outbox; what waits stays there."""
        self.reporter.close()
        self._close_owned()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_owned(self) -> None:
        for close in self._owned:
            close()

    def _puts(self, rows: Sequence[Row]) -> list[Put]:
        """Return what is stored of rows, whose people's tosses are kept first."""
        if self._texts is None:
            return [self._put(row, ()) for row in rows]
        tosses = self._texts.tosses_of([row.person for row in rows])
        return [self._put(row, of_row) for row, of_row in zip(rows, tosses, strict=True)]

    def _put(self, row: Row, tosses: "Sequence[Toss]") -> Put:
        parts = list[tuple[Task, Measurement]]()
        if self.asked.task is not None:
            parts.append((self.asked.task, row.entries))
        if self._texts is not None:
            parts += self._texts.parts(tosses, row.texts, row.seconds)
        first = self.asked.first
        claim = None if row.person is None else claim_of(first, row.person, row.seconds)
        if first.issuer_keys is not None:  # the aggregators keep the person to one report
            return Put(parts, row.seconds, claim, secret=row.secret, holder=row.person or "")
        if row.person is None:
            return Put(parts, row.seconds)
        if row.secret is not None:  # the aggregators keep the person to one report
            return Put(parts, row.seconds, claim, secret=row.secret)
        # The person has no other report in the window, even if survey or questions change.
        contributed = [
            Contribution.of(first, row.person, row.seconds, asked) for asked in self._meanings
        ]
        return Put(parts, row.seconds, claim, contributed)

    def _settled(
        self, question: str | None, report: bytes, claim: str | None, outcome: Outcome
    ) -> None:
        if self._on_settled is not None:
            person = None if claim is None else claim.partition(MARK)[2]
            self._on_settled(report, person, outcome, question)


def _checked(person: str | None) -> str | None:
    if person is not None:
        check_person(person)
    return person


def _whole(seconds: object) -> int:
    try:
        return operator.index(seconds)  # type: ignore[arg-type]  # what it refuses
    except TypeError:
        raise ParameterError("seconds: must be a whole number") from None


def _letters_of(asked: AskedSurvey, folders: Sequence[Path]) -> "SpelledTexts":
    if not folders:
        return {}
    from aggregator.client.survey.texts import spelled_of

    return spelled_of(asked.texts, folders)


def _parts_of(
    asked: AskedSurvey, letters: "SpelledTexts", outbox: Outbox, entropy: Entropy
) -> "TextParts | None":
    if not asked.texts:
        return None
    # Imports NumPy, which an application without text questions needs only at its first `put`.
    from aggregator.client.survey.texts import TextParts

    return TextParts(asked.texts, letters, outbox, entropy)
