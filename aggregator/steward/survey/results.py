"""The results of a survey's collections: labelled figures with intervals."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from aggregator.collector.results import Batch, ConfidenceInterval, Noised, Quantity, Table
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP, Task
from aggregator.steward.survey.synthetic.told import start_of
from aggregator.steward.survey.write_meaning import Meaning

if TYPE_CHECKING:
    from aggregator.collector.results.charts import Cell
    from aggregator.steward.survey.synthetic.of_pairs import Codes, Function
    from aggregator.steward.survey.synthetic.synthetic import Synthetic


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One figure of one question in one window.

    Attributes:
        window: The window, for a reader.
        question: The question's name.
        shows: "count", "share", "sum", "mean", "variance" or "quantile".
        answered: How many answered the question in the window, or in a table's group: noised.
        quantity: The value, with its label, unit and interval.
        by: In a table, the question whose answers are the groups.
        group: The label of the group.
    """

    window: str
    question: str
    shows: str
    answered: Noised
    quantity: Quantity
    by: str = ""
    group: str = ""

    @property
    def named(self) -> Quantity:
        """The quantity, with a name that tells it apart from that of any other row."""
        names = (self.question, self.shows, self.quantity.label)
        of = f" of {self.by} {self.group}" if self.by else ""
        label = f"{' '.join(filter(None, names))}{of}, {self.window}"
        return dataclasses.replace(self.quantity, label=label)

    @property
    def place(self) -> tuple[str, ...]:
        """What the figure is, in any window."""
        return self.question, self.shows, self.quantity.label, self.by, self.group


def rows_of(meaning: Meaning, batch: Batch, window: str) -> list[Row]:
    """Return every figure of one window, or raise `ParameterError`."""
    sheet = meaning.sheet
    sums, rows = sheet.sums_of(batch), list[Row]()
    for part in sheet.parts:
        found = part.source.answered(part.of(sums))
        answered = {"": found} if isinstance(found, Noised) else found
        name = part.question.name
        rows += [
            Row(window, name, each.shows, answered[each.group], each.quantity, part.by, each.group)
            for each in part.figures(sums)
        ]
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class SurveyResults:
    """What was collected of a survey, or of some of its windows.

    `results` are the survey's task, or several tasks with one title, with a batch for each window,
    in the order of the rows.
    """

    results: Sequence[tuple[Task, Batch]]
    title: str = ""

    @cached_property
    def rows(self) -> list[Row]:
        """Every figure.

        Raises `ParameterError` if a task is not of a survey, or a value is withheld.
        """
        rows = list[Row]()
        for task, batch in self.results:
            meaning = Meaning.of_task(task)
            # Whoever gets a row alone, in a file or a chart, shall see it.
            rows += rows_of(meaning, batch, _window(task, meaning, batch))
        return rows

    @property
    def guarantee(self) -> str:
        """What people are promised for everything that they are asked."""
        return "; ".join(dict.fromkeys(batch.guarantee for _, batch in self.results))

    @cached_property
    def windows(self) -> list[str]:
        """The windows that have results, the earliest first."""
        return sorted({row.window for row in self.rows})

    def table(
        self,
        question: str | None = None,
        shows: str | None = None,
        *,
        by: str | None = None,
        confidence: Fraction = DEFAULT_CONFIDENCE,
        jointly: bool = False,
    ) -> Table:
        """Return figures in one table, each with its window and question.

        Args:
            question: Only this question's figures.
            shows: Only these figures: "share", "mean".
            by: Only tables by this question's answers; "" for no tables.
            confidence: The confidence of each interval by itself, or of all at once.
            jointly: Whether all intervals hold at once.
        """
        rows = self._chosen(question, shows, by)
        columns: dict[str, Sequence[Cell]] = {
            "window": [row.window for row in rows],
            "question": [row.question for row in rows],
            "by": [row.by for row in rows],
            "group": [row.group for row in rows],
            "shows": [row.shows for row in rows],
            "answered": [round(row.answered.value) for row in rows],
        }
        quantities = [row.quantity for row in rows]
        return Table(
            quantities, columns, confidence, jointly, title=self.title, guarantee=self.guarantee
        )

    def figure(
        self,
        question: str,
        shows: str,
        label: str = "",
        *,
        window: str | int,
        by: str = "",
        group: str = "",
    ) -> Quantity:
        """Return one figure to calculate with and to compare.

        Args:
            question: The question's name.
            shows: "count", "share", "sum", "mean", "variance" or "quantile".
            label: Which figure, if there are several.
            window: One of `windows`, or its index there: -1 is the last.
            by: For a table by group, the question whose answers are the groups.
            group: The label of the group.

        Raises:
            ParameterError: There is no such figure.
        """
        try:
            name = self.windows[window] if isinstance(window, int) else window
        except IndexError:
            raise ParameterError(f"window: there are only {len(self.windows)}") from None
        row = self._by_place.get((name, question, shows, label, by, group))
        if row is None:
            of = f" of {by} {group}" if by or group else ""
            asked = f"{question} {shows} {label}".strip() + of
            raise ParameterError(f"there is no {asked} of {name}")
        return row.named

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
        for row in self._chosen(question, shows):
            old = self._by_place.get((before, *row.place))
            if row.window == last and old is not None:
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
        try:
            chosen = [names[each] if isinstance(each, int) else each for each in windows]
        except IndexError:
            raise ParameterError(f"window: there are only {len(names)}") from None
        known = {name.removeprefix(MADE_UP): name for name in names}
        chosen = [known.get(each, each) for each in chosen]
        if unknown := set(chosen) - set(names):
            raise ParameterError(f"window: there is no result of {min(unknown)}")
        kept = [each for each in found if each[0] in chosen]
        (_, first, _), *others = kept
        if any(
            (each.meaning, each.policy.mechanism) != (first.meaning, first.policy.mechanism)
            for _, each, _ in others
        ):
            raise ParameterError("window: these are of different surveys, or have different noise")
        return Meaning.of_task(first), [batch for _, _, batch in kept], sorted(set(chosen))

    @cached_property
    def _by_place(self) -> dict[tuple[str, ...], Row]:
        return {(row.window, *row.place): row for row in self.rows}

    def _chosen(self, question: str | None, shows: str | None, by: str | None = None) -> list[Row]:
        return [
            row
            for row in self.rows
            if question in (None, row.question)
            and shows in (None, row.shows)
            and by in (None, row.by)
        ]


def _window(task: Task, meaning: Meaning, batch: Batch) -> str:
    """Return the window of a batch for a reader, who shall see if answers were made up."""
    mark = MADE_UP if task.is_made_up else ""
    return f"{mark}{meaning.windows.describe(start_of(meaning, batch))}"
