"""The plan for a draft, for a steward: charts, sentences for a board, and the survey file."""

import math
from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp.composition import smallest_valid
from aggregator.dp.rationals import at_most, format_rational
from aggregator.dp.utility import PERCENT
from aggregator.service.web.pages.charts import Mark, bars
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.steward.planner.form import RHO
from aggregator.steward.planner.lines import Axis, line
from aggregator.steward.planner.proposal import Proposal
from aggregator.steward.planner.rehearsal import Shown
from aggregator.steward.survey import PlannedPart, Way

_MOST_BARS = 40
_MOST_ROWS = 300


def figures(proposal: Proposal, rehearsed: Sequence[Shown], path: str) -> Html:
    """Return everything that stands beside the form of a page at a path."""
    return join(
        [
            _summary(proposal),
            *_published(proposal, rehearsed),
            *_errors(proposal),
            *_neighbour(proposal),
            *_year(proposal),
            *_board(proposal),
            *_survey(proposal, path),
        ]
    )


def refused(why: str) -> Html:
    """Return what stands beside a form that cannot be read."""
    return tag("p", isolated(why), role="alert", class_="bad")


def published(rehearsed: Sequence[Shown]) -> list[dict[str, str | float | None]]:
    """Return one result with noise as rows, beside the made-up truth."""
    return [
        {
            "label": each.figure.quantity.label,
            "shows": each.figure.shows,
            "value": _float(each.figure.quantity.estimate),
            "low": float(each.figure.quantity.interval().low),
            "high": float(each.figure.quantity.interval().high),
            "unit": each.figure.quantity.unit,
            "made_up": _float(each.truth),
        }
        for each in rehearsed
    ]


def _summary(proposal: Proposal) -> Html:
    found, symbol = proposal.least_precise, _symbol(proposal)
    error = f"{float(found.half_width):.4g} {found.unit}".strip()
    said = (
        f"With {symbol} = {float(proposal.strength):.4g} per window, the least precise "
        f"{found.shows} is within {error} of the truth in {PERCENT} of cases."
    )
    if found.half_width != 100 * found.part:  # a share is a percentage of what is possible already
        said += f" That is {float(100 * found.part):.3g} % of the largest possible."
    field, value = proposal.follows
    return tag(
        "p", said, role="status", class_="big", id="said", data_field=field, data_value=value
    )


def _published(proposal: Proposal, rehearsed: Sequence[Shown]) -> list[Html]:
    groups: dict[tuple[str, str], list[Mark]] = {}
    cells = []
    for each in rehearsed:
        figure, quantity = each.figure, each.figure.quantity
        interval, estimate = quantity.interval(), quantity.estimate
        mark = Mark(
            quantity.label or figure.shows,
            _float(estimate),
            float(interval.low),
            float(interval.high),
        )
        if figure.is_wanted:
            groups.setdefault((figure.shows, quantity.unit), []).append(mark)
        cells.append(
            (
                isolated(quantity.label or "all"),
                figure.shows,
                _number(mark.value),
                _number(mark.low),
                _number(mark.high),
                isolated(quantity.unit),
                _number(_float(each.truth)),
            )
        )
    title = proposal.draft.question.text or "The question"
    charts = [
        bars(
            marks[:_MOST_BARS], f"{title[:80]}: {shows}", f"{shows} in {unit}" if unit else shows
        ).fitting
        for (shows, unit), marks in groups.items()
    ]
    more = sum(max(0, len(marks) - _MOST_BARS) for marks in groups.values())
    listed = table(
        f"Every figure with its {PERCENT} interval, beside what was made up",
        ("label", "figure", "published", "from", "to", "unit", "made up"),
        cells[:_MOST_ROWS],
    )
    return [
        tag("h2", "As it would be published"),
        tag("p", isolated(title)),
        *charts,
        *([tag("p", f"The table has {more:,} more.", class_="soft")] if more else []),
        tag(
            "p",
            f"Made-up answers of {proposal.draft.people:,} people, with real noise from both "
            f"aggregators, drawn anew each time; whiskers are {PERCENT} intervals, each on its "
            "own.",
            class_="soft",
        ),
        tag("details", tag("summary", "The same as a table"), listed),
    ]


def _errors(proposal: Proposal) -> list[Html]:
    symbol = _symbol(proposal)
    points = [(float(x), float(100 * y)) for x, y in proposal.curve]
    wanted = proposal.draft.error
    chosen = (float(proposal.strength), float(100 * proposal.part))
    # At small strengths the error is so large that the rest of the curve would look flat.
    far = 5 * max(chosen[1], float(100 * (wanted or 0)))
    top = min(max(y for _, y in points), far) or 1.0  # noise so small that no count is off
    across = Axis(f"{symbol} per window", points[0][0], points[-1][0], is_log=True)
    said = (
        f"The error falls as {symbol} rises: {chosen[1]:.3g} % of the largest possible at "
        f"{symbol} = {chosen[0]:.4g}."
    )
    chart = line(
        [(x, y) for x, y in points if y <= top],
        across,
        Axis("error in %", 0, top),
        f"Error against {symbol}",
        said,
        wanted=None
        if wanted is None
        else (float(100 * wanted), f"wanted: {float(100 * wanted):.4g} %"),
        chosen=chosen,
    )
    rows = [(f"{x:.4g}", f"{y:.4g}") for x, y in points]
    listed = table("Error at each strength", (symbol, "error in % of the largest possible"), rows)
    return [
        tag("h2", f"Error against {symbol}"),
        chart.fitting,
        tag("p", said),
        tag("details", tag("summary", "The same as a table"), listed),
    ]


def _neighbour(proposal: Proposal) -> list[Html]:
    found, releases = proposal.advice, proposal.draft.releases
    says = "guesses right in at most {} of 100 cases" if found.delta else "is at most {} % sure"
    return [
        tag("h2", "What it means for one person"),
        tag(
            "p",
            f"A neighbour who is 50 % sure {says.format(_percent(found.sure_after_one))} after one "
            "window.",
            class_="big",
        ),
        tag(
            "p",
            "This holds for anyone who thinks two answers of this person equally likely and knows "
            f"what everybody else answered. After all {releases:,} windows of a year, if the "
            "person gives the same answer each time, such a neighbour guesses right in at most "
            f"{_percent(found.sure_after_a_year)} of 100 cases.",
        ),
    ]


def _year(proposal: Proposal) -> list[Html]:
    steps = [(float(count), float(epsilon)) for count, epsilon in proposal.steps]
    last = proposal.draft.releases
    total = float(proposal.steps[-1][1])
    best = smallest_valid(proposal.bounds)
    said = (
        f"A person who answers in all {last:,} windows of a year has spent at most ε = {total:.4g}"
        f" (δ = {at_most(proposal.draft.delta)} at most); each aggregator refuses more "
        f"than {proposal.draft.windows:,} windows in all."
    )
    chart = line(
        [(0.0, 0.0), *steps],
        Axis("windows", 0, max(1, last)),
        Axis("ε spent", 0, 1.15 * total),
        "The year's budget filling up",
        said,
        wanted=(total, f"whole year: ε = {total:.4g}"),
        chosen=steps[-1],
    )
    rows = [(f"{int(count):,}", f"{epsilon:.6g}") for count, epsilon in steps]
    bounds = [
        (
            each.name,
            "none" if each.epsilon is None else f"{float(each.epsilon):.6g}",
            "none" if each.delta is None else format_rational(each.delta),
            each.note,
        )
        for each in proposal.bounds
    ]
    return [
        tag("h2", "The year's budget"),
        chart.fitting,
        tag("p", said),
        tag(
            "p",
            "" if best is None else f"By the ledger's smallest valid bound: {best.name}.",
            class_="soft",
        ),
        tag(
            "details",
            tag("summary", "The same as tables"),
            table("Spent by number of windows", ("windows", "ε at most"), rows),
            table(f"All {last:,} windows, by each theorem", ("theorem", "ε", "δ", "holds"), bounds),
        ),
    ]


def _board(proposal: Proposal) -> list[Html]:
    # Show every sentence in full, to be copied, not in a box that scrolls.
    sentences = (tag("li", tag("bdi", each)) for each in proposal.advice.sentences)
    warnings = [tag("li", tag("bdi", each)) for each in proposal.advice.warnings]
    return [
        tag("h2", "For the board"),
        tag("ol", *sentences),
        *([tag("h3", "Before you use them"), tag("ul", *warnings)] if warnings else []),
    ]


def _survey(proposal: Proposal, path: str) -> list[Html]:
    others = [
        tag("li", f"rather than {_way(each.design.name, each)}") for each in proposal.planned.others
    ]
    return [
        tag("h2", "How it is asked"),
        tag("p", f"The most precise way: {_way(proposal.design.name, proposal.planned)}."),
        *([tag("ul", *others)] if others else []),
        tag("h2", "The survey file"),
        tag("pre", tag("code", proposal.text), tabindex=0),
        tag(
            "p",
            tag("button", "Save survey.toml", form="plan", formaction=f"{path}/survey.toml"),
            " ",
            tag("button", "All figures as JSON", form="plan", formaction=f"{path}.json"),
            " ",
            tag("button", "The chart as CSV", form="plan", formaction=f"{path}.csv"),
        ),
        tag(
            "p",
            "Next: ",
            tag("code", "prio survey check survey.toml"),
            " prints the same, and ",
            tag("code", "prio survey new"),
            " makes the task.",
            class_="soft",
        ),
    ]


def _way(name: str, way: PlannedPart | Way) -> str:
    error = f"{way.shows} ± {float(way.error):.4g} {way.unit}".rstrip()
    return f"as {name}, {error}"


def _symbol(proposal: Proposal) -> str:
    return RHO if proposal.draft.is_of_rho else "ε"


def _percent(part: Fraction) -> str:
    """Return a part in per cent, rounded up to two decimals because it is stated as a maximum."""
    return f"{math.ceil(part * 10**4) / 100:g}"


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.6g}"
