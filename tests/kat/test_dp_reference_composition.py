"""Reference values of composition: what n releases of one epsilon cost at delta = 10^-5."""

import math
from fractions import Fraction

import pytest

from aggregator.dp import accounting, pld
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.papers import published_composition
from aggregator.papers.cost_model import CostModel
from aggregator.steward.planning import answers
from aggregator.vdaf.circuits import Count
from tests.support.numbers import agrees, rows

DELTA = Fraction(1, 10**5)

# epsilon0, n: basic, advanced, Theorem 9, zCDP, optimal, PLD of Laplace noise.
TABLE = """
0.1 1 0.1 0.4903696830 0.4871629624 0.4848525912 0.09998095144 0.1000
0.1 10 1 1.622598047 1.590530841 1.567427129 0.9936911768 0.9900
0.1 50 5 3.918924803 3.758588769 3.643070212 2.844667152 2.7966
0.1 100 10 5.850235093 5.529563026 5.298525912 4.306791373 4.2203
0.1 200 20 8.889558786 8.248214653 7.786140424 6.510335014 6.3816
0.1 300 30 11.46641822 10.50440202 9.811290681 8.324893542 8.1600
0.5 1 0.5 2.723623591 2.578653776 2.524262956 0.4999839346 0.5000
0.5 10 5 10.83074200 9.381043843 8.837135647 4.998854120 4.9900
0.5 50 25 33.18338283 25.93489204 23.21535106 18.93328334 17.4739
0.5 100 50 56.42869310 41.93171152 36.49262956 31.17286350 28.5016
0.5 200 100 98.80282919 69.80886604 58.93070212 51.96595928 47.1788
0.5 300 150 138.8646440 95.37369928 79.05645341 70.86812009 63.9818
1.0 1 1 6.516807741 5.702428325 5.298525912 0.9999863211 1.0000
1.0 10 10 32.35708958 24.21329542 20.17427129 9.999770635 9.9900
1.0 50 50 119.8447935 79.12582278 58.93070212 45.67614275 39.5788
1.0 100 100 219.8134420 138.3755004 97.98525912 79.84132236 68.2530
1.0 200 200 411.5177699 248.6418869 167.8614042 141.8460508 119.4535
1.0 300 300 598.5974554 354.2836307 233.1129068 199.9551999 167.2673
"""


@pytest.mark.parametrize("row", rows(TABLE))
def test_every_bound_has_the_reference_value(
    row: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    epsilon0, n, basic, advanced, theorem9, zcdp, optimal, _ = row
    monkeypatch.setattr(pld, "is_available", lambda: False)
    epsilon = Fraction(epsilon0)
    answer = answers.compose(PureDpDiscreteLaplace(epsilon), Count(), int(n), "1e-5")
    assert answer["basic"] == Fraction(basic)
    for name, printed in (("advanced", advanced), ("optimal", optimal)):
        value = answer[name]
        assert isinstance(value, Fraction)
        assert agrees(float(value), printed), name
    assert agrees(float(_theorem_9(epsilon, int(n))), theorem9)
    textbook = published_composition.zcdp_textbook(epsilon, int(n), DELTA)
    assert agrees(float(textbook), zcdp)
    tighter = answer["zcdp"]
    assert isinstance(tighter, Fraction)
    assert tighter < textbook


@pytest.mark.slow
@pytest.mark.parametrize("row", rows(TABLE))
def test_the_distribution_of_laplace_noise_has_the_reference_value(row: list[str]) -> None:
    epsilon0, n, *_, printed = row
    if not pld.is_available():
        pytest.skip("dp-accounting is not installed")
    found = pld.epsilon_of_laplace(Fraction(epsilon0), int(n), DELTA)
    assert agrees(found, printed)


@pytest.mark.parametrize(
    ("epsilon0", "n", "printed"),
    rows("""
        0.1 10 .776520067317|0.1 100 2.91918283066|0.1 300 5.52724403018
        0.5 10 4.46142141511|0.5 100 20.2835711699|0.5 300 43.5671304195
        1 10 9.85941102412|1 100 51.9659592773|1 300 122.506660761
    """),
)
def test_a_histogram_composes_as_twice_as_many_halves(epsilon0: str, n: str, printed: str) -> None:
    bound = accounting.optimal(Fraction(epsilon0) / 2, 2 * int(n), DELTA)
    assert bound is not None
    assert abs(bound - Fraction(printed)) < 2e-11 * bound


@pytest.mark.parametrize(
    ("epsilon0", "mean"),
    [("0.1", ".00731037114146"), ("0.5", ".179390819583"), ("1", ".903902413112")],
)
def test_the_published_mean_is_above_the_expected_loss(epsilon0: str, mean: str) -> None:
    epsilon = float(Fraction(epsilon0))
    optimum = CostModel.of(1, 1).published_optimum(epsilon0)
    level, gamma = float(optimum.epsilon), float(optimum.confidence)
    mu = gamma * level * math.expm1(level) + (1 - gamma) * epsilon * math.expm1(epsilon)
    assert agrees(mu, mean)
    assert mu > epsilon * math.tanh(epsilon / 2)


@pytest.mark.parametrize(
    ("epsilon0", "pair", "n", "printed"),
    [
        ("0.1", (".08", ".80"), 100, "5.541904981"), ("0.5", (".27", ".61"), 100, "41.74780884"),
        ("1", (".42", ".54"), 100, "138.8643113"), ("0.1", (".08", ".80"), 300, "10.54142789"),
        ("0.5", (".27", ".61"), 300, "94.82199125"), ("1", (".42", ".54"), 300, "355.7500634"),
    ],
)  # fmt: skip
def test_theorem_9_at_the_papers_rounded_pairs(
    epsilon0: str, pair: tuple[str, str], n: int, printed: str
) -> None:
    level, gamma = map(Fraction, pair)
    bound = published_composition.privacy_at_risk_theorem_9(
        Fraction(epsilon0), level, gamma, n, DELTA
    )
    assert agrees(float(bound), printed)


@pytest.mark.parametrize(("epsilon0", "first"), [("0.1", 27), ("0.5", 57), ("1", 2494)])
def test_theorem_9_beats_adding_up_from_this_number_of_releases_on(
    epsilon0: str, first: int
) -> None:
    for n, beats in ((first - 1, False), (first, True)):
        bound = _theorem_9(Fraction(epsilon0), n)
        assert (bound < n * Fraction(epsilon0)) is beats


def _theorem_9(epsilon: Fraction, n: int) -> Fraction:
    """Return the published bound at the published optimum."""
    pair = published_composition.published_pair(epsilon)
    return published_composition.privacy_at_risk_theorem_9(epsilon, *pair, n, DELTA)
