"""The page about one number: what is guaranteed, by which theorem, at what cost, and its noise."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from aggregator.collector import store
from aggregator.collector.guarantee import conditions, promise
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.readings import Reading, Readings, Row
from aggregator.collector.pages.survey_costs import SurveyCost, in_short, survey_cost
from aggregator.collector.pages.survey_costs import said as cost_in_words
from aggregator.collector.pages.texts import costs_of_texts
from aggregator.collector.pages.view import MOST_ROWS, View, budget, chooser
from aggregator.collector.results.selection import Selected
from aggregator.collector.results.written import number
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.rationals import at_most
from aggregator.dp.utility import DEFAULT_CONFIDENCE, PERCENT, half_width_of
from aggregator.protocol.budget import task_bounds
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import curve
from aggregator.service.web.pages.html import Html, isolated, table, tag
from aggregator.steward.survey import NO_ANSWER, Design, Part
from aggregator.written_times import counted

_DELTA = Fraction(1, 10**6)
_POINTS = 60
"""Points of the drawn law on either side of the value."""

_LONGEST = 80
"""The most characters of a figure's name in a sentence."""


def about(tx: Transaction, readings: Readings, asked: Asked, chosen: Mapping[str, str]) -> View:
    """Return the guarantee, the cost and the noise of a released value.

    The address may choose `result`, a collection's id, by default the newest; and `value`, the
    number of a released sum from 0, by default the first one shown. Raises
    `UnrecognizedCollectionJob` if there is no such result.
    """
    shown = _chosen(tx, readings, asked, chosen.get("result"))
    made = store.count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    bounds = task_bounds(asked.task, made, _DELTA)
    known = costs_of_texts(tx, readings) if asked.meaning and asked.meaning.texts else {}
    survey = survey_cost(asked, made, known)
    rows: list[Row] = [
        {
            "theorem": f"{asked.mark}{each.name}",
            "epsilon": None if each.epsilon is None else float(each.epsilon),
            "delta": None if each.delta is None else float(each.delta),
            "is_valid": each.is_valid,
            "note": each.note,
        }
        for each in bounds
    ]
    said = (
        (
            each.name,
            "nothing" if each.epsilon is None else at_most(each.epsilon, 6),
            "" if each.delta is None else at_most(each.delta),
            "yes" if each.is_valid else "no",
            each.note,
        )
        for each in bounds
    )
    cost = None if survey is None else in_short(survey, asked)
    content = [
        tag("p", tag("a", "The question", href=asked.address(result=shown.name))),
        tag("p", f"{shown.period}; {shown.reports}."),
        tag("h2", "What is guaranteed"),
        tag("p", f"A person pays {cost}", class_="big") if cost else None,
        tag("p", promise(shown.result), class_=None if cost else "big"),
        tag(
            "dl",
            *(
                part
                for name, text in conditions(shown.result)
                for part in (tag("dt", name), tag("dd", text))
            ),
        ),
        tag("h2", "What it costs a person so far"),
        budget(made, asked.most_releases),
        tag(
            "p",
            "As far as this collector's own results go: each aggregator's ledger has all releases. "
            "A bound that holds at any stop also holds if the collector looks at each result "
            "before deciding whether to ask for another." + _same_people(asked.task.policy),
            class_="soft",
        ),
        table(
            f"Epsilon of {counted(made, 'result')} at delta {at_most(_DELTA)}, by theorem",
            ("theorem", "epsilon", "delta", "at any stop", "of what"),
            said,
        ),
        *_cost_of_survey(survey),
        *_methods(shown),
        *_noise(shown, chosen.get("value", "")),
    ]
    document: dict[str, object] = {
        "question": asked.title,
        "task_id": str(asked.task.task_id),
        "collection_id": shown.name,
        "privacy": shown.result["privacy"],
        "error": shown.result["error"],
        "survey_cost": None if survey is None else survey.document,
    }
    return View(f"About this number: {asked.title}", content, document, lambda: rows)


def _chosen(tx: Transaction, readings: Readings, asked: Asked, name: str | None) -> Reading:
    if name is None:
        results = readings.latest(tx, asked)
        if results:
            return results[-1]
        raise UnrecognizedCollectionJob("the question has no result yet")
    try:
        stored = store.get_collection(tx, bytes.fromhex(name))
    except ValueError:
        stored = None
    is_shown = stored is not None and stored.state is CollectionState.FINISHED
    if stored is None or not is_shown or stored.task_id != asked.task.task_id.value:
        raise UnrecognizedCollectionJob("the question has no such result")
    return readings.of(asked, stored)


def _cost_of_survey(survey: SurveyCost | None) -> list[Html]:
    """Return what the whole survey costs."""
    if survey is None:
        return []
    none = "no bound: there is no noise, or nothing limits the results"
    sums = (
        ("One window", survey.window),
        ("The results so far", survey.so_far),
        ("All results that the aggregators allow", survey.at_most),
    )
    return [
        tag("h2", "What the whole survey costs a person"),
        tag(
            "p",
            f"One report holds the answers to {counted(survey.questions, 'question')}, so this is "
            "the cost of all of them, for somebody who answers in every window.",
        ),
        tag(
            "dl",
            *(
                part
                for name, cost in sums
                for part in (tag("dt", name), tag("dd", cost_in_words(cost) or none))
            ),
        ),
        *([] if survey.besides is None else [tag("p", survey.besides)]),
    ]


def _methods(shown: Reading) -> list[Html]:
    """Return how the intervals of the result's figures were found."""
    found: dict[str, dict[str, None]] = {}
    for each in shown.estimates:
        found.setdefault(each.method, {})[each.shows] = None
    rows = [(method, ", ".join(kinds)) for method, kinds in found.items()]
    return [
        tag("h2", "How the intervals were found"),
        table("By figure", ("how", "figures"), rows, is_titled=True),
    ]


def _same_people(policy: PrivacyPolicy) -> str:
    if not policy.population:
        return ""
    added = f" Questions to the same people (population {policy.population}) add to this cost"
    if policy.group is None:
        return f"{added}."
    return f"{added}, but not those with other places in the group {policy.group.name}."


def _noise(shown: Reading, wanted: str) -> list[Html | None]:
    """Return a chart of the noise around one released value, and the same as a table."""
    task = shown.asked.task
    runs = task.policy.mechanism.laws(task.prio3.circuit)
    laws = [law for entries, law in runs for _ in range(entries)]
    places = [place for place, each in enumerate(shown.batch.values.values()) if each is not None]
    values = list(zip(places, shown.batch.shown, strict=True))
    if not values:
        return []
    place, value = next((each for each in values if str(each[0]) == wanted), values[0])
    law = laws[place]
    if law is None:
        return []
    sums = [(each, _name(shown, each)) for each, quantity in values[:MOST_ROWS]]
    points = _density(law)
    released, interval = float(value.estimate or 0), value.interval()
    low, high = float(interval.low), float(interval.high)
    is_chosen = isinstance(value, Selected)
    chosen = " of those in which it is shown" if is_chosen else ""
    before = ", before it is decided which values are shown" if is_chosen else ""
    said = (
        f"{_name(shown, place)} was released as {number(released)}. An interval "
        f"made this way, here from {number(low)} to {number(high)}, holds the true sum "
        f"in at least {PERCENT} of cases{chosen}, if both aggregators added their noise and "
        "nothing else. "
        f"The curve shows how likely each distance from the truth is{before}."
    )
    chart = curve(
        [(released + distance, density) for distance, density in points],
        (low, high),
        "The law of the noise around the released value",
        said,
    )
    cells = [
        (number(released + distance), f"{density:.3g}")
        for distance, density in points
        if distance >= 0
    ]
    listed = table(
        "Probability of each distance, the same on both sides",
        ("true sum, if the noise was this large", "probability"),
        cells,
    )
    details = tag("details", tag("summary", "The same as a table"), listed)
    return [
        tag("h2", "The noise on this value"),
        chooser(
            "value",
            "Value",
            [(str(each), name) for each, name in sums],
            str(place),
            button="Show",
            kept={"result": shown.name},
        ),
        tag("p", isolated(said)),
        chart.fitting,
        details,
    ]


def _name(shown: Reading, place: int) -> str:
    """Return a released sum's name, with the question or table that it belongs to."""
    name, meaning = f"Sum {place + 1} of {len(shown.batch.values)}", shown.asked.meaning
    if meaning is None:
        return name
    for part in meaning.sheet.parts:
        if part.span.first <= place < part.span.first + part.span.length:
            of = _entry(part, place - part.span.first)
            return f"{name} ({of[:_LONGEST]})"
    return name


def _entry(part: Part, place: int) -> str:
    """Return the name of an entry of a question or table."""
    if isinstance(part.source, Design) and part.source.labels:
        return f"{part.name}: {(*part.source.labels, NO_ANSWER)[place]}"
    return f"{part.name}, {place + 1} of {part.span.length}"


@lru_cache(maxsize=64)
def _density(law: NoiseLaw) -> tuple[tuple[int, float], ...]:
    """Return probabilities by distance, as far as twice the half width of an interval."""
    width = half_width_of(law, DEFAULT_CONFIDENCE)
    step = max(1, 2 * width // _POINTS)
    reach = range(0, max(2, 2 * width) + 1, step)
    half = [(distance, to_float(law.probability(distance))) for distance in reach]
    return (*((-distance, density) for distance, density in reversed(half[1:])), *half)
