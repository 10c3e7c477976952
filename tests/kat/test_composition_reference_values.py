"""Reference values of composition at delta = 10^-5, to all the digits they were printed with."""

from fractions import Fraction

import pytest

from aggregator.dp.accounting import (
    advanced,
    basic,
    optimal,
    privacy_at_risk_theorem_9,
    zcdp,
    zcdp_textbook,
)
from aggregator.dp.pld import epsilon_of_laplace

DELTA = Fraction(1, 10**5)

# The published optimum of cost for each epsilon: the smaller epsilon and its claimed confidence.
RISKS = {
    "0.1": ("0.0790469195142", "0.798669271825"),
    "0.5": ("0.274115283558", "0.609337371238"),
    "1.0": ("0.421162091318", "0.543751156807"),
}

# epsilon, releases: basic, advanced, Theorem 9, zCDP, optimal, Laplace PLD.
TABLE = """
0.1   1 0.1 0.4903696830 0.4871629624 0.4848525912 0.09998095144 0.1000
0.1  10 1   1.622598047  1.590530841  1.567427129  0.9936911768  0.9900
0.1  50 5   3.918924803  3.758588769  3.643070212  2.844667152   2.7966
0.1 100 10  5.850235093  5.529563026  5.298525912  4.306791373   4.2203
0.1 200 20  8.889558786  8.248214653  7.786140424  6.510335014   6.3816
0.1 300 30  11.46641822  10.50440202  9.811290681  8.324893542   8.1600
0.5   1 0.5 2.723623591  2.578653776  2.524262956  0.4999839346  0.5000
0.5  10 5   10.83074200  9.381043843  8.837135647  4.998854120   4.9900
0.5  50 25  33.18338283  25.93489204  23.21535106  18.93328334   17.4739
0.5 100 50  56.42869310  41.93171152  36.49262956  31.17286350   28.5016
0.5 200 100 98.80282919  69.80886604  58.93070212  51.96595928   47.1788
0.5 300 150 138.8646440  95.37369928  79.05645341  70.86812009   63.9818
1.0   1 1   6.516807741  5.702428325  5.298525912  0.9999863211  1.0000
1.0  10 10  32.35708958  24.21329542  20.17427129  9.999770635   9.9900
1.0  50 50  119.8447935  79.12582278  58.93070212  45.67614275   39.5788
1.0 100 100 219.8134420  138.3755004  97.98525912  79.84132236   68.2530
1.0 200 200 411.5177699  248.6418869  167.8614042  141.8460508   119.4535
1.0 300 300 598.5974554  354.2836307  233.1129068  199.9551999   167.2673
"""
ROWS = [tuple(line.split()) for line in TABLE.split("\n") if line]
TEN_DIGITS = 6e-10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:2]))
def test_every_bound_on_the_composition_of_one_mechanism(row: tuple[str, ...]) -> None:
    epsilon, releases = Fraction(row[0]), int(row[1])
    expected = [float(number) for number in row[2:]]
    risky, gamma = map(Fraction, RISKS[row[0]])
    found = [
        basic(epsilon, releases),
        advanced(epsilon, releases, DELTA),
        privacy_at_risk_theorem_9(epsilon, risky, gamma, releases, DELTA),
        zcdp_textbook(epsilon, releases, DELTA),
        optimal(epsilon, releases, DELTA),
    ]
    assert [float(number) for number in found if number is not None] == pytest.approx(
        expected[:5], rel=TEN_DIGITS
    )
    assert zcdp(epsilon, releases, DELTA) < zcdp_textbook(epsilon, releases, DELTA)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:2]))
def test_the_privacy_loss_distribution_of_laplace_noise(row: tuple[str, ...]) -> None:
    found = epsilon_of_laplace(Fraction(row[0]), int(row[1]), DELTA)
    assert found == pytest.approx(float(row[7]), abs=1e-4)


def test_theorem_9_at_no_confidence_is_the_advanced_bound() -> None:
    epsilon = Fraction(1, 2)
    assert privacy_at_risk_theorem_9(epsilon, epsilon / 2, Fraction(0), 50, DELTA) == advanced(
        epsilon, 50, DELTA
    )


@pytest.mark.parametrize(
    ("epsilon", "risky", "gamma", "releases", "published"),
    [
        ("0.1", "0.08", "0.80", 100, 5.541904981),
        ("0.5", "0.27", "0.61", 100, 41.74780884),
        ("1", "0.42", "0.54", 100, 138.8643113),
        ("0.1", "0.08", "0.80", 300, 10.54142789),
        ("0.5", "0.27", "0.61", 300, 94.82199125),
        ("1", "0.42", "0.54", 300, 355.7500634),
    ],
)
def test_theorem_9_with_the_rounded_pairs(
    epsilon: str, risky: str, gamma: str, releases: int, published: float
) -> None:
    bound = privacy_at_risk_theorem_9(
        Fraction(epsilon), Fraction(risky), Fraction(gamma), releases, DELTA
    )
    assert float(bound) == pytest.approx(published, rel=TEN_DIGITS)


@pytest.mark.parametrize(("epsilon", "first_better"), [("0.1", 27), ("0.5", 57), ("1.0", 2494)])
def test_theorem_9_beats_the_basic_bound_only_from_so_many_releases_on(
    epsilon: str, first_better: int
) -> None:
    risky, gamma = map(Fraction, RISKS[epsilon])
    value = Fraction(epsilon)
    for releases, is_better in ((first_better - 1, False), (first_better, True)):
        bound = privacy_at_risk_theorem_9(value, risky, gamma, releases, DELTA)
        assert (bound < basic(value, releases)) is is_better


@pytest.mark.parametrize(
    ("epsilon", "releases", "expected"),
    [
        ("0.1", 10, 0.776520067317),
        ("0.1", 100, 2.91918283066),
        ("0.1", 300, 5.52724403018),
        ("0.5", 10, 4.46142141511),
        ("0.5", 100, 20.2835711699),
        ("0.5", 300, 43.5671304195),
        ("1", 10, 9.85941102412),
        ("1", 100, 51.9659592773),
        ("1", 300, 122.506660761),
    ],
)
def test_releases_of_a_histogram_are_twice_as_many_of_half_the_epsilon(
    epsilon: str, releases: int, expected: float
) -> None:
    found = optimal(Fraction(epsilon) / 2, 2 * releases, DELTA)
    assert found is not None
    assert float(found) == pytest.approx(expected, rel=6e-12)
