"""Stored results as what pages show: questions, windows, and figures with intervals.

Finished results never change, so intervals are computed once for each and kept.
"""

import dataclasses
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property

from aggregator.collector import store
from aggregator.collector.documents import Document, collection_document
from aggregator.collector.invited import PermitLists, invited_to
from aggregator.collector.pages.asked import Asked, asked_of
from aggregator.collector.pages.changes import Changed, changed
from aggregator.collector.results import Batch, Noised, Range, Shown, shown
from aggregator.collector.results.sayable import NONE_OR_A_FEW
from aggregator.collector.results.selection import Withheld
from aggregator.collector.store import StoredCollection
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.utility import DEFAULT_CONFIDENCE, PERCENT
from aggregator.errors import ParameterError
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import Mark
from aggregator.steward.survey import Figure, Sums
from aggregator.written_times import Times, counted

SHOWN_WINDOWS = 60
"""The most results of one question that a page shows; the newest ones."""

_KEPT = 8192
"""The most results whose figures are kept."""

_DIGITS = 8
"""The most digits of a number in an address."""

BARE = "value"
"""What a figure shows whose meaning is not known."""

Row = dict[str, str | int | float | None]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One figure as it is shown.

    `shows` is its kind, such as "count", `mark` its label, estimate and interval, and `shown` what
    a page says of it.
    """

    shows: str
    unit: str
    mark: Mark
    method: str
    shown: Shown

    @property
    def is_bar(self) -> bool:
        """Whether it is drawn: not if it is withheld, or says too little."""
        is_said = self.shown.ends is not None or self.shown.value == NONE_OR_A_FEW
        return is_said and self.mark.value is not None

    @property
    def row(self) -> Row:
        """The estimate as a row; null where there is no estimate or no bound."""
        return {
            "shows": self.shows,
            "label": self.mark.label,
            "value": self.mark.value,
            "low": _finite(self.mark.low),
            "high": _finite(self.mark.high),
            "unit": self.unit,
            "confidence": float(DEFAULT_CONFIDENCE),
            "method": self.method,
        }


@dataclasses.dataclass(frozen=True)
class Reading:
    """One finished collection of a question, with its document as the API shows it.

    `invited` is how many people were invited to its window; None if no list says so.
    """

    asked: Asked
    document: Document
    invited: int | None = None

    @property
    def name(self) -> str:
        """The collection's id, hexadecimal."""
        return str(self.document["collection_id"])

    @property
    def kept(self) -> dict[str, str]:
        """The parameters of its address: which question, and which result."""
        return self.asked.kept | {"result": self.name}

    @cached_property
    def batch(self) -> Batch:
        """The released values."""
        return Batch.of_document(self.asked.task, self.document)

    @cached_property
    def result(self) -> Document:
        """The result's document."""
        result = self.document["result"]
        assert isinstance(result, dict)  # noqa: S101  only finished collections are read
        return result

    @property
    def start(self) -> int:
        """The first second that was asked for, or that the leader's batch covers."""
        return self._bound("start", self.batch.start)

    @property
    def is_of_a_window(self) -> bool:
        """Whether it is of a whole window of its survey, and no other interval."""
        if self.asked.meaning is None:
            return False
        try:
            start, end = (datetime.fromtimestamp(each, UTC) for each in self.bounds)
            return self.asked.meaning.window(start) == (start, end)
        except (OverflowError, ValueError):  # a request may name years that no calendar has
            return False

    @property
    def bounds(self) -> tuple[int, int]:
        """Its first second and the one after its last."""
        return self.start, self._bound("end", self.batch.end)

    @property
    def period(self) -> str:
        """Its time for a reader."""
        return self.asked.period(*self.bounds)

    @property
    def reports(self) -> str:
        """How many reports it is of, and of how many people who were invited."""
        said = counted(self.batch.report_count, "report")
        return said if self.invited is None else f"{said} of {self.invited:,} invited"

    @cached_property
    def _sums(self) -> Sums | None:
        """The sums of its question; None if they have no meaning or some are withheld."""
        meaning, part = self.asked.meaning, self.asked.part
        if meaning is None or part is None:
            return None
        try:
            return meaning.sheet.sums_of_part(part, self.batch)
        except ParameterError:  # a value is withheld, and so is everything computed from it
            return None

    @cached_property
    def by_group(self) -> Sequence[Figure]:
        """Its figures, whose labels do not name their groups; see `figures`."""
        part = self.asked.part
        if part is not None and self._sums is not None:
            return part.source.figures(self._sums)
        return [
            Figure(BARE, each, is_wanted=not isinstance(each, Withheld))
            for each in self.batch.quantities()
        ]

    @cached_property
    def figures(self) -> Sequence[Figure]:
        """Its figures; bare values if they have no meaning or some are withheld.

        What is withheld is listed, and neither drawn nor compared.
        """
        return list(map(_with_group, self.by_group))

    @cached_property
    def answered(self) -> Mapping[str, str]:
        """About how many people of each group answered; by "" for a question without groups."""
        part = self.asked.part
        if part is None or self._sums is None:
            return {}
        found = part.source.answered(self._sums)
        counts = {"": found} if isinstance(found, Noised) else found
        return {group: f"{max(0, round(count.value)):,}" for group, count in counts.items()}

    @cached_property
    def main(self) -> Sequence[Figure]:
        """The figures that are drawn first."""
        return [each for each in self.figures if each.is_wanted] or list(self.figures)

    @property
    def main_estimates(self) -> Sequence[Estimate]:
        """The same with intervals."""
        return list(map(self.estimate, self.main))

    @property
    def intervals(self) -> str:
        """What tables say of its intervals; "" if it has no noise, so that none is needed."""
        return f", {PERCENT} intervals" if self.asked.task.policy.mechanism.is_noisy else ""

    @cached_property
    def drawn(self) -> tuple[Sequence[Estimate], Sequence[Estimate]]:
        """The main figures that are bars of a chart, and those that are said in words.

        The only one of its kind needs no chart, and no words beside the headline if no other kind
        is shown. What says too little is in neither.
        """
        main = self.main_estimates
        kinds = Counter((each.shows, each.unit) for each in main)
        bars: list[Estimate] = []
        alone: list[Estimate] = []
        for each in main:
            if each.is_bar:
                (alone if kinds[each.shows, each.unit] == 1 else bars).append(each)
        return bars, alone if len(main) > 1 else []

    @cached_property
    def estimates(self) -> Sequence[Estimate]:
        """All figures with intervals, each by itself at 95 % confidence."""
        return [self.estimate(figure) for figure in self.figures]

    def estimate(self, figure: Figure) -> Estimate:
        """Return one of its figures as it is shown."""
        found = self._estimates.get(id(figure.quantity))
        if found is None:
            found = _estimate(figure, self.possible(figure))
            self._estimates[id(figure.quantity)] = found
        return found

    @cached_property
    def _estimates(self) -> dict[int, Estimate]:
        """Those that were asked for, by the identity of quantities, which it keeps."""
        return {}

    def possible(self, figure: Figure) -> Range | None:
        """Return what one of its figures may be; None if nothing limits it."""
        reports = self.batch.report_count
        if figure.shows != BARE:
            return figure.possible(reports)
        most = max_entry(self.asked.task.prio3.circuit)
        return Range(Fraction(0), Fraction(reports * most), is_of_people=most == 1)

    def estimate_of(self, shows: str, label: str) -> Estimate | None:
        """Return one figure with its interval, without computing the others'."""
        for figure in self.figures:
            if (figure.shows, figure.quantity.label) == (shows, label):
                return self.estimate(figure)
        return None

    @property
    def rows(self) -> list[Row]:
        """A row for each figure, for a table."""
        named: Row = {
            "window": self.period,
            "reports": self.batch.report_count,
            "collection_id": self.name,
        }
        if self.invited is not None:
            named["invited"] = self.invited
        return [named | each.row for each in self.estimates]

    def _bound(self, name: str, otherwise: int) -> int:
        query = self.document["query"]
        found = query.get(name) if isinstance(query, dict) else None
        return found if isinstance(found, int) else otherwise


class Readings:
    """Reads a collector's store for pages, and keeps what it has computed.

    Several threads may read at once: if two compute the same figures, they get the same.
    """

    def __init__(self, times: Times, lists: PermitLists = PermitLists(None)) -> None:  # noqa: B008  of nothing
        """Show times as `times` writes them, and who was invited as lists say."""
        self.times = times
        self._lists = lists
        self._kept: OrderedDict[tuple[bytes, int], Reading] = OrderedDict()
        self._changed: OrderedDict[tuple[str, str, int], Changed | None] = OrderedDict()

    def asked(self, tx: Transaction) -> list[Asked]:
        """Return all questions and tables, those of the oldest task first."""
        tasks = (asked_of(definition, self.times) for definition in store.list_definitions(tx))
        return [each for task in tasks for each in task.all]

    def one(self, tx: Transaction, task_id: bytes, place: str = "") -> Asked | None:
        """Return a question of a task, if the collector has it: by default the first."""
        definition = store.get_definition(tx, task_id)
        if definition is None:
            return None
        found = asked_of(definition, self.times).all
        named = int(place) if place.isascii() and place.isdecimal() and len(place) < _DIGITS else 0
        return found[named] if named < len(found) else found[0]

    def latest(
        self, tx: Transaction, asked: Asked, most: int | None = SHOWN_WINDOWS
    ) -> list[Reading]:
        """Return the newest finished collections of a question, those of the earliest window first.

        Args:
            tx: A transaction on the collector's store.
            asked: The question.
            most: How many; None for all.
        """
        stored = store.newest_collections(
            tx, asked.task.task_id.value, most, CollectionState.FINISHED
        )
        return sorted((self.of(asked, each) for each in stored), key=lambda each: each.start)

    def changed(self, results: Sequence[Reading]) -> Changed | None:
        """Return what changed between the last two results; None if they cannot be compared."""
        if len(results) < 2:  # noqa: PLR2004  the least that can be compared
            return None
        before, latest = results[-2:]
        key = before.name, latest.name, latest.asked.place
        if key not in self._changed:
            self._changed[key] = changed(before.main, latest.main, before.period)
            while len(self._changed) > _KEPT:
                self._changed.popitem(last=False)
        return self._changed[key]

    def of(self, asked: Asked, stored: StoredCollection) -> Reading:
        """Return a finished collection of a question."""
        key = stored.collection_id, asked.place
        found = self._kept.get(key)
        invited = None
        if asked.task.permits is not None:
            found = found or Reading(asked, collection_document(asked.task, stored))
            invited = invited_to(asked.task, found.start, self._lists.permits())
        if found is None or found.invited != invited:
            found = Reading(asked, collection_document(asked.task, stored), invited)
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def _with_group(figure: Figure) -> Figure:
    """Return a figure whose label also names its group."""
    if not figure.group:
        return figure
    quantity = figure.quantity
    label = ": ".join(filter(None, (figure.group, quantity.label)))
    return dataclasses.replace(figure, quantity=quantity.named(label))


def _estimate(figure: Figure, possible: Range | None) -> Estimate:
    quantity = figure.quantity
    interval, estimate = quantity.interval(DEFAULT_CONFIDENCE), quantity.estimate
    value = None if estimate is None else float(estimate)
    mark = Mark(quantity.label, value, float(interval.low), float(interval.high))
    said = shown(quantity, possible, interval)
    return Estimate(figure.shows, quantity.unit, mark, interval.method, said)


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
