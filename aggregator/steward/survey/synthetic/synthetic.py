"""A synthetic table of a survey: rows of nobody, drawn from noised sums.

It says no more than the released tables do, and costs nothing. What was released has its own
interval; nothing that is computed from rows has one.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from typing_extensions import override

from aggregator.collector.results import Noised, Table
from aggregator.collector.results.csv_rows import as_csv
from aggregator.collector.results.tables import import_library
from aggregator.collector.results.whole_files import written_whole
from aggregator.errors import ParameterError
from aggregator.steward.survey.synthetic.agreement import Agreed, agreed, deviations
from aggregator.steward.survey.synthetic.best import Best
from aggregator.steward.survey.synthetic.drawing import Entries, rows_of
from aggregator.steward.survey.synthetic.mixture import Mixture
from aggregator.steward.survey.synthetic.quality import USEFUL_TAU, USEFUL_Z, Foretold
from aggregator.steward.survey.synthetic.routes import corrected
from aggregator.steward.survey.synthetic.tables import (
    OWN_COLUMNS,
    STAMP,
    Cell,
    Column,
    Floats,
    Layout,
    Released,
)
from aggregator.steward.survey.synthetic.told import Told

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
"""Of the algorithm: one release gives one table as long as it stays the same."""

ENDINGS = (".synthetic.csv", ".synthetic.parquet")
"""How the names of all files with synthetic rows end."""

RULES = (
    "No row is a person, and no interval, test or standard error follows from rows.",
    "Counts of one answer and of two were released, and have intervals of their own.",
    "Functions of pairs have an interval by of_pairs, and three answers bounds by three.",
    "Everything else has no interval at all.",
)
"""What everybody who is given the rows must know."""

_Margin: TypeAlias = tuple[str, Sequence[str], Floats, Sequence[Noised]]
"""The name of a question or a pair, and its labels with synthetic and released counts."""

_NINETY_FIVE = 1.96
"""How many standard deviations a 95 % interval of nearly normal noise reaches."""
_MANY_OUTSIDE = 0.1
_SHOWN_PAIRS = 5


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Count:
    """How many people gave some answers: synthetic, and as released where a table counts them."""

    synthetic: float
    released: Noised | None

    @override
    def __repr__(self) -> str:
        if self.released is None:
            return f"synthetic: {self.synthetic:.6g}; not released, so without an interval"
        return f"synthetic: {self.synthetic:.6g}; released: {self.released!r}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Synthetic:
    """A synthetic table.

    Attributes:
        mixture: What rows are drawn from.
        count_of_rows: How many rows there are.
        seed: What they are drawn by.
        found: z, how far the pairs stand out from noise: above 20 the table is useful.
    """

    mixture: Mixture
    released: Released
    best: Best
    told: Told
    count_of_rows: int
    seed: str
    found: float
    is_masked: bool

    @property
    def layout(self) -> Layout:
        """The columns and pairs."""
        return self.released.layout

    @property
    def people(self) -> int:
        """How many reports were released."""
        return self.released.people

    @property
    def tau(self) -> float:
        """The mean total variation, in points, that noise alone causes in a pair."""
        return Foretold.of(self.layout).tau(self.people)

    @property
    def misfit(self) -> float:
        """The mean squared distance of the table from the released cells, in units of the noise."""
        return self.mixture.misfit

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why other questions are not in the table, by name."""
        return self.layout.left_out

    @property
    def is_weak(self) -> bool:
        """Whether noise is a large part of what the table shows of pairs."""
        return self.tau > USEFUL_TAU or self.found < USEFUL_Z

    @cached_property
    def entries(self) -> Entries:
        """The rows, with an entry for each column."""
        generator = generator_of(self.seed, "rows", self.count_of_rows)
        rows = rows_of(self.mixture, self.count_of_rows, generator)
        if not self.is_masked:
            corrected(rows, self.layout.sizes, self.layout.needs)
        return rows

    @property
    def names(self) -> list[str]:
        """The names of the columns of rows; the last ones are in every synthetic table."""
        return [*(each.name for each in self.layout.columns), *OWN_COLUMNS]

    @property
    def stamp(self) -> str:
        """What stands in each row."""
        windows = "; ".join(self.told.windows)
        return f"not a person: drawn from noised sums of {self.layout.title}, {windows}"

    def columns(self) -> dict[str, list[Cell]]:
        """Return the rows by column; None for no answer and for a question that is not asked."""
        found: dict[str, list[Cell]] = {}
        for place, column in enumerate(self.layout.columns):
            found[column.name] = [column.written[each] for each in self.entries[:, place]]
        window, stamp = "; ".join(self.told.starts), self.stamp
        return found | {
            OWN_COLUMNS[0]: [window] * self.count_of_rows,
            STAMP: [stamp] * self.count_of_rows,
        }

    def rows(self) -> list[dict[str, Cell]]:
        """Return the rows."""
        made = self.columns()
        return [dict(zip(made, cells, strict=True)) for cells in zip(*made.values(), strict=True)]

    def frame(self) -> Any:  # noqa: ANN401 - of whichever of two libraries is installed
        """Return a data frame of pandas, or of polars where that is installed and pandas is not.

        Raises `ConfigurationError` if neither is installed.
        """
        return import_library("a data frame", "pandas", "polars").DataFrame(self.columns())

    def to_csv(self, path: Path | str) -> None:
        """Write the rows as CSV in UTF-8, and what must be known of them to `….about.json` beside.

        Raises `ParameterError` if the name does not end in `.synthetic.csv`.
        """
        self._write(path, ENDINGS[0], lambda: as_csv(self.names, self.rows()))

    def to_parquet(self, path: Path | str) -> None:
        """Write the rows as Parquet, as `to_csv`; the name must end in `.synthetic.parquet`.

        Raises `ConfigurationError` if polars is not installed.
        """
        import io

        def content() -> bytes:
            file = io.BytesIO()
            import_library("Parquet", "polars").DataFrame(self.columns()).write_parquet(file)
            return file.getvalue()

        self._write(path, ENDINGS[1], content)

    def _write(self, path: Path | str, ending: str, content: "Callable[[], bytes]") -> None:
        place = Path(path)
        check_ending(place, ending)
        made = content()
        about = json.dumps(self.about(), ensure_ascii=False, indent=1) + "\n"
        with written_whole(about_of(place)) as file:
            file.write(about.encode())
        with written_whole(place) as file:
            file.write(made)

    def count(self, answers: Mapping[str, object]) -> Count:
        """Return how many people gave some answers, one to each named question.

        Raises `ParameterError` for an unknown question or answer.
        """
        entries = entries_of(self.layout, answers)
        return Count(self.mixture.share(entries) * self.people, self.best.released(entries))

    @cached_property
    def margins(self) -> list[Floats]:
        """The synthetic counts of each column, and then of each pair."""
        of_pairs = [self.mixture.pair(each.of, each.by) for each in self.layout.pairs]
        return [
            self.people * each
            for each in [*map(self.mixture.one, range(len(self.layout.columns))), *of_pairs]
        ]

    @cached_property
    def pairs(self) -> Table:
        """Each count of one answer and of a pair: synthetic beside released, with its interval."""
        columns, pairs = range(len(self.layout.columns)), range(len(self.layout.pairs))
        return self._beside([*map(self._of_column, columns), *map(self._of_pair, pairs)])

    def of_column(self, column: int) -> Table:
        """Return the same of the answers to one question, by its place."""
        return self._beside([self._of_column(column)])

    def of_pair(self, place: int) -> Table:
        """Return the same of one pair, by its place."""
        return self._beside([self._of_pair(place)])

    def _of_column(self, column: int) -> _Margin:
        own = self.layout.columns[column]
        return own.name, own.shown, self.margins[column], self.best.one(column)

    def _of_pair(self, place: int) -> _Margin:
        layout = self.layout
        pair, margin = layout.pairs[place], self.margins[len(layout.columns) + place]
        of, by = layout.columns[pair.of], layout.columns[pair.by]
        labels = [f"{label}, {group}" for label in of.shown for group in by.shown]
        values = [value for row in self.best.pair(pair.of, pair.by) for value in row]
        return f"{of.name} by {by.name}", labels, margin.ravel(), values

    def _beside(self, margins: Sequence[_Margin]) -> Table:
        columns: dict[str, list[Cell]] = {"pair": [], "cell": [], "synthetic": [], "outside": []}
        quantities = list[Noised]()
        for name, labels, counts, values in margins:
            for label, count, value in zip(labels, counts.tolist(), values, strict=True):
                quantities.append(value.named(label))
                columns["pair"].append(name)
                columns["cell"].append(label)
                columns["synthetic"].append(count)
                columns["outside"].append("" if count in value.interval() else "yes")
        return Table(quantities, columns, title=self.layout.title, guarantee=self.told.guarantee)

    @cached_property
    def off(self) -> list[Floats]:
        """How far each pair's synthetic counts are from the released ones, in deviations."""
        layout, made = self.layout, agreed_of(self.released)
        margins = self.margins[len(layout.columns) :]
        each = zip(margins, made.tables, deviations(layout), strict=True)
        return [(margin - table) / deviation for margin, table, deviation in each]

    @property
    def outside(self) -> float:
        """The share of pairs' cells that are not in their 95 % interval, taken as normal."""
        off = np.concatenate([np.abs(each).ravel() for each in self.off])
        return float((off > _NINETY_FIVE).mean())

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the table, a sentence each."""
        found = list[str](self.layout.notes)
        if self.is_weak:
            found.append(
                "weak: noise is a large part of what the table shows of pairs "
                f"(tau {self.tau:.1f} points, z {self.found:.0f})"
            )
        if self.mixture.is_far:
            found.append(
                f"the table departs from the released figures by {self.misfit**0.5:.2f} times the "
                "noise"
            )
        if self.outside > _MANY_OUTSIDE:
            found.append(
                f"{100 * self.outside:.0f} % of the pairs' cells are outside the released intervals"
            )
        return found

    def about(self) -> dict[str, object]:
        """Return what must be known of the rows."""
        return {
            "version": 1,
            "synthetic": self.stamp,
            "title": self.layout.title,
            "windows": list(self.told.windows),
            "reports": self.people,
            "guarantee": self.told.guarantee,
            "releases": list(self.told.releases),
            "rows": self.count_of_rows,
            "seed": self.seed,
            "algorithm": VERSION,
            "tau": self.tau,
            "z": self.found,
            "misfit": self.misfit,
            "outside": self.outside,
            "questions": [each.name for each in self.layout.columns],
            "left_out": dict(self.left_out),
            "pairs_not_asked": [list(each) for each in self.layout.not_asked],
            "in_no_pair": self.alone,
            "warnings": self.warnings,
            "rules": list(RULES),
        }

    @property
    def alone(self) -> list[str]:
        """Questions that are in no pair: in the table they are independent of all others."""
        return [self.layout.columns[at].name for at in self.layout.alone]

    def lines(self) -> list[str]:
        """Return what must be known of the rows, for a reader."""
        layout = self.layout
        missing = [" and ".join(each) for each in layout.not_asked]
        more = f" and {len(missing) - _SHOWN_PAIRS:,} more" if len(missing) > _SHOWN_PAIRS else ""
        found = [
            f"{self.count_of_rows:,} rows of {len(layout.columns)} questions, {self.stamp}",
            f"{self.people:,} reports; {self.told.guarantee}; the rows cost nothing more",
            f"noise alone: {self.tau:.1f} points of each pair (tau; up to {USEFUL_TAU} is useful)",
            f"what pairs show stands out: z = {self.found:.0f} (from {USEFUL_Z} on it is useful)",
            f"distance from the released figures: {self.misfit**0.5:.2f} times the noise",
            f"{100 * self.outside:.1f} % of the pairs' cells are outside their 95 % intervals",
            *(f"left out: {name}: {reason}" for name, reason in self.left_out.items()),
        ]
        if missing:
            found.append(f"not asked together: {'; '.join(missing[:_SHOWN_PAIRS])}{more}")
        if self.alone:
            found.append(f"in no table, so independent of all others: {', '.join(self.alone)}")
        return [*found, *(f"warning: {each}" for each in self.warnings), *RULES]

    @override
    def __repr__(self) -> str:
        return "\n".join(self.lines())


def agreed_of(released: Released) -> Agreed:
    """Return the released counts made to agree."""
    return agreed(released.layout, released.ones, released.tables, released.people)


def entries_of(layout: Layout, answers: Mapping[str, object]) -> dict[int, int]:
    """Return the entry of each named question's answer, by column, or raise `ParameterError`."""
    if not answers:
        raise ParameterError("answers: name one question at least")
    columns: Sequence[Column] = layout.columns
    places = {layout.column(name): label for name, label in answers.items()}
    return {place: columns[place].label_place(label) for place, label in places.items()}


def check_ending(path: Path, *endings: str) -> None:
    """Refuse a name that does not say that the rows in the file are synthetic."""
    if not path.name.endswith(endings):
        raise ParameterError(
            f"{path.name}: the name of a file with synthetic rows must end in "
            f"{' or '.join(endings)}, so that nobody takes them for people"
        )


def about_of(path: Path) -> Path:
    """Return the name of the file that says what must be known of the rows in a file."""
    return path.with_suffix(".about.json")


def generator_of(seed: str, what: str, number: int) -> np.random.Generator:
    """Return the randomness for one purpose."""
    digest = hashlib.sha256(f"{seed} {what} {number}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
