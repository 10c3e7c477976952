"""Wrong parameters are refused with the parameter, its range and what was given."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from aggregator.collector.results.partial_knowledge import Thresholding
from aggregator.dp.decimals import exact, working
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.papers.cost_model import CostModel
from aggregator.papers.known_answers import PassiveAttacker, against_active_attacker
from aggregator.papers.loss_law import LaplaceLaw, LatticeLaw, Move, worst_move
from aggregator.papers.partition_selection import OptimalSelection
from aggregator.papers.privacy_at_risk import (
    claimed_confidence,
    claimed_noise,
    gap_probability,
    sampled_sensitivity,
    samples_needed,
    sampling_tolerance,
)
from aggregator.papers.roots import find_root
from aggregator.papers.selection_plan import SelectionPlan
from aggregator.papers.selection_rivals import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricRelease,
)
from aggregator.papers.two_draw_loss import TwoDrawLaw
from aggregator.papers.vector_loss import VectorTwoDrawLaw
from aggregator.steward.planning.advise import advise
from aggregator.steward.planning.answers_error import error
from aggregator.steward.planning.question import Question
from aggregator.vdaf.circuits import Count, Histogram, L1BoundSum, MultihotCountVec, Sum, SumVec

TINY = PureDpDiscreteLaplace(Fraction(1, 10**300))

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: OptimalSelection.of(-1, "1e-5"), r"epsilon must lie in \[0, infinity\), not -1"),
    (lambda: OptimalSelection.of(1, "1.5"), r"delta must lie in \[0, 1\], not 1.5"),
    (lambda: OptimalSelection.of("nan", "1e-5"), r"epsilon must be a finite number.*\[0, inf"),
    (lambda: OptimalSelection.of(float("nan"), "1e-5"), "epsilon must be a finite number"),
    (lambda: OptimalSelection.of(float("inf"), "1e-5"), "epsilon must be a finite number"),
    (lambda: OptimalSelection.of("1/0", "1e-5"), "epsilon must be a finite number"),
    (lambda: OptimalSelection.of("1e-99999999", "1e-5"), "epsilon must be a finite number"),
    (lambda: OptimalSelection.of("one", "1e-5"), "epsilon must be a finite number"),
    (lambda: OptimalSelection.of(1, "1e-5").keep_probability(-1), "count must be .*, not -1"),
    (lambda: OptimalSelection.of(1, "1e-5").smallest_count(0), "probability must lie in"),
    (lambda: SelectionPlan.of(1, "1e-5", 0), "kappa must be an integer from 1 .*, not 0"),
    (lambda: SelectionPlan.of(1, "1e-5", neighbours="both"), "neighbours must be .*'both'"),
    (lambda: TruncatedGeometricRelease.of(1, 0), r"delta must lie in \(0, 1\], not 0"),
    (lambda: LaplaceSelection.of(0, "1e-5"), r"epsilon must lie in \(0, infinity\), not 0"),
    (lambda: GaussianSelection.of(1, 1), r"delta must lie in \(0, 1\), not 1"),
    (lambda: GaussianSelection.of(1, "1/2"), "delta must not equal 1 - 2"),
    (lambda: Thresholding.of(1000, 0, 10), r"probability must lie in \(0, 1\), not 0"),
    (lambda: Thresholding.of(1000, 1, 10), r"probability must lie in \(0, 1\), not 1"),
    (lambda: Thresholding.of(1000, "0.1", 1000), "threshold must be .* 0 to 999, not 1000"),
    (lambda: Thresholding.of(10**11, "0.1", 5), "reports must be an integer from 1 to 10000000000"),
    (lambda: Thresholding.of(1000, "0.005", 5).bound(), r"r = .* \[0, 1\), not 1.00402"),
    (lambda: Thresholding.of(1000, "0.005", 0).bound(), r"r = .* \[0, 1\), but T is 0"),
    (lambda: Thresholding.of(20, "0.4", 13).delta(-1), r"epsilon must lie in \[0, 1000\]"),
    (lambda: Thresholding.of(40, "0.24", 13).bound(), r"f\(T, n-1, p\)/\(1-r\) must lie in"),
    (lambda: PassiveAttacker.of(Thresholding.of(9, "0.1", 2), 9), "known must be .* 0 to 8, not 9"),
    (lambda: PassiveAttacker.of(Thresholding.of(99, "0.2", 20), 50).bound(), "no b_max in 1 to"),
    (
        lambda: against_active_attacker(Thresholding.of(1000, "1e-7", 100), 101),
        "known must be at most the threshold 100 .*, not 101",
    ),
    (lambda: SelectionPlan.of("1e400", "1e-5"), r"epsilon must lie in \[0, 1000\], not 1e400"),
    (lambda: error(TINY, Count(), "0.95"), "scale: noise of scale 1e.300 is wider than any field"),
    (lambda: Question.of(9, 1, epsilon="1e-31"), "epsilon must be at least 1e-30, not 1e-31"),
    (lambda: LatticeLaw.of(0, Move(1, 1)), r"epsilon0 must lie in \(0, 1000\], not 0"),
    (lambda: LatticeLaw.of(1, Move(1000, 1000)), "length.* must be at most 5,000,000"),
    (lambda: LatticeLaw.of(1, Move(1, 1)).delta(-1), r"epsilon must lie in \[0, infinity\)"),
    (lambda: LaplaceLaw.of("-0.5"), r"epsilon0 must lie in \(0, 1000\], not -0.5"),
    (lambda: TwoDrawLaw.of(1, Move(4, 1)), "coordinates moved must be 1 or 2 .*, not 4: see"),
    (lambda: VectorTwoDrawLaw.of(1, Move(5000, 1)), "coordinates moved must be at most 4096"),
    (lambda: VectorTwoDrawLaw.of("1e-9", Move(4, 1)), "epsilon0 must be above 4.5e-05"),
    (lambda: TwoDrawLaw.of("1e-7", Move(1, 1)).delta(0), "epsilon0 is so small"),
    (lambda: worst_move(Histogram(1, 1)), "Prio3Histogram changes its sums: there is nothing"),
    (lambda: worst_move(L1BoundSum(3, 4, 1), honest_draws=2), "Prio3L1BoundSum under 2 draws"),
    (lambda: gap_probability(1, 0), "k must be an integer from 1 to 200, not 0"),
    (lambda: claimed_confidence("0.6", "0.5"), r"epsilon must lie in \[0, epsilon0 = 0.5\]"),
    (lambda: claimed_noise(5, "0.1"), r"confidence must be above P\(T <= epsilon\)"),
    (lambda: sampling_tolerance(100, 0), r"accuracy must lie in \(0, 1\], not 0"),
    (lambda: sampled_sensitivity([], "0.5"), "sensitivities must have at least 1 value"),
    (lambda: samples_needed("0.9", "0.9", "0.01"), r"claimed must lie in \[0, coverage = 0.9\)"),
    (lambda: CostModel.of(0, 5500), "people must be an integer at least 1, not 0"),
    (lambda: CostModel.of(10, 0), r"compensation must lie in \(0, infinity\), not 0"),
    (lambda: Question.of(100, 4), "give either error or epsilon"),
    (lambda: Question.of(100, 4, error="5", epsilon=1), "give either error or epsilon"),
    (lambda: Question.of(100, 4, error="five"), "error must be a finite number"),
    (lambda: Question.of(100, 4, epsilon=0), r"epsilon must lie in \(0, 99\], not 0"),
    (lambda: Question.of(9, 4, rho=1), "rho: the mechanism PureDpDiscreteLaplace has no such"),
    (lambda: Question.of(9, 4, mechanism="DiscreteGaussian"), "give either error or rho: the one"),
    (lambda: Question.of(9, 4, mechanism="None", error="1"), "mechanism must be one of PureDp"),
    (lambda: Question.of(9, Histogram(1, 1), epsilon=1), "no measurement of Prio3Histogram"),
    (lambda: Question.of(0, 4, epsilon=1), "reports must be an integer at least 1"),
    (
        lambda: advise(Question.of(100, 4, error="0", max_reports_per_person=99)),
        "error must be larger than 0: no epsilon below 100",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"), REFUSED, ids=[f"{i}-{message}" for i, (_, message) in enumerate(REFUSED)]
)
def test_a_parameter_out_of_range_is_named_with_its_range(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize("value", [2.5, "3", None])
def test_a_count_that_is_not_an_integer_is_refused(value: object) -> None:
    with pytest.raises(ParameterError, match="count must be an integer"):
        OptimalSelection.of(1, "0.1").keep_probability(value)  # type: ignore[arg-type] # on purpose


def test_a_float_counts_as_the_binary_number_it_holds() -> None:
    assert exact(0.1, "x").denominator == 2**55


def test_a_root_needs_a_change_of_sign() -> None:
    with working(), pytest.raises(ParameterError, match="no change of sign between 1 and 2"):
        find_root(lambda x: x, Decimal(1), Decimal(2))


def test_the_law_of_a_sum_has_no_limit_on_the_measurement() -> None:
    """Values of the continuous law, which it approaches, from the reference."""
    law = LatticeLaw.of(1, worst_move(Sum(10**12)))
    assert float(law.probability_at_most("0.5")) == pytest.approx(0.153217115165, rel=1e-10)
    assert float(law.delta("0.5")) == pytest.approx(0.221199216929, rel=1e-10)


def test_the_law_of_many_counts_is_found_or_refused_without_delay() -> None:
    law = LatticeLaw.of(1, worst_move(MultihotCountVec(20_000, 20_000, 1)))
    assert len(law.probabilities) == 20_001
    assert float(sum(law.probabilities)) == pytest.approx(1, rel=1e-15)
    with pytest.raises(ParameterError, match="coordinates moved must be at most 100,000"):
        LatticeLaw.of(1, worst_move(SumVec(100_001, 1, 1)))


def test_two_draws_never_lose_more_than_epsilon0() -> None:
    law = TwoDrawLaw.of("2.5", worst_move(Count()))
    assert law.probability_above("2.5") == 0
    assert law.probability_at_most("2.5") == 1
