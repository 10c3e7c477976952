"""Reference values of privacy at risk: [DBB20], as published, corrected, and what is true."""

from fractions import Fraction

import pytest

from aggregator.errors import ParameterError
from aggregator.papers.cost_model import CostModel
from aggregator.papers.loss_law import LaplaceLaw, LatticeLaw, worst_move
from aggregator.papers.privacy_at_risk import (
    claimed_confidence,
    claimed_coupled_confidence,
    claimed_epsilon,
    claimed_noise,
    claimed_sampled_confidence,
    exchangeable_coverage,
    gap_probability,
    sampled_coverage,
    sampled_sensitivity,
    samples_needed,
    sampling_tolerance,
)
from aggregator.papers.two_draw_loss import TwoDrawLaw
from aggregator.vdaf.circuits import Count, Histogram, MultihotCountVec, Sum
from tests.support.numbers import agrees, rows

# gamma: the claimed epsilon for epsilon0 = 0.1, 0.5 and 1.
EQUATION_4 = """
0.1 0.00956182710889 0.0401419487504 0.0652983359988
0.25 0.0240782130007 0.103548086957 0.172011060757
0.5 0.0487505204864 0.219070196380 0.379885493042
0.75 0.0740469825230 0.349702174887 0.642625980491
0.9 0.0895378280731 0.437145276526 0.841434921260
0.99 0.0989488434779 0.493533738695 0.982963136764
"""

# k: the claimed confidence at epsilon = 0.1, 0.25, 0.5, 0.75, 0.9 for epsilon0 = 1; P(T <= 1).
EQUATION_3 = """
1 0.150544988033 0.349932008759 0.622459331202 0.834703823329 0.938792975440 .632120558829
2 0.111385197230 0.276337380978 0.539596195829 0.782041444153 0.915866896464 .448180838243
5 0.102342524923 0.255537109795 0.508810447438 0.757639096090 0.903952728065 .267115175791
10 0.100970292697 0.252295888147 0.503666542971 0.753198240309 0.901662639915 .183670260359
"""


@pytest.mark.parametrize("row", rows(EQUATION_4))
def test_equation_4_and_its_inverse_have_the_reference_values(row: list[str]) -> None:
    gamma, *printed = row
    for epsilon0, expected in zip(("0.1", "0.5", "1"), printed, strict=True):
        epsilon = claimed_epsilon(gamma, epsilon0)
        assert agrees(epsilon, expected)
        assert agrees(claimed_confidence(epsilon, epsilon0), gamma + "0" * 12)


@pytest.mark.parametrize("row", rows(EQUATION_3))
def test_equation_3_and_its_inverse_have_the_reference_values(row: list[str]) -> None:
    k, *printed, at_one = row
    for epsilon, expected in zip(("0.1", "0.25", "0.5", "0.75", "0.9"), printed, strict=True):
        confidence = claimed_confidence(epsilon, 1, int(k))
        assert agrees(confidence, expected)
        assert agrees(claimed_epsilon(confidence, 1, int(k)), epsilon + "0" * 12)
    assert agrees(gap_probability(1, int(k)), at_one)


@pytest.mark.parametrize(
    ("k", "epsilon0"), [(1, "0.797323042510"), (2, ".691525579106"), (5, ".671244442230")]
)
def test_the_noise_for_a_claim_is_the_papers_only_for_one_coordinate(k: int, epsilon0: str) -> None:
    assert agrees(claimed_noise("0.4", "0.6", k), epsilon0)


def test_the_tolerance_of_the_paper() -> None:
    assert agrees(sampling_tolerance(15000, "0.01"), "0.900425863264")
    assert agrees(sampling_tolerance(10000, "0.01"), ".729329433527")


def test_sampled_claims_are_the_papers_and_the_corrected_ones_are_apart() -> None:
    values = [float(i) for i in range(100, 0, -1)]
    assert sampled_sensitivity(values, "0.85") == 85
    assert sampled_sensitivity(values, "0.851") == 86
    # The published bound improves as rho grows; what is covered falls.
    assert agrees(claimed_sampled_confidence("0.9", 15000, "0.01"), "0.810383276938")
    assert claimed_sampled_confidence("0.9", 15000, 1) > claimed_sampled_confidence(
        "0.9", 15000, "0.01"
    )
    assert sampled_coverage("0.9", "0.01") == Fraction(89, 100)
    assert sampled_coverage("0.9", 1) == 0
    least = samples_needed("0.8", "0.9", "0.01")
    assert claimed_sampled_confidence("0.9", least, "0.01") >= Fraction(8, 10)
    assert claimed_sampled_confidence("0.9", least - 1, "0.01") < Fraction(8, 10)


def test_a_new_pair_is_covered_by_the_exchangeable_share() -> None:
    assert agrees(float(exchangeable_coverage("0.4", 15000)), ".399973335111")
    assert agrees(float(exchangeable_coverage("0.85", 15000)), ".849943337111")


def test_the_papers_coupled_example_has_no_solution() -> None:
    # gamma3 / alpha = gamma2 would need P(T <= eps)/P(T <= eta eps0) = 1.1106, above 1.
    with pytest.raises(ParameterError, match="epsilon must lie in"):
        claimed_coupled_confidence(
            "0.4", "0.8", "0.9", eta=Fraction("0.352188390942") / Fraction("0.8")
        )


PAIRS = """
0.1 0.0790469195142 .798669271825 0.08 .807918953296
0.5 0.274115283558 .609337371238 0.27 .601369614950
1 0.421162091318 .543751156807 0.42 .542543942599
"""


@pytest.mark.parametrize("row", rows(PAIRS))
def test_the_published_optimum_has_the_reference_values(row: list[str]) -> None:
    epsilon0, epsilon, gamma, rounded, at_rounded = row
    optimum = CostModel.of(100, 5500).published_optimum(epsilon0)
    assert agrees(optimum.epsilon, epsilon)
    assert agrees(optimum.confidence, gamma)
    assert agrees(claimed_confidence(rounded, epsilon0), at_rounded)
    assert "not a privacy guarantee" in optimum.label


def test_the_budgets_have_the_reference_values() -> None:
    model = CostModel.of(100, 5500)
    assert agrees(model.budget("0.5"), "74434.4057801")
    published = model.published_optimum("0.5")
    assert agrees(published.budget, "37805.8566754")
    assert agrees(model.budget("0.5") - published.budget, "36628.5491048")
    assert agrees(model.published_optimum(2).epsilon, "0.589072180118")


def test_with_the_true_confidence_the_saving_is_all_but_gone() -> None:
    model = CostModel.of(100, 5500)
    optimum = model.true_confidence_optimum("0.5")
    assert agrees(optimum.epsilon, ".286")
    assert agrees(optimum.budget, "67978.95")
    assert agrees(model.realised_loss_budget("0.5"), "63893.998")
    assert agrees(model.realised_loss_budget("0.5", worst_move(Count())), "74434.41")
    assert agrees(model.realised_loss_budget("0.5", worst_move(Histogram(2, 1))), "37792.717")


# epsilon0, epsilon: the paper's confidence; true P(|L| <= eps), P(L > eps) and delta(eps).
TRUTH = """
0.1 0.08 0.8079 0.0380593242390 0.504975083125 0.00995016625083
0.5 0.27 0.6014 0.105457753851 0.554316928047 0.108633856093
1.0 0.42 0.5425 0.128309685059 0.625868216211 0.251736432421
0.5 0.25 0.5622 0.0976038118968 0.558751548708 0.117503097415
1.0 0.5 0.6225 0.153217115165 0.610599608464 0.221199216929
"""


@pytest.mark.parametrize("row", rows(TRUTH))
def test_the_true_laplace_law_has_the_reference_values(row: list[str]) -> None:
    epsilon0, epsilon, claimed, within, above, delta = row
    law = LaplaceLaw.of(epsilon0)
    assert agrees(claimed_confidence(epsilon, epsilon0), claimed)
    assert agrees(law.probability_at_most(epsilon), within)
    assert agrees(law.probability_above(epsilon), above)
    assert agrees(law.delta(epsilon), delta)


def test_the_claim_of_80_percent_contradicts_the_expected_loss() -> None:
    assert agrees(LaplaceLaw.of("0.1").expected(), ".004837")


# epsilon0: count P(+), delta(0), delta(eps0/2);
# histogram P(+), P(0), P(-), delta(0), delta(eps0/2).
ONE_DRAW = """
0.1 0.524979187479 0.0499583749579 0.0256035370985 0.262653581403 0.499687630162 0.237658788435 0.0249947929684 0.0128097663220
0.5 0.622459331202 0.244918662404 0.137687516632 0.316042418148 0.492268165475 0.191689416377 0.124353001772 0.0699083354106
1 0.731058578630 0.462117157260 0.287649136645 0.387455619000 0.470007424403 0.142536956597 0.244918662404 0.152451906799
2 0.880797077978 0.761594155956 0.556769941146 0.534446645389 0.393223866483 0.0723294881285 0.462117157260 0.337834712147
"""  # noqa: E501 - rows of a table


@pytest.mark.parametrize("row", rows(ONE_DRAW))
def test_the_law_of_one_draw_has_the_reference_values(row: list[str]) -> None:
    epsilon0, yes, zero, half, plus, none, minus, hist_zero, hist_half = row
    middle = Fraction(epsilon0) / 2
    count = LatticeLaw.of(epsilon0, worst_move(Count()))
    histogram = LatticeLaw.of(epsilon0, worst_move(Histogram(2, 1)))
    assert agrees(count.support[0].probability, yes)
    assert agrees(count.delta(0), zero)
    assert agrees(count.delta(middle), half)
    assert [
        agrees(atom.probability, p)
        for atom, p in zip(histogram.support, (plus, none, minus), strict=True)
    ] == [True] * 3
    assert agrees(histogram.delta(0), hist_zero)
    assert agrees(histogram.delta(middle), hist_half)


# epsilon0: count delta(0), delta(eps0/2); histogram delta(0).
TWO_DRAWS = """
0.1 .0250415315149 .00472322172282 .0156256506
0.5 .129805072699 .0271019797583 .0782050815
1 .280401661914 .0661888282542 .1568571936
2 .601669153843 .259446826511 .3161290968
"""


@pytest.mark.parametrize("row", rows(TWO_DRAWS))
def test_the_law_of_two_draws_has_the_reference_values(row: list[str]) -> None:
    epsilon0, zero, half, histogram = row
    law = TwoDrawLaw.of(epsilon0, worst_move(Count()))
    assert agrees(law.delta(0), zero)
    assert agrees(law.delta(Fraction(epsilon0) / 2), half)
    assert agrees(TwoDrawLaw.of(epsilon0, worst_move(Histogram(2, 1))).delta(0), histogram)


@pytest.mark.parametrize(
    ("m", "within"),
    [
        (2, ".148550677884"), (3, ".203114191541"), (10, ".153025793070"), (100, ".156345007439"),
    ],
)  # fmt: skip
def test_the_law_of_a_sum_is_a_lattice(m: int, within: str) -> None:
    law = LatticeLaw.of(1, worst_move(Sum(m)))
    assert agrees(law.probability_at_most("0.5"), within)


@pytest.mark.parametrize(
    ("weight", "highest", "within"),
    [(2, ".0998828100690", ".863372357580"), (5, ".00159008691498", ".886237808086")],
)
def test_the_law_of_a_multihot_vector(weight: int, highest: str, within: str) -> None:
    law = LatticeLaw.of(1, worst_move(MultihotCountVec(100, weight, 10)))
    assert agrees(law.support[0].probability, highest)
    assert agrees(law.probability_at_most("0.5"), within)


def test_post_processing_can_lower_the_probability_of_a_small_loss() -> None:
    # Lemma 11 is false: merge the outcomes with losses 0 and -1 of a histogram at epsilon0 = 1.
    law = LatticeLaw.of(1, worst_move(Histogram(2, 1)))
    assert agrees(law.probability_at_most("0.2"), ".470007")
    plus, none, minus = (atom.probability for atom in law.support)
    merged = ((none + minus) / (none + plus)).ln()
    assert agrees(merged, "-.3364")
