"""What a survey's synthetic table will be worth, before anybody has answered."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.dp.by_section import BySection, equal_errors, with_gaussian_epsilon
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.zcdp import rho_of
from aggregator.steward.survey.by_group import CountsByGroup
from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.plan import Plan
from aggregator.steward.survey.synthetic.quality import Foretold
from aggregator.steward.survey.synthetic.tables import Layout, planned_layout
from aggregator.steward.survey.texts import PlannedText, meaning_of

_DELTA = Fraction(1, 10**6)
"""The delta at which a survey without one is told how much less noise there would be."""


@dataclasses.dataclass(frozen=True)
class ToldOfTable:
    """What `prio survey check` says of a synthetic table.

    Attributes:
        layout: What is in it.
        people: How many people are taken to answer in a window.
        quality: What noise does to it.
        count_error: The largest half-width of a 95 % interval of a count of two answers.
        with_delta: From how many people it would be useful with a delta, if the survey has none and
            that would help.
    """

    layout: Layout
    people: int
    quality: Foretold
    count_error: Fraction
    with_delta: int | None

    @property
    def tau(self) -> float:
        """The mean total variation, in points, that noise alone causes in a pair."""
        return self.quality.tau(self.people)

    @property
    def line(self) -> str:
        """The same in a line."""
        points = 100 * float(self.count_error) / self.people
        said = (
            f"synthetic table: from {self.people:,} people a count of two answers ± {points:.2g} "
            f"points, pairs off by {self.tau:.2g} points or less; useful from "
            f"{rounded_up(self.quality.useful_from):,} people a window, useless below "
            f"{rounded_up(self.quality.useless_below):,}"
        )
        if self.with_delta is not None:
            said += f" (with delta = 1/1000000, useful from {rounded_up(self.with_delta):,})"
        left_out = self.layout.left_out.items()
        said += "".join(f"; left out: {name}: {reason}" for name, reason in left_out)
        return said + "".join(f"; {note}" for note in self.layout.notes)

    def to_json(self) -> Mapping[str, object]:
        """Return the same for programs."""
        return {
            "people": self.people,
            "count_error": float(self.count_error),
            "tau": self.tau,
            "useful_from": self.quality.useful_from,
            "useless_below": self.quality.useless_below,
            "useful_with_delta_from": self.with_delta,
            "left_out": dict(self.layout.left_out),
            "pairs_not_asked": [list(each) for each in self.layout.not_asked],
        }


def told_of_table(
    survey: Survey, planned: Plan, texts: Sequence[PlannedText], people: int | None = None
) -> ToldOfTable | None:
    """Return what a survey's synthetic table will be worth; None if it has no pairs.

    People answer as many as `min_batch_size` unless a number is given.
    """
    meaning = meaning_of(survey, planned.sheet, texts)
    layout = planned_layout(meaning, planned.mechanism)
    if not layout.pairs:
        return None
    quality, count = Foretold.of(layout), people or survey.min_batch_size
    error = max(each.error for each in planned.parts if isinstance(each.part.source, CountsByGroup))
    with_delta = None
    if survey.budget.epsilon is not None and survey.budget.delta is None:
        found = Foretold.of(planned_layout(meaning, _with_delta(survey, planned)))
        if found.useful_from < quality.useful_from:
            with_delta = found.useful_from
    return ToldOfTable(layout, count, quality, error, with_delta)


def _with_delta(survey: Survey, planned: Plan) -> BySection:
    """Return the noise of a report if the budget had a delta."""
    epsilon, circuit = survey.budget_of_a_report.epsilon, planned.sheet.circuit
    assert epsilon is not None  # noqa: S101  as its caller found
    units = planned.sheet.units([each.weight for each in survey.questions])
    base = DiscreteGaussian(rho_of(epsilon, _DELTA), _DELTA)
    return with_gaussian_epsilon(epsilon, _DELTA, circuit, equal_errors(base, circuit, units))


def rounded_up(number: int) -> int:
    """Return a number rounded up to two digits."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit
