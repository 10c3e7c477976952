"""Reference values of thresholding under partial knowledge: [Des20], computed to 40 digits."""

import pytest

from aggregator.collector.results.partial_knowledge import Thresholding
from aggregator.papers.known_answers import PassiveAttacker, against_active_attacker
from tests.support.numbers import agrees, rows

# n, p, T: r; Theorem 4's epsilon, delta; exact delta(0); ln F(T)/F(T-1); P1[released]; exact delta
# at 0.1, 0.5 and 1; eps_max.
CURVES = """
1000 0.001 10 0.1000000000 1.077189466e-7 1.077189408e-7 9.694704671e-8 9.694705233e-8 1.064500548e-7 9.594760662e-8 9.078224320e-8 8.061820051e-8 2.312645540
1000 0.005 10 0.5020100503 0.03661848648 0.03595613903 0.01790579587 0.01831532109 0.03128527622 0.01649866364 0.009226242376 0.0001334970444 0.6991955861
1000 0.005 18 0.2788944724 5.091396852e-6 5.091383891e-6 3.671425067e-6 3.671436424e-6 4.929054938e-6 3.539158979e-6 2.855573820e-6 1.510462514e-6 1.295104123
1000 0.005 20 0.2510050251 3.131563096e-7 3.131562606e-7 2.345524655e-7 2.345525096e-7 3.050596532e-7 2.271371599e-7 1.888129532e-7 1.134012462e-7 1.402505456
1000 0.01 20 0.5045454545 0.003586527220 0.003580103313 0.001773778460 0.001777984987 0.003252522223 0.001618257621 0.0008144859268 4.518267544e-7 0.7043204812
1000 0.01 30 0.3363636364 2.093540723e-7 2.093540504e-7 1.389349607e-7 1.389349791e-7 2.017448971e-7 1.323291820e-7 9.818881893e-8 3.100978830e-8 1.120052620
1000 0.01 50 0.2018181818 8.115845075e-20 8.115845075e-20 6.477919978e-20 6.477919978e-20 7.968837710e-20 6.321118792e-20 5.510729933e-20 3.916103132e-20 1.651734057
10000 0.005 90 0.5582914573 2.191560340e-7 2.191560100e-7 9.680308180e-8 9.680309751e-8 2.106522471e-7 8.482946057e-8 2.294670664e-8 2.967557413e-25 0.5919157810
100000 0.005 650 0.7730885195 7.433049702e-11 7.433049701e-11 1.686644312e-11 1.686644312e-11 7.121956381e-11 1.115007552e-11 1.815741834e-42 4.460817533e-219 0.2638830051
"""  # noqa: E501 - rows of a table

# n, T: epsilon, delta at p = 0.005: the points of figure 3.4.
FIGURE = """
1000 6 2.269903004 0.8966777986
1000 7 0.4605751516 0.3690793339
1000 8 0.1919249496 0.1746311896
1000 10 0.03661848648 0.03595613903
1000 12 0.005771004501 0.005754384242
1000 15 2.241759262e-4 2.241508006e-4
1000 18 5.091396852e-6 5.091383891e-6
10000 60 0.1315917171 0.1233011368
10000 80 5.734300930e-5 5.734136522e-5
10000 100 2.889282130e-10 2.889282130e-10
10000 120 2.912480341e-17 2.912480341e-17
100000 550 0.01747672739 0.01732489518
100000 610 1.070202220e-6 1.070201648e-6
100000 650 7.433049702e-11 7.433049701e-11
100000 700 1.623401283e-17 1.623401283e-17
"""

# n, p, T, |B|: best b_max; Theorem 4(b)'s epsilon, delta; exact delta(0).
PASSIVE = """
1000 0.005 20 100 5 7.156419703e-5 2.340288490e-4 2.345524655e-7
1000 0.01 40 200 13 8.383971346e-8 2.435092729e-7 3.479186146e-13
1000 0.001 10 500 5 1.712732233e-4 3.441124559e-4 9.695129420e-8
"""

# n, p, T, |B|: r, epsilon, delta, exact delta(0).
ACTIVE = """
1000 0.005 20 5 .3329983250 2.125497550e-4 2.125271679e-4 1.417559770e-4
1000 0.005 20 10 0.4969849246 .03441457248 .03382912626 .01701656049
1000 0.01 50 20 0.3296296296 1.368885467e-7 1.368885374e-7 9.176601950e-8
"""


@pytest.mark.parametrize("row", rows(CURVES))
def test_theorem_and_exact_curve_have_the_reference_values(row: list[str]) -> None:
    n, p, t, *expected = row
    release = Thresholding.of(int(n), p, int(t))
    bound = release.bound()
    found = (
        bound.ratio,
        bound.epsilon,
        bound.delta,
        release.delta(),
        release.suppressed_loss(),
        release.release_probability(),
        release.delta("0.1"),
        release.delta("0.5"),
        release.delta(1),
        release.epsilon_max,
    )
    assert all(agrees(value, printed) for value, printed in zip(found, expected, strict=True))


@pytest.mark.parametrize("row", rows(CURVES))
def test_the_sharper_bound_is_the_exact_delta_at_zero_below_the_theorem(row: list[str]) -> None:
    n, p, t, *_ = row
    release = Thresholding.of(int(n), p, int(t))
    sharper, theorem = release.sharper_bound(), release.bound()
    assert sharper.epsilon == 0
    assert abs(sharper.delta / release.delta() - 1) < 1e-50
    assert sharper.delta < theorem.delta < theorem.epsilon


@pytest.mark.parametrize("row", rows(FIGURE))
def test_figure_3_4_has_the_reference_points(row: list[str]) -> None:
    n, t, epsilon, delta = row
    bound = Thresholding.of(int(n), "0.005", int(t)).bound()
    assert agrees(bound.epsilon, epsilon)
    assert agrees(bound.delta, delta)


@pytest.mark.parametrize("row", rows(PASSIVE))
def test_a_passive_attacker_has_the_reference_values(row: list[str]) -> None:
    n, p, t, known, b_max, epsilon, delta, exact = row
    attacker = PassiveAttacker.of(Thresholding.of(int(n), p, int(t)), int(known))
    bound = attacker.bound()
    assert bound.b_max == int(b_max)
    assert agrees(bound.epsilon, epsilon)
    assert agrees(bound.delta, delta)
    assert agrees(attacker.delta(), exact)


@pytest.mark.parametrize("row", rows(ACTIVE))
def test_an_active_attacker_has_the_reference_values(row: list[str]) -> None:
    n, p, t, known, ratio, epsilon, delta, exact = row
    weaker = against_active_attacker(Thresholding.of(int(n), p, int(t)), int(known))
    bound = weaker.bound()
    assert agrees(bound.ratio, ratio)
    assert agrees(bound.epsilon, epsilon)
    assert agrees(bound.delta, delta)
    assert agrees(weaker.delta(), exact)


def test_example_7_is_private_against_a_passive_attacker_and_open_to_an_active_one() -> None:
    release = Thresholding.of(1000, "1e-7", 100)
    assert agrees(PassiveAttacker.of(release, 100).delta(), "5.7e-561")
    assert agrees(against_active_attacker(release, 100).delta(), "0.9999101")


def test_beyond_epsilon_max_smaller_probabilities_leak_more() -> None:
    assert agrees(Thresholding.of(1000, "0.01", 20).delta(2), "5.3e-37")
    assert agrees(Thresholding.of(1000, "0.005", 20).delta(2), "1.4e-20")
