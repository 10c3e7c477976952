"""Results beside the truth, as a file: for a demo, whose operator alone knows both.

A collector never knows the truth, so none of its pages shows it.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

from aggregator.collector.pages.numbers import beside, said
from aggregator.service.web.pages.charts import Mark, bars
from aggregator.service.web.pages.frame import Link, file
from aggregator.service.web.pages.html import Html, isolated, join, table, tag

_STYLE = """
:root{--truth:#b4500a}
@media(prefers-color-scheme:dark){:root{--truth:#ffb454}}
.truth{fill:var(--truth);color:var(--truth)}
"""
_COLUMNS = ("figure", "in truth", "released", "from", "to", "unit", "holds the truth")


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """One figure beside its true value.

    `shows` is its kind, such as "count", and `mark` the released figure with its interval.
    """

    shows: str
    unit: str
    mark: Mark
    truth: float
    is_held: bool

    @property
    def name(self) -> str:
        """A name that tells it apart from the question's other figures."""
        return f"{self.shows} {self.mark.label}".strip()

    @property
    def verdict(self) -> str:
        """Whether the interval holds the truth, for a reader who expects it always to."""
        return "yes" if self.is_held else "no: 1 in 20 may miss"


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """One question with its result.

    `counted` says how many reports there were and who verified them, `promise` what is guaranteed,
    and `conditions` what to know about that, each with its subject.
    """

    title: str
    counted: str
    figures: Sequence[Beside]
    promise: str
    conditions: Sequence[tuple[str, str]]
    pages: Sequence[Link] = ()


def comparison_page(
    title: str, about: str, answered: Sequence[Answered], services: Sequence[Link], note: str
) -> str:
    """Return the page of some results beside the truth, as a self-contained file.

    `about` says whose answers these are, and who knows which part of them. `note` says how to open
    the pages of the running services.
    """
    figures = [each for one in answered for each in one.figures]
    return file(
        title,
        tag("p", about),
        tag("p", _held(figures), class_="big"),
        tag(
            "p",
            "Each is a 95 % interval by itself, so on average at most one in twenty misses. In the "
            "charts a bar is what was released, the whiskers are its interval, and the arrow ",
            tag("span", "▼", class_="truth", aria_hidden="true"),
            " is the truth.",
        ),
        tag("p", note, class_="soft") if services else None,
        *(part for each in answered for part in _question(each)),
        links=services,
        style=_STYLE,
    )


def _held(figures: Sequence[Beside]) -> str:
    held = sum(each.is_held for each in figures)
    return f"{held} of {len(figures)} intervals hold the truth"


def _question(answered: Answered) -> Iterable[Html | None]:
    figures = answered.figures
    yield tag("h2", isolated(answered.title))
    yield tag("p", f"{answered.counted} {_held(figures)}.")
    yield _links(answered)
    by_kind = sorted(figures, key=lambda each: (each.shows, each.unit))
    kinds = [list(group) for _, group in itertools.groupby(by_kind, _kind)]
    for kind in sorted(kinds, key=lambda kind: figures.index(kind[0])):
        shows, unit = _kind(kind[0])
        heading = f"{answered.title}: {shows}, with the truth beside"
        marks, truths = [each.mark for each in kind], [each.truth for each in kind]
        yield bars(marks, heading, f"{shows} in {unit}" if unit else shows, truths).fitting
    yield tag("h3", "The same from near: where in its interval the truth lies")
    yield _from_near(answered)
    yield tag(
        "p",
        "Here each interval is drawn equally wide, around what was released, which is 0: noise "
        "that is too little to be seen on a bar is seen here.",
        class_="soft",
    )
    rows = (
        (
            isolated(each.name),
            beside(each.mark, each.truth),
            *said(each.mark),
            each.unit,
            each.verdict,
        )
        for each in figures
    )
    yield table(f"{answered.title} Released and true values", _COLUMNS, rows)
    yield tag("h3", "What is guaranteed")
    yield tag("p", tag("strong", answered.promise))
    listed = (
        part
        for name, text in answered.conditions
        for part in (tag("dt", name), tag("dd", isolated(text)))
    )
    yield tag("dl", *listed)


def _kind(each: Beside) -> tuple[str, str]:
    return each.shows, each.unit


def _links(answered: Answered) -> Html | None:
    if not answered.pages:
        return None
    links = join(tag("span", tag("a", name, href=path), " ") for path, name in answered.pages)
    return tag("p", "As the collector sees it, without the truth: ", links)


def _from_near(answered: Answered) -> Html:
    """Return a chart of all intervals, each in units of its own half-width."""
    marks, truths = [], []
    for each in answered.figures:
        value, low, high = each.mark.value, each.mark.low, each.mark.high
        half = (high - low) / 2
        if value is None or not math.isfinite(half) or half == 0:
            continue
        marks.append(Mark(each.name, 0.0, (low - value) / half, (high - value) / half))
        truths.append((each.truth - value) / half)
    title = f"{answered.title}: where in its interval the truth lies"
    return bars(marks, title, "half widths", truths).fitting
