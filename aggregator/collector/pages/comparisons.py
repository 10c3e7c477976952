"""A result beside another: two periods or two groups, and what can be said of their difference."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.collector.pages.numbers import said
from aggregator.collector.pages.readings import Reading
from aggregator.collector.pages.view import MOST_BARS, chooser, chosen_place, unbroken
from aggregator.collector.results import Comparison, Quantity, compare_all
from aggregator.collector.results.comparisons import ONLY_NOISE
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.service.web.pages.charts import Chart, Mark, bars
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.steward.survey import Figure

_LONGEST = 80
"""The most characters of a group's name in a heading."""

_BY_GROUP = ("share", "mean")
"""Figures that are compared between the groups of a table; counts say how large the groups are."""

_COLUMNS = ("first", "minus", "difference", "from", "to", "what can be concluded")


@dataclasses.dataclass(frozen=True)
class Compared:
    """Differences that hold at once.

    `name` is the chart's in an address. `choice` is the form that chooses another result or group,
    and `is_chosen` whether it did.
    """

    name: str
    heading: str
    choice: Html | None
    labels: Sequence[str]
    sides: Sequence[tuple[Html, Html]]
    found: Sequence[Comparison]
    is_chosen: bool = False

    @property
    def marks(self) -> list[Mark]:
        """The differences for a chart."""
        return [_mark(label, each) for label, each in zip(self.labels, self.found, strict=True)]

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise in any of them."""
        return all(each.interval.low == each.interval.high for each in self.found)

    @property
    def chart(self) -> Chart:
        """A bar for each difference."""
        unit = self.found[0].unit
        named = f"difference in {unit}" if unit else "difference"
        held = "" if self.is_exact else ", with intervals that all hold at once"
        return bars(self.marks, f"{self.heading}: difference{held}", named)

    @property
    def caption(self) -> str:
        """What its table shows, and at which confidence."""
        return "Differences" if self.is_exact else _confidence(self.found[0])

    @property
    def content(self) -> list[Html | None]:
        """What a page shows."""
        rows = [
            (*sides, *said(mark), _concluded(each))
            for sides, mark, each in zip(self.sides, self.marks, self.found, strict=True)
        ]
        return [
            tag(
                "details",
                tag("summary", isolated(self.heading)),
                self.choice,
                self.chart.fitting,
                table(self.caption, _COLUMNS, rows),
                tag("p", ONLY_NOISE, class_="soft"),
                open=self.is_chosen,
            )
        ]

    @property
    def documents(self) -> list[dict[str, object]]:
        """The same as JSON."""
        return [{"heading": self.heading, **_document(each)} for each in self.found]


def between_periods(
    results: Sequence[Reading], shown: Reading, chosen: Mapping[str, str]
) -> Compared | None:
    """Compare a result with that of another period: the one before, unless `with` names one.

    Raises `UnrecognizedCollectionJob` if `with` names no result.
    """
    others = [each for each in results if each.name != shown.name]
    if not others:
        return None
    before = [each for each in others if each.start < shown.start]
    other = _named(others, chosen.get("with"), before[-1] if before else others[0])
    theirs = {(each.shows, each.quantity.label): each.quantity for each in other.main}
    both = [
        (each, theirs[each.shows, each.quantity.label])
        for each in shown.main[:MOST_BARS]
        if (each.shows, each.quantity.label) in theirs
    ]
    if not both:
        return None
    pairs = [
        (_of(each.quantity, shown.period), _of(quantity, other.period)) for each, quantity in both
    ]
    return Compared(
        "difference-of-periods",
        f"{shown.period} compared with {other.period}",
        chooser(
            "with",
            "Compare with",
            [(each.name, each.period) for each in others],
            other.name,
            button="Compare",
            kept=shown.kept,
        ),
        [each.quantity.label for each, _ in both],
        [
            (_side(each.quantity, shown.period), _side(quantity, other.period))
            for each, quantity in both
        ],
        compare_all(pairs),
        is_chosen="with" in chosen,
    )


def between_groups(shown: Reading, chosen: Mapping[str, str]) -> Compared | None:
    """Compare the figures of one result with one of them: the first, unless `group` names one.

    Only figures of the kind that is drawn first are compared, never counts with means. In a table
    by group, a share or a mean is compared with the same one of every other group.
    """
    is_table = shown.asked.part is not None and bool(shown.asked.part.by)
    figures = (
        [each for each in shown.figures if each.shows in _BY_GROUP] if is_table else shown.main
    )
    if not figures:
        return None
    if not is_table:
        figures = [each for each in figures if _kind(each) == _kind(figures[0])][:MOST_BARS]
    place = chosen_place(chosen.get("group"), len(figures))
    base = figures[place]
    others = [each for each in figures if each is not base and _kind(each) == _kind(base)]
    if not others:
        return None
    name = base.quantity.label[:_LONGEST]
    return Compared(
        "difference-of-groups",
        f"Each {base.shows} compared with that of {name}",
        chooser(
            "group",
            "Compare with",
            [(str(index), each.quantity.label) for index, each in enumerate(figures)],
            str(place),
            button="Compare",
            kept=shown.kept,
        ),
        [each.quantity.label for each in others],
        [(isolated(each.quantity.label), isolated(base.quantity.label)) for each in others],
        compare_all([(each.quantity, base.quantity) for each in others]),
        is_chosen="group" in chosen,
    )


def _kind(figure: Figure) -> tuple[str, ...]:
    """Return what comparable figures have in common; in a table, also their label."""
    label = figure.quantity.label.removeprefix(figure.group).removeprefix(": ")
    return figure.shows, figure.quantity.unit, label if figure.group else ""


def _named(results: Sequence[Reading], name: str | None, otherwise: Reading) -> Reading:
    if name is None:
        return otherwise
    for each in results:
        if each.name == name:
            return each
    raise UnrecognizedCollectionJob("the question has no such result")


def _of(quantity: Quantity, period: str) -> Quantity:
    return quantity.named(f"{quantity.label} {period}".strip())


def _side(quantity: Quantity, period: str) -> Html:
    label = (isolated(quantity.label), tag("br")) if quantity.label else ()
    return join((*label, unbroken(period)))


def _mark(label: str, each: Comparison) -> Mark:
    estimate = None if each.estimate is None else float(each.estimate)
    return Mark(label, estimate, float(each.interval.low), float(each.interval.high))


def _concluded(each: Comparison) -> str:
    match each.is_larger:
        case None if not each.interval.is_bounded:
            return "nothing"
        case None:
            return "not which is larger, nor that they are equal"
        case True:
            return "the first is larger"
        case False:
            return "the first is smaller"


def _confidence(each: Comparison) -> str:
    interval, percent = each.interval, f"{100 * float(each.interval.confidence):g} %"
    if interval.jointly == 1:
        return f"The difference, with a {percent} interval"
    return f"Differences, with intervals of which all {interval.jointly} hold at once ({percent})"


def _document(each: Comparison) -> dict[str, object]:
    interval = each.interval
    return {
        "first": each.first,
        "second": each.second,
        "estimate": None if each.estimate is None else float(each.estimate),
        "low": float(interval.low) if interval.is_bounded else None,
        "high": float(interval.high) if interval.is_bounded else None,
        "jointly": interval.jointly,
        "can_be_concluded": each.can_be_concluded,
        "cannot_be_concluded": each.cannot_be_concluded,
    }
