"""A plan for a draft: the way to ask, its error, its cost, and what may be promised."""

import dataclasses
import math
import time
from collections.abc import Sequence
from contextvars import ContextVar
from fractions import Fraction

from aggregator.dp import composition
from aggregator.dp.by_section import BySection, equal_errors
from aggregator.dp.composition import Bound, Releases
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.rationals import format_rational
from aggregator.dp.search import least
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.planner.form import LEAST_STRENGTH, MOST_STRENGTH, Draft
from aggregator.steward.planning import answers, answers_error
from aggregator.steward.planning.advise import STRENGTHS, Advice, advise
from aggregator.steward.planning.output import PlanAnswer
from aggregator.steward.planning.question import Question as Asked
from aggregator.steward.survey import Design, Plan, PlannedPart, Sheet, Spread, plan
from aggregator.steward.survey.plan import bases
from aggregator.steward.survey.spreads import spreads, typical_sums, worst
from aggregator.vdaf.circuits import Circuit
from aggregator.written_times import counted

_GRID = [each for each in STRENGTHS if LEAST_STRENGTH <= each <= MOST_STRENGTH]
_CURVE = 15
"""How many strengths the curve of errors has."""
_STEPS = 53
"""The most windows whose cost the budget's chart shows."""
_ROUNDS = 3
_MANY = 300
"""From this many entries on, an error takes long to compute, and noise is small beside a count."""

Point = tuple[Fraction, Fraction]


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A plan for one question.

    Attributes:
        strength: The epsilon, or rho, of one window.
        plan: The best way to ask, and the others, as `prio survey check` prints them.
        advice: The advice of `prio plan advise`, with the sentences for a board.
        curve: Strengths, and the error at each as a part of the largest figure.
        steps: Numbers of windows, and what a person in all of them has spent at most.
        bounds: Bounds on all windows of a year, as `prio ledger` shows them, but without that of
            privacy loss distributions, which takes too long for a page.
    """

    draft: Draft
    strength: Fraction
    text: str
    plan: Plan
    least_precise: "LeastPrecise"
    advice: Advice
    curve: Sequence[Point]
    steps: Sequence[tuple[int, Fraction]]
    bounds: Sequence[Bound]

    @property
    def mechanism(self) -> Mechanism:
        """What each aggregator adds."""
        return self.plan.mechanism

    @property
    def planned(self) -> PlannedPart:
        """The question as it is asked."""
        return self.plan.parts[0]

    @property
    def design(self) -> Design:
        """How an answer is measured."""
        return _design(self.plan)

    @property
    def circuit(self) -> Circuit:
        """What is summed."""
        return self.plan.sheet.circuit

    @property
    def part(self) -> Fraction:
        """The error of the least precise figure, as a part of its largest value."""
        return self.least_precise.part

    @property
    def follows(self) -> tuple[str, str]:
        """The form's field, error or strength, that follows from the other, and its value."""
        if self.draft.strength is None:
            return "strength", f"{float(self.strength):.4g}"
        return "error", f"{float(100 * self.part):.3g}"

    def document(self) -> PlanAnswer:
        """Return everything as a document for programs, with the names that `prio plan` uses."""
        best = self.planned
        return {
            "version": 1,
            "question": self.draft.question.text,
            "design": self.design.name,
            "mechanism": self.mechanism.name,
            "parameters": dict(self.mechanism.parameters()),
            "shows": best.shows,
            "unit": best.unit,
            "half_width": best.error,
            "least_precise": {
                "shows": self.least_precise.shows,
                "unit": self.least_precise.unit,
                "half_width": self.least_precise.half_width,
                "part": self.part,
            },
            "advise": answers.advice(self.advice),
            "error": answers_error.error(
                self.mechanism, self.circuit, format_rational(DEFAULT_CONFIDENCE), self.draft.people
            ),
            "curve": [{"strength": x, "error_part": y} for x, y in self.curve],
            "spent": [{"windows": count, "epsilon": epsilon} for count, epsilon in self.steps],
            "survey": self.text,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class LeastPrecise:
    """The figure whose error is the largest part of its largest value.

    `shows` is "count" or "mean".
    """

    part: Fraction
    half_width: Fraction
    shows: str
    unit: str


MOST_SECONDS = 10.0
"""The most processor seconds for a form: many times what any sensible form takes."""
_until: ContextVar[float] = ContextVar("_until", default=math.inf)


def propose(draft: Draft) -> Proposal:
    """Return a plan for a draft.

    Raises `ParameterError` if no strength keeps the wanted error, a bound or a circuit does not
    exist, or it takes too long to compute.
    """
    before = _until.set(time.thread_time() + MOST_SECONDS)
    try:
        return _proposed(draft)
    finally:
        _until.reset(before)


def _proposed(draft: Draft) -> Proposal:
    strength = draft.strength
    if strength is None:
        assert draft.error is not None  # noqa: S101  error or strength is given
        strength = _least_strength(draft, draft.error)
    made = plan(draft.survey(strength))
    design, circuit = _design(made), made.sheet.circuit
    releases = Releases(made.mechanism, circuit, draft.releases)
    bounds = composition.bounds([releases], draft.delta, plan=[releases])
    stated = _of(_stated(draft, design, strength))
    return Proposal(
        draft=draft,
        strength=strength,
        text=draft.survey_toml(strength),
        plan=made,
        least_precise=stated,
        advice=_advice(draft, made.mechanism.base, circuit),
        curve=_curve(draft, design, (strength, stated.part)),
        steps=_steps(draft, made.mechanism, circuit, bounds),
        bounds=bounds,
    )


def _advice(draft: Draft, mechanism: Mechanism, circuit: Circuit) -> Advice:
    first = mechanism.parameter_names[0]
    parameters = mechanism.parameters()
    question = Asked.of(
        draft.people,
        circuit,
        epsilon=parameters[first] if first == "epsilon" else None,
        rho=parameters[first] if first == "rho" else None,
        mechanism=mechanism.name,
        releases=draft.releases,
        delta=draft.delta,
    )
    return advise(question, draft.asked)


def _least_strength(draft: Draft, wanted: Fraction) -> Fraction:
    """Return the smallest strength at which some way to ask has at most the wanted error.

    It starts with the simplest way to ask, then takes the best one at the strength it found.
    """
    design = draft.question.designs()[0]
    found = _least_of(draft, design, wanted)
    for _ in range(_ROUNDS):
        better = _design(plan(draft.survey(found)))
        if better.name == design.name:
            break
        design, found = better, min(found, _least_of(draft, better, wanted))
    return found


def _least_of(draft: Draft, design: Design, wanted: Fraction) -> Fraction:
    if _part(draft, design, _GRID[-1]) > wanted:
        raise ParameterError(
            f"error: no strength up to {MOST_STRENGTH} has an error of {float(100 * wanted):g} % "
            f"with {counted(draft.people, 'answer')}; ask more people, or allow a larger error"
        )
    index = least(lambda index: _part(draft, design, _GRID[index]) <= wanted, 0, len(_GRID) - 1)
    # What was found quickly may be a little too little; with very many entries it is not.
    if design.length <= _MANY:
        while index < len(_GRID) - 1 and _stated(draft, design, _GRID[index]).part > wanted:
            index += 1
    return _GRID[index]


def _stated(draft: Draft, design: Design, strength: Fraction) -> Spread:
    """Return the least precise figure with the error that is stated."""
    return _least_precise(draft, design, strength).of_draws()


def _part(draft: Draft, design: Design, strength: Fraction) -> Fraction:
    return _least_precise(draft, design, strength, quickly=True).part


def _least_precise(
    draft: Draft, design: Design, strength: Fraction, *, quickly: bool = False
) -> Spread:
    """Return the least precise figure; `quickly` as in `spreads`."""
    if time.thread_time() > _until.get():
        raise ParameterError(
            f"the form takes more than {MOST_SECONDS:g} s to compute: allow a larger error, or ask "
            "for fewer answers or people"
        )
    sheet = Sheet(((draft.question, design),))
    found = []
    for base in bases(draft.budget(strength)):
        mechanism = BySection(base, equal_errors(base, sheet.circuit, sheet.units()))
        sums = typical_sums(sheet, mechanism, draft.people)
        found += spreads(sheet.parts[0], sums, quickly=quickly)
    return worst(found)


def _of(spread: Spread) -> LeastPrecise:
    figure = spread.figure
    return LeastPrecise(spread.part, spread.half_width, figure.shows, figure.quantity.unit)


def _design(made: Plan) -> Design:
    source = made.parts[0].part.source
    assert isinstance(source, Design)  # noqa: S101  a draft has no tables
    return source


def _curve(draft: Draft, design: Design, chosen: Point) -> list[Point]:
    """Return the error at strengths from a tenth of the chosen one to ten times that.

    That of the chosen one is as it is stated, and others by what is linear in the noise.
    """
    strength, _ = chosen
    around = [each for each in _GRID if strength / 10 <= each <= 10 * strength]
    step = max(1, len(around) // _CURVE)
    others = {*around[::step], around[-1]} - {strength}
    return sorted([chosen, *((each, _part(draft, design, each)) for each in others)])


def _steps(
    draft: Draft, mechanism: Mechanism, circuit: Circuit, bounds: Sequence[Bound]
) -> list[tuple[int, Fraction]]:
    """Return the cost of each number of windows: the sum, or the bound on all if it is less."""
    fixed = [each for each in bounds if each.name not in composition.OF_RELEASES_MADE]
    most = composition.smallest_valid(fixed)
    last = draft.releases
    counts = sorted({max(1, round(index * last / _STEPS)) for index in range(1, _STEPS + 1)})
    found = []
    for count in counts:
        epsilon = _added_up(Releases(mechanism, circuit, count), draft.delta)
        caps = [] if most is None or most.epsilon is None else [most.epsilon]
        found.append((count, min([epsilon, *caps])))
    return found


def _added_up(made: Releases, delta: Fraction) -> Fraction:
    """Return the epsilon of releases by adding up; for Gaussian noise, at the year's delta."""
    epsilon = made.epsilon_at(delta)
    assert epsilon is not None  # noqa: S101  every mechanism of a survey promises something
    return epsilon
