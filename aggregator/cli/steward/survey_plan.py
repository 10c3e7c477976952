"""What `prio survey check` and `new` say of a plan, in words and for programs."""

from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.cli.steward.survey_texts import beside_document, text_line
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.steward.survey import Plan, PlannedPart, Survey, Way
    from aggregator.steward.survey.rival_designs import Rival
    from aggregator.steward.survey.texts import PlannedText

_ANSWERS = {
    "by invitation": "by invitation: one answer for each personal link (`prio survey invite`) "
    "in each window",
    "by application": "by application: one answer in each window from each person to whom your "
    "application gives permits; its server signs them with keys that `prio issuer new` makes",
    "by open link": "by an open link: nothing limits how often somebody answers; ten thousand "
    "false answers count like ten thousand true ones",
}

_NOTHING_LEARNED = Fraction(1, 2)
"""The error, as a part of the range, with which an interval holds all that is possible."""


def print_plan(survey: "Survey", planned: "Plan | None", texts: "Sequence[PlannedText]") -> None:
    """Print what is asked how, with which errors, and what a person spends."""
    from aggregator.dp.utility import PERCENT
    from aggregator.steward.survey.conditions import asked_if
    from aggregator.steward.survey.rival_designs import rivals_of

    for each in planned.parts if planned else ():
        kind = each.question.model_dump()["kind"]
        what = f"{each.part.name} ({kind}): " if not each.part.by else f"{each.part.name}: "
        part = each.share * survey.part_of_a_report
        share = f"{float(100 * part):.3g} % of what a person pays"
        between = f"{float(each.difference):.4g} {each.unit}".rstrip()
        print(f"{what}{_asked(each.part.source.name, each)}, {between} between windows; {share}")
        for other in each.others:
            print(f"    rather than {_other(other, each)}")
        for rival in rivals_of(survey, planned, each) if planned else ():
            print(f"    {_why(rival, survey)}")
        if each.question.ask_if and not each.part.by:
            print(
                f"    asked only if {asked_if(each.question)}; others count as no answer"
                + _if_half_are_asked(each)
            )
    if planned:
        for name, times in planned.rivals.items():
            print(f"noise: {planned.mechanism.name}; {name} would be {times:.3g} times as large")
    for text in texts:
        print(text_line(text, survey.budget.epsilon, survey.answers))
        if text.asked.ask_if:
            print(f"    asked only if {asked_if(text.asked)}; others count as no answer")
    of_all = ["with every answer"] if planned else []
    each_text = ["one more for each text question" if planned else "for each question"]
    reports = ", and ".join(of_all + (each_text if texts else []))
    print(f"one person: one report per window {reports}, {_cost(survey, planned, texts)}")
    opens, closes = (int(each.timestamp()) for each in (survey.first, survey.closes))
    print(f"answers of any other time are refused: {IN_UTC.period(opens, closes)}")
    print(_ANSWERS[survey.answers])
    if not planned:
        return
    print(
        f"errors: {PERCENT} intervals of the least precise figure with {planned.people:,} "
        "answers; the error of a mean falls with more answers"
    )
    print("between windows: a larger difference between two lets you conclude that they differ")


def _cost(survey: "Survey", planned: "Plan | None", texts: "Sequence[PlannedText]") -> str:
    """Return what a person spends in a window, and in all windows, in words."""
    from aggregator.dp.composition import Releases
    from aggregator.dp.rationals import at_most, format_rational

    budget = survey.budget
    name, value = ("epsilon", budget.epsilon) if budget.epsilon else ("rho", budget.rho)
    assert value is not None  # noqa: S101  the model demands epsilon or rho
    each = f"{name} {format_rational(value)}"
    delta = planned.mechanism.guarantee(planned.sheet.circuit).delta if planned else None
    if not planned or not delta:
        of_all = format_rational(value * survey.releases)
        return f"{each}; at most {survey.releases} windows, so {of_all} in all"
    epsilon = Releases(planned.mechanism, planned.sheet.circuit, survey.releases).epsilon_at(delta)
    assert epsilon is not None  # noqa: S101  Gaussian noise has one at every delta
    epsilon += survey.releases * sum(text.question.epsilon for text in texts)
    of_all = f"epsilon {at_most(epsilon, 6)} in all, but for a delta of {format_rational(delta)}"
    return f"{each}; at most {survey.releases} windows, so {of_all}"


def _asked(name: str, error: "PlannedPart | Way") -> str:
    said = f"{error.shows} ± {float(error.error):.4g} {error.unit}".rstrip()
    return f"{name}, {said}"


def _other(way: "Way", chosen: "PlannedPart") -> str:
    if way.relative == chosen.relative >= _NOTHING_LEARNED:
        return f"{way.design.name}; with so few answers neither says anything of it"
    return _asked(way.design.name, way)


def _why(rival: "Rival", survey: "Survey") -> str:
    """Return why a design with a smaller error was not chosen, and how to choose it."""
    would = f'design = "{rival.design}" would give {_asked("", rival.planned).removeprefix(", ")}'
    if rival.loses:
        lost = "; ".join(f"{name} no {' or '.join(each)}" for name, each in rival.loses.items())
        return f"chosen for its tables: {would}, and {lost}"
    return (
        f"chosen as the best for {survey.min_batch_size:,} answers and all of the budget: {would}"
    )


def _if_half_are_asked(planned: "PlannedPart") -> str:
    """Return the error if half of the people answer, for figures that are divided by answers."""
    found = planned.if_half
    if found is None or found.figure.shows == "count":
        return ""
    shows, unit = found.figure.shows, found.figure.quantity.unit
    return f", and if half are asked, {shows} ± {float(found.half_width):.4g} {unit}".rstrip()


def _ways(planned: "PlannedPart") -> "list[tuple[str, PlannedPart | Way]]":
    """Return the chosen way to ask and the other ways, each with its name."""
    return [
        (planned.part.source.name, planned),
        *((other.design.name, other) for other in planned.others),
    ]


def plan_document(
    survey: "Survey", planned: "Plan | None", texts: "Sequence[PlannedText]", *, is_guessed: bool
) -> dict[str, object]:
    """Return the same for programs; `is_guessed` if no window has said how long the tail is."""
    from aggregator.dp.policy import PrivacyPolicy
    from aggregator.dp.policy_table import policy_to_mapping
    from aggregator.dp.rationals import format_rational

    return {
        "version": 2,
        "title": survey.title,
        "people": planned.people if planned else None,
        "privacy": policy_to_mapping(PrivacyPolicy(planned.mechanism)) if planned else {},
        "times_as_large": dict(planned.rivals) if planned else {},
        "parts": [
            {
                "name": each.part.name,
                "question": each.question.name,
                "by": each.part.by or None,
                "ask_if": {name: [*labels] for name, labels in each.question.ask_if},
                "share": float(each.share * survey.part_of_a_report),
                "two_windows_must_differ_by": float(each.difference),
                "ways": [
                    {
                        "design": name,
                        "shows": way.shows,
                        "unit": way.unit,
                        "error": float(way.error),
                        "part_of_range": float(way.relative),
                    }
                    for name, way in _ways(each)
                ],
            }
            for each in (planned.parts if planned else ())
        ],
        "texts": [
            {
                "name": each.asked.name,
                "ask_if": {name: [*labels] for name, labels in each.asked.ask_if},
                "tasks": each.question.tasks,
                "buckets": each.question.length,
                "epsilon": format_rational(each.question.epsilon),
                "tail": "guessed" if is_guessed else "last window",
                "people": round(each.plan.tail.people),
                "found_from": each.plan.found_from,
                "standard_deviation": each.plan.deviation,
                **beside_document(each),
            }
            for each in texts
        ],
    }
