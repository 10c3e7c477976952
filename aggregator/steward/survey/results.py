"""The results of a survey's collections: labelled figures with intervals."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from typing_extensions import override

from aggregator.collector.results import (
    Batch,
    Comparison,
    ConfidenceInterval,
    CrossTable,
    Quantity,
    Table,
    compare,
)
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP, Task
from aggregator.steward.survey.derived import DERIVED, derived
from aggregator.steward.survey.result_names import checked, listed, window_named
from aggregator.steward.survey.result_rows import Row, named, rows_of
from aggregator.steward.survey.synthetic.told import start_of
from aggregator.steward.survey.write_meaning import Meaning
from aggregator.written_times import counted

if TYPE_CHECKING:
    from aggregator.collector.results.charts import Cell
    from aggregator.steward.survey.synthetic.of_pairs import Codes, Function
    from aggregator.steward.survey.synthetic.synthetic import Synthetic

Labels = str | Sequence[str]
"""One label, or several whose shares or counts are added."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SurveyResults:
    """What was collected of a survey, or of some of its windows.

    `results` are the survey's task, or several tasks with one title, with a batch for each window,
    in the order of the rows. `paid` is what a person pays for everything that is asked, if that is
    known; each task says only what it costs itself.

    A name that is not there, of a question, figure, label, group or window, raises
    `ParameterError`, which says what there is.
    """

    results: Sequence[tuple[Task, Batch]]
    title: str = ""
    paid: str = ""

    @cached_property
    def rows(self) -> list[Row]:
        """Every figure.

        Raises `ParameterError` if a task is not of a survey, or a value is withheld.
        """
        rows = list[Row]()
        for (task, batch), meaning in zip(self.results, self._meanings, strict=True):
            # Whoever gets a row alone, in a file or a chart, shall see it.
            rows += rows_of(meaning, batch, _window(task, meaning, batch))
        return rows

    @property
    def guarantee(self) -> str:
        """What a person pays, or else what each task promises, in a few words."""
        return self.paid or "; ".join(dict.fromkeys(batch.guarantee for _, batch in self.results))

    @cached_property
    def windows(self) -> list[str]:
        """The windows that have results, the earliest first."""
        return sorted({row.window for row in self.rows})

    @cached_property
    def questions(self) -> list[str]:
        """The names of the questions that have figures."""
        return list(dict.fromkeys(row.question for row in self.rows))

    def table(
        self,
        question: str | None = None,
        shows: str | None = None,
        *,
        by: str | None = "",
        window: str | int | None = None,
        confidence: Fraction = DEFAULT_CONFIDENCE,
        jointly: bool = False,
    ) -> Table:
        """Return figures in one table, each with its window and question.

        Args:
            question: Only this question's figures.
            shows: Only these figures: "share", "mean".
            by: Only tables by this question's answers; "" for no tables, None for everything.
            window: Only this window: one of `windows`, its beginning, or its index there.
            confidence: The confidence of each interval by itself, or of all at once.
            jointly: Whether all intervals hold at once.
        """
        rows = self._chosen(question, shows, by, window)
        columns: dict[str, Sequence[Cell]] = {
            "window": [row.window for row in rows],
            "question": [row.question for row in rows],
            "by": [row.by for row in rows],
            "group": [row.group for row in rows],
            "shows": [row.shows for row in rows],
            "answered": [round(row.answered.value) for row in rows],
        }
        return Table(
            [row.quantity for row in rows],
            columns,
            confidence,
            jointly,
            title=self.title,
            guarantee=self.guarantee,
            possible=[row.possible for row in rows],
        )

    def cross(
        self,
        question: str,
        by: str,
        shows: str | None = None,
        *,
        window: str | int = -1,
        confidence: Fraction = DEFAULT_CONFIDENCE,
        jointly: bool = False,
    ) -> CrossTable:
        """Return a question by group: a row for each answer, a column for each group.

        Args:
            question: The question's name.
            by: The question whose answers are the groups.
            shows: Which figures: by default shares of the group, or else means.
            window: As in `table`; by default the last.
            confidence: As in `table`.
            jointly: As in `table`.
        """
        kinds = self._kinds(question, by)
        wanted = shows or next((each for each in ("share", "mean") if each in kinds), kinds[0])
        rows = self._chosen(question, wanted, by, window)
        text = rows[0].part.question.text or question
        return CrossTable(
            {(row.quantity.label, row.group): row.quantity for row in rows},
            {(row.quantity.label, row.group): row.possible for row in rows},
            wanted,
            by,
            title=f"{text} ({rows[0].window})",
            guarantee=self.guarantee,
            confidence=confidence,
            jointly=jointly,
        )

    def figure(
        self,
        question: str,
        shows: str,
        label: Labels = "",
        *,
        window: str | int = -1,
        by: str = "",
        group: str = "",
    ) -> Quantity:
        """Return one figure to calculate with and to compare.

        Args:
            question: The question's name.
            shows: "count", "share", "sum", "mean", "variance" or "quantile"; also "deviation", the
                standard deviation, and "odds", of those who gave an answer against all others.
            label: Which figure, if there are several; or several labels of one question, whose
                counts, shares or odds are taken together, such as the top two boxes of a scale.
            window: One of `windows`, its beginning, or its index there: -1 is the last.
            by: For a table by group, the question whose answers are the groups.
            group: The label of the group.
        """
        name = window_named(window, self.windows)
        kinds = self._kinds(question, by)
        checked("shows", shows, [*kinds, *DERIVED], of=question)
        rows = [
            row for row in self.rows if (row.window, row.question, row.by) == (name, question, by)
        ]
        if by or group:
            groups = [row.group for row in rows]
            checked("group", group, groups, of=f"{question} by {by}" if by else question)
            rows = [row for row in rows if row.group == group]
        if isinstance(label, str) and shows not in DERIVED:
            own = {row.quantity.label: row for row in rows if row.shows == shows}
            return own[checked("label", label, own, of=f"{question} {shows}")].named
        labels = [label] if isinstance(label, str) else list(label)
        first, figures = rows[0], [row.figure for row in rows]
        found = derived(first.part, figures, first.answered, shows, labels)
        return named(first, found, shows)

    def difference(
        self,
        question: str,
        shows: str,
        label: Labels = "",
        *,
        by: str,
        groups: tuple[str, str],
        window: str | int = -1,
        confidence: Fraction = DEFAULT_CONFIDENCE,
    ) -> Comparison:
        """Compare one figure of two groups: the first less the second; see `figure`."""
        first, second = (
            self.figure(question, shows, label, window=window, by=by, group=group)
            for group in groups
        )
        return compare(first, second, confidence)

    def changes(
        self, question: str | None = None, shows: str | None = None
    ) -> list[tuple[Quantity, Quantity]]:
        """Return `changed_rows` as quantities to compare, with their windows in their names."""
        return [(new.named, old.named) for new, old in self.changed_rows(question, shows)]

    def changed_rows(
        self, question: str | None = None, shows: str | None = None
    ) -> list[tuple[Row, Row]]:
        """Return each figure of the last window with that of the window before.

        Args:
            question: Only this question's figures.
            shows: Only these figures.

        Raises:
            ParameterError: There are fewer than two windows.
        """
        if len(self.windows) < 2:  # noqa: PLR2004 - a change has two ends
            raise ParameterError(f"window: a change is of two, not {len(self.windows)}")
        before, last = self.windows[-2:]
        pairs = []
        for row in self._chosen(question, shows, None, last):
            old = self._by_place.get((before, *row.place))
            if old is not None:
                pairs.append((row, old))
        return pairs

    def synthetic(
        self,
        window: str | int = -1,
        rows: int | None = None,
        seed: object = None,
        *,
        windows: Sequence[str | int] = (),
        although_noise: bool = False,
    ) -> "Synthetic":
        """Return a table of made-up rows, drawn from what was released of one window.

        Nobody is asked again and it costs nobody anything.

        Args:
            window: One of `windows`, or its index there: -1 is the last.
            rows: How many rows; by default as many as there are reports.
            seed: What rows are drawn by; one release gives one table otherwise.
            windows: Several windows, all of whose people are taken together, in place of one.
            although_noise: Whether to make it where nothing stands out from the noise.

        Raises:
            ParameterError: There is no such window, nothing between questions stands out from the
                noise, or no two questions are in a table.
        """
        from aggregator.steward.survey.synthetic.making import synthetic_of
        from aggregator.steward.survey.synthetic.told import Told

        meaning, batches, names = self._chosen_windows(windows or (window,))
        told = Told.of(meaning, batches, self.guarantee, tuple(names))
        return synthetic_of(meaning, batches, told, rows, seed, although_noise=although_noise)

    def three(
        self,
        answers: Mapping[str, object],
        window: str | int = -1,
        confidence: Fraction = DEFAULT_CONFIDENCE,
    ) -> ConfidenceInterval:
        """Return bounds for how many people gave three answers, from the tables of pairs.

        Raises `ParameterError` if there is no such answer, or two of the questions are in no table.
        """
        from aggregator.steward.survey.synthetic.best import Best
        from aggregator.steward.survey.synthetic.synthetic import entries_of
        from aggregator.steward.survey.synthetic.tables import released_of
        from aggregator.steward.survey.synthetic.three_answers import bounds_of_three

        meaning, batches, _ = self._chosen_windows((window,))
        layout = released_of(meaning, batches).layout
        best = Best(layout, meaning.sheet.circuit, batches)
        return bounds_of_three(best, [*entries_of(layout, answers).items()], confidence)

    def of_pairs(
        self, function: "Function", questions: "Sequence[str] | Codes", window: str | int = -1
    ) -> Table:
        """Return what a function makes of the means and covariances of some questions.

        Intervals come from copies of the release with fresh noise, and are approximate.

        Args:
            function: Gets the means and the covariance matrix; returns a number, or several by
                name.
            questions: Their names, or for each the number that stands for each label.
            window: One of `windows`, or its index there: -1 is the last.

        Raises:
            ParameterError: There is no such question, two are in no table, or noise is larger than
                what the pairs show.
        """
        from aggregator.steward.survey.synthetic.of_pairs import figures_of_pairs
        from aggregator.steward.survey.synthetic.synthetic import generator_of
        from aggregator.steward.survey.synthetic.tables import released_of
        from aggregator.steward.survey.synthetic.told import release_of

        meaning, batches, names = self._chosen_windows((window,))
        generator = generator_of("\n".join(map(release_of, batches)), "copies", 0)
        found = figures_of_pairs(released_of(meaning, batches), function, questions, generator)
        columns: dict[str, Sequence[Cell]] = {"window": names * len(found)}
        return Table(found, columns, title=self.title, guarantee=self.guarantee)

    def _chosen_windows(
        self, windows: Sequence[str | int]
    ) -> tuple[Meaning, list[Batch], list[str]]:
        """Return what some windows mean, their batches and their names."""
        found = list[tuple[str, Task, Batch]]()
        for task, batch in self.results:
            found.append((_window(task, Meaning.of_task(task), batch), task, batch))
        found.sort(key=lambda each: each[0])
        names = sorted({name for name, _, _ in found})
        chosen = [window_named(each, names) for each in windows]
        kept = [each for each in found if each[0] in chosen]
        (_, first, _), *others = kept
        if any(
            (each.meaning, each.policy.mechanism) != (first.meaning, first.policy.mechanism)
            for _, each, _ in others
        ):
            raise ParameterError("window: these are of different surveys, or have different noise")
        return Meaning.of_task(first), [batch for _, _, batch in kept], sorted(set(chosen))

    @override
    def __repr__(self) -> str:
        """Say what was collected, and the names by which figures are asked for."""
        if not self.results:
            return f"{self.title or 'A survey'}: nothing is collected yet"
        windows = self.windows
        span = windows[0] if len(windows) == 1 else f"{windows[0]} … {windows[-1]}"
        reports = sum(batch.report_count for _, batch in self.results)
        count = counted(len(windows), "window")
        return "\n".join(
            [
                f"{self.title}: {count} ({span}), {counted(reports, 'report')}",
                f"What a person pays: {self.guarantee}",
                *self._described(),
            ]
        )

    def _repr_html_(self) -> str:
        """Return the last window's figures of the questions, for a notebook."""
        return self.table(window=-1 if self.results else None)._repr_html_()

    def _described(self) -> Iterator[str]:
        for name in self.questions:
            tables = self._tables(name)
            by = f"; by {', '.join(tables)}" if tables else ""
            yield f"  {name}: {', '.join(self._kinds(name, ''))}{by}"
        for name in self._texts:
            yield f"  {name}: what people wrote (`Words`)"

    @cached_property
    def _meanings(self) -> list[Meaning]:
        return [Meaning.of_task(task) for task, _ in self.results]

    @property
    def _texts(self) -> list[str]:
        return list(dict.fromkeys(name for each in self._meanings for name, _ in each.texts))

    @cached_property
    def _by_place(self) -> dict[tuple[str, ...], Row]:
        return {(row.window, *row.place): row for row in self.rows}

    def _tables(self, question: str) -> list[str]:
        """Return the questions by whose answers there are tables of this one."""
        return list(
            dict.fromkeys(row.by for row in self.rows if row.question == question and row.by)
        )

    def _kinds(self, question: str, by: str | None) -> list[str]:
        """Return the kinds of figures of a question, or of its table by group.

        Raises `ParameterError` if there is no such question or table.
        """
        if question in self._texts:
            raise ParameterError(
                f"question: {question} is a text question, which has no figures: "
                "`aggregator.results.Words` says what people wrote"
            )
        checked("question", question, self.questions)
        if by:
            tables = self._tables(question)
            if not tables:
                raise ParameterError(
                    f"by: the survey has no table of {question} by {by!r}, nor by any question; "
                    f"{self._all_tables()}"
                )
            checked("by", by, tables, of=question)
        return list(
            dict.fromkeys(
                row.shows for row in self.rows if row.question == question and by in (None, row.by)
            )
        )

    def _all_tables(self) -> str:
        every = [row.by for row in self.rows if row.by]
        if not every:
            return "`by` in survey.toml asks for tables, before anybody answers"
        return f"it has tables by {listed(list(dict.fromkeys(every)))}"

    def _chosen(
        self,
        question: str | None,
        shows: str | None,
        by: str | None,
        window: str | int | None = None,
    ) -> list[Row]:
        """Return the rows of these names, all of which must be there."""
        if not self.rows:
            return []
        if question is not None:
            kinds = self._kinds(question, by)
            of = f"{question} by {by}" if by else question
        else:
            every = [row.by for row in self.rows if row.by]
            if by:
                checked("by", by, every)
            kinds, of = [row.shows for row in self.rows if by in (None, row.by)], "the survey"
        if shows is not None:
            checked("shows", shows, kinds, of=of)
        name = None if window is None else window_named(window, self.windows)
        return [
            row
            for row in self.rows
            if question in (None, row.question)
            and shows in (None, row.shows)
            and by in (None, row.by)
            and name in (None, row.window)
        ]


def _window(task: Task, meaning: Meaning, batch: Batch) -> str:
    """Return the window of a batch for a reader, who shall see if answers were made up."""
    mark = MADE_UP if task.is_made_up else ""
    return f"{mark}{meaning.windows.describe(start_of(meaning, batch))}"
