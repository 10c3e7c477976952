"""A synthetic table of one result: what it says beside what was released, and rows to download."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.files import writes_parquet
from aggregator.collector.pages.numbers import said
from aggregator.collector.pages.readings import Reading
from aggregator.collector.pages.view import (
    MOST_BARS,
    MOST_ROWS,
    View,
    chooser,
    chosen_place,
    unbroken,
)
from aggregator.collector.results.written import number
from aggregator.dp.utility import PERCENT
from aggregator.service.web.pages.charts import Chart, Mark, bars
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.steward.survey.synthetic.quality import USEFUL_TAU, USEFUL_Z
from aggregator.steward.survey.synthetic.synthetic import RULES, Synthetic
from aggregator.written_times import counted

MOST_SYNTHETIC = 100_000
"""The most rows that a page offers; commands and notebooks draw more."""

_CELL, _LINE = 26, 17
_STRONGEST = 2.0
"""From how many deviations on a square has all its colour."""
_COLUMNS = ("answer", "synthetic", "released", "from", "to")


@dataclasses.dataclass(frozen=True, slots=True)
class _Room:
    """How wide the picture of all pairs is at least, and what of that is for names."""

    least: int
    labels: int
    longest: int


_WIDE, _NARROW = _Room(700, 170, 22), _Room(340, 80, 10)


@dataclasses.dataclass(frozen=True)
class Looked:
    """What a page of a synthetic table shows.

    Attributes:
        asked: A question of the survey.
        results: The results of which there may be a table, the earliest first.
        shown: The one that is looked at; None if there is none.
        made: Its table; None if it is refused.
        refused: Why it is.
    """

    asked: Asked
    results: Sequence[Reading]
    shown: Reading | None
    made: Synthetic | None
    refused: str = ""


def synthetic_view(looked: Looked, chosen: Mapping[str, str]) -> View:
    """Return the page of a synthetic table; the address may choose `result`, and `pair`."""
    asked, shown, made = looked.asked, looked.shown, looked.made
    title = f"A synthetic table of {asked.survey}"
    back = tag("p", tag("a", "The survey's results", href=asked.address()))
    if shown is None:
        return View(title, [back, tag("p", looked.refused or "No result yet.")], {}, list)
    periods = [(each.name, each.period) for each in looked.results]
    head = [
        back,
        chooser("result", "Window", periods, shown.name, button="Show", kept={}),
        tag("h2", unbroken(shown.period)),
    ]
    if made is None:
        return View(title, [*head, tag("p", "There is no table: ", looked.refused, ".")], {}, list)
    pairs = [f"{_name(made, each.of)} by {_name(made, each.by)}" for each in made.layout.pairs]
    options = [(str(place), name) for place, name in enumerate(pairs[:MOST_ROWS])]
    place = chosen_place(chosen.get("pair"), len(options))
    content = [
        *head,
        tag("ul", *(tag("li", each) for each in RULES)),
        *(tag("p", each, class_="bad") for each in made.warnings),
        _quality(made),
        _downloads(asked, shown, made),
        tag("h2", "How far it is from what was released"),
        _grid(made),
        tag(
            "p",
            "Each square is a pair of questions: the stronger its colour, the farther the "
            "synthetic counts are from the released ones, in standard deviations of the noise. "
            "Most are near 1; without a square, the pair was not asked.",
            class_="soft",
        ),
        tag("h2", "One pair"),
        chooser("pair", "Pair", options, str(place), button="Show", kept={"result": shown.name}),
        _listed(made.of_pair(place).rows, pairs[place]),
        tag("h2", "Each question by itself"),
        tag(
            "p",
            f"Bars are synthetic, whiskers the {PERCENT} intervals of what was released.",
            class_="soft",
        ),
        *(part for column in range(len(made.layout.columns)) for part in _question(made, column)),
        *_left_out(made),
        tag("h2", "As Python"),
        tag(
            "pre",
            tag("code", _python(asked, made)),
            tabindex=0,
            role="region",
            aria_label="The same in Python",
        ),
    ]
    document = {"about": made.about()}
    return View(title, content, document, lambda: [dict(row) for row in made.pairs.rows])


def _name(made: Synthetic, column: int) -> str:
    return made.layout.columns[column].name


def _quality(made: Synthetic) -> Html:
    facts = (
        ("Reports", f"{made.people:,}, as the leader counts them"),
        (
            "Noise alone",
            f"{made.tau:.2g} points of each pair; up to {USEFUL_TAU} the table is useful",
        ),
        (
            "What stands out from it",
            f"z = {made.found:,.0f}; from {USEFUL_Z} on the table is useful",
        ),
        ("Distance from what was released", f"{made.misfit**0.5:.2f} times the noise"),
        (
            "Outside",
            f"{100 * made.outside:.1f} % of pairs' cells, of {PERCENT} intervals; 2 to 6 are usual",
        ),
        ("Cost", "none: nobody is asked again"),
    )
    return tag("dl", *(join([tag("dt", name), tag("dd", value)]) for name, value in facts))


def _downloads(asked: Asked, shown: Reading, made: Synthetic) -> Html:
    query = f"?result={shown.name}"
    kinds = [("CSV", "csv"), *([("Parquet", "parquet")] if writes_parquet() else [])]
    links = (
        tag("span", tag("a", name, href=f"{asked.path}/synthetic.{ending}{query}"), " ")
        for name, ending in kinds
    )
    said = counted(made.count_of_rows, "row")
    margins = tag("a", "JSON", href=f"{asked.path}/synthetic.json{query}")
    return tag(
        "p",
        f"{said} of nobody: ",
        *links,
        "What this page shows, and what must be known: ",
        margins,
    )


def _grid(made: Synthetic) -> Html:
    """Return a square for each pair, below and to the left of the diagonal, in two widths."""
    return Chart(_squares(made, _WIDE), _squares(made, _NARROW)).fitting


def _squares(made: Synthetic, room: _Room) -> Html:
    layout = made.layout
    count = len(layout.columns)
    parts = []
    for row in range(count):
        name = f"{row + 1} {_name(made, row)}"
        name = name if len(name) <= room.longest else f"{name[: room.longest - 1]}…"
        parts.append(tag("text", name, x=0, y=_LINE + row * _CELL + 18))
        if row < count - 1:
            across = room.labels + row * _CELL + _CELL / 2
            parts.append(tag("text", f"{row + 1}", x=across, y=_LINE - 4, text_anchor="middle"))
    described = []
    for pair, off in zip(layout.pairs, made.off, strict=True):
        row, column = max(pair.of, pair.by), min(pair.of, pair.by)
        size = float((off**2).mean() ** 0.5)
        said = f"{_name(made, pair.of)} by {_name(made, pair.by)}: {size:.2f}"
        described.append(said)
        square = tag(
            "rect",
            class_="bar",
            x=room.labels + column * _CELL + 1,
            y=_LINE + row * _CELL + 1,
            width=_CELL - 2,
            height=_CELL - 2,
            fill_opacity=f"{min(1.0, 0.08 + size / _STRONGEST):.2f}",
        )
        parts.append(tag("g", tag("title", said), square))
    title = "How far pairs are from what was released, in standard deviations"
    width = max(room.least, room.labels + count * _CELL)
    return tag(
        "svg",
        tag("title", title),
        tag("desc", "; ".join(described)),
        *parts,
        viewBox=f"0 0 {width} {_LINE + count * _CELL}",
        role="img",
        aria_label=title,
        class_="chart",
    )


def _listed(rows: Sequence[Mapping[str, object]], name: str) -> Html:
    cells = [_cells(str(each["cell"]), each) for each in rows[:MOST_ROWS]]
    return table(f"{name}, released with {PERCENT} intervals", _COLUMNS, cells)


def _question(made: Synthetic, column: int) -> list[Html]:
    name = _name(made, column)
    rows = made.of_column(column).rows
    marks = [
        Mark(
            str(each["cell"]), _float(each["synthetic"]), _float(each["low"]), _float(each["high"])
        )
        for each in rows[:MOST_BARS]
    ]
    chart = bars(marks, f"{name}: synthetic, and the interval of what was released", "people")
    listed = _listed(rows, name)
    details = tag("details", tag("summary", "The same as a table"), listed)
    return [tag("h3", isolated(name)), chart.fitting, details]


def _cells(label: str, row: Mapping[str, object]) -> tuple[Html | str, ...]:
    released = Mark(label, _float(row["value"]), _float(row["low"]), _float(row["high"]))
    return isolated(label), number(round(_float(row["synthetic"]))), *said(released)


def _float(value: object) -> float:
    assert isinstance(value, int | float)  # noqa: S101  as rows of tables are
    return float(value)


def _left_out(made: Synthetic) -> list[Html | None]:
    if not made.left_out:
        return []
    listed = (tag("li", isolated(name), f": {reason}") for name, reason in made.left_out.items())
    return [tag("h2", "Left out"), tag("ul", *listed)]


def _python(asked: Asked, made: Synthetic) -> str:
    window = made.told.windows[0]
    return (
        'from aggregator.collector import Collector\n\nwith Collector.open("collector.toml")'
        " as collector:\n"
        f"    survey = collector.survey({asked.survey!r})\n\n"
        f"made = survey.synthetic({window!r})\n"
        "made.frame()  # rows of nobody\n"
        "made.pairs.frame()  # synthetic beside released\n"
    )
