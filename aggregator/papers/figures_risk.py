"""Figures 1, 2, 4, 5, 6, 8 and 9 to 11 of [DBB20], privacy at risk, each beside what is sound.

Figures 3, 7 and 12 are captions over the others; 13 and 14 rest on a census extract.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction

from aggregator.dp import accounting, pld
from aggregator.dp.accounting import Pieces
from aggregator.papers import published_composition
from aggregator.papers.cost_model import CostModel
from aggregator.papers.figures import Curve, Panel, Picture
from aggregator.papers.loss_law import LaplaceLaw, worst_move
from aggregator.papers.privacy_at_risk import (
    claimed_confidence,
    claimed_coupled_confidence,
    samples_needed,
    sampling_tolerance,
)
from aggregator.vdaf.circuits import Histogram

_LEVEL = "privacy level ε"
_NOT_A_GUARANTEE = (
    "Dashed: published figure (Dandekar et al.), not a privacy guarantee; overstates confidence."
)
_RHO = "\N{GREEK SMALL LETTER RHO}"


def _levels(epsilon0: str, steps: int = 40) -> tuple[float, ...]:
    whole = float(epsilon0)
    return tuple(whole * i / steps for i in range(1, steps + 1))


def _below(level: float, epsilon0: str) -> Fraction:
    """Return `level` as a rational, at most epsilon0: float steps may end just above it."""
    return min(Fraction(level), Fraction(epsilon0))


def _claimed(epsilon0: str, k: int = 1) -> Callable[[float], Decimal]:
    return lambda level: claimed_confidence(_below(level, epsilon0), epsilon0, k)


def _samples(coverage: Fraction, rho: str) -> Callable[[float], float]:
    return lambda claim: float(samples_needed(claim, coverage, rho))


def _tolerance(rho: str) -> Callable[[float], Decimal | None]:
    def tolerance(samples: float) -> Decimal | None:
        alpha = sampling_tolerance(int(samples), rho)
        return alpha if alpha > 0 else None

    return tolerance


def _true_confidence(epsilon0: str, label: str) -> Curve:
    law = LaplaceLaw.of(epsilon0)
    # The law jumps to 1 at epsilon0: end just below, where the jump's height shows.
    points = [level for level in _levels(epsilon0) if level < float(epsilon0)]
    return Curve.of(label, points, law.probability_at_most)


def _published(*curves: Curve) -> Panel:
    return Panel(
        "published: claimed confidence γ₁", _LEVEL, "claimed confidence", curves, y_limits=(0, 1.02)
    )


def _sound(title: str, *curves: Curve) -> Panel:
    return Panel(title, _LEVEL, "probability", curves, y_limits=(0, 1.02))


def figure_1() -> Picture:
    """Confidence by level for several dimensions."""
    claimed = (
        Curve.of(f"k = {k}", _levels("1"), _claimed("1", k), published=True) for k in (1, 2, 5, 10)
    )
    return Picture(
        "risk-1",
        "Privacy at risk, figure 1: Laplace noise for ε₀ = 1",
        (
            _published(*claimed),
            _sound(
                "sound: true P(|loss| ≤ ε), and δ(ε)",
                _true_confidence("1", "P(|loss| ≤ ε), every k (1 at ε = ε₀)"),
                Curve.of("exact δ(ε)", _levels("1"), LaplaceLaw.of("1").delta),
            ),
        ),
        _NOT_A_GUARANTEE,
    )


def figure_2() -> Picture:
    """Confidence by level for several epsilon0."""
    choices = ("0.1", "0.5", "1")
    claimed = (Curve.of(f"ε₀ = {e}", _levels(e), _claimed(e), published=True) for e in choices)
    return Picture(
        "risk-2",
        "Privacy at risk, figure 2: one coordinate, several ε₀",
        (
            _published(*claimed),
            _sound(
                "sound: true P(|loss| ≤ ε), below ε₀",
                *(_true_confidence(e, f"ε₀ = {e}") for e in choices),
            ),
        ),
        _NOT_A_GUARANTEE,
    )


def figure_4() -> Picture:
    """Samples by claimed confidence."""
    coverage = Fraction(99, 100)
    claims, samples = [i / 100 for i in range(50, 99)], [10 ** (i / 10) for i in range(20, 53)]
    choices = ("0.005", "0.01", "0.05", "0.1")
    return Picture(
        "risk-4",
        "Privacy at risk, figure 4: samples for an estimated sensitivity",
        (
            Panel(
                f"published bound γ₂(1 - 2e^(-2 {_RHO}² n)), γ₂ = 0.99",
                "claimed confidence",
                "samples n",
                tuple(
                    Curve.of(f"{_RHO} = {rho}", claims, _samples(coverage, rho), published=True)
                    for rho in choices
                ),
                y_log=True,
            ),
            Panel(
                f"sound: confidence that γ₂ - {_RHO} of pairs are covered",
                "samples n",
                f"1 - 2e^(-2 {_RHO}² n)",
                tuple(
                    Curve.of(
                        f"{_RHO} = {rho} (covers {float(coverage - Fraction(rho)):.3g})",
                        samples,
                        _tolerance(rho),
                    )
                    for rho in choices
                ),
                x_log=True,
                y_limits=(0, 1.02),
            ),
        ),
        "About random pairs of data sets; not differential privacy in either panel.",
    )


def _coupled(number: int, fixed: str, choices: list[tuple[str, int, str]]) -> Picture:
    coverage = Fraction(9, 10)

    def curve(label: str, samples: int, rho: str) -> Curve:
        alpha = sampling_tolerance(samples, rho)
        return Curve.of(
            label,
            _levels("1"),
            lambda level: alpha * claimed_coupled_confidence(_below(level, "1"), 1, coverage),
            published=True,
        )

    return Picture(
        f"risk-{number}",
        f"Privacy at risk, figure {number}: ε₀ = 1, {fixed}",
        (
            Panel(
                "published: claimed bound on γ₃, γ₂ = 0.9",
                _LEVEL,
                "claimed confidence",
                tuple(curve(*choice) for choice in choices),
                y_limits=(0, 1.02),
            ),
            _sound(
                "sound: the loss with the true sensitivity",
                _true_confidence("1", "P(|loss| ≤ ε) (1 at ε = ε₀)"),
                Curve.of("exact δ(ε)", _levels("1"), LaplaceLaw.of("1").delta),
            ),
        ),
        "Dashed: published figure (Dandekar et al.), not differential privacy; noise scaled to a"
        " sampled sensitivity has no guarantee.",
    )


def figure_5() -> Picture:
    """Claimed confidence by level, 10,000 samples."""
    choices = [(f"{_RHO} = {rho}", 10_000, rho) for rho in ("0.008", "0.01", "0.012", "0.02")]
    return _coupled(5, "10,000 samples", choices)


def figure_6() -> Picture:
    """Claimed confidence by level, accuracy 0.01."""
    choices = [(f"n = {n:,}", n, "0.01") for n in (5_000, 10_000, 15_000, 30_000)]
    return _coupled(6, f"{_RHO} = 0.01", choices)


def figure_8() -> Picture:
    """The budget by level."""
    model = CostModel.of(100, 5500)
    levels = _levels("0.5", 60)
    whole = float(model.budget("0.5"))
    true = LaplaceLaw.of("0.5")

    def mixed(level: float, confidence: Decimal) -> float:
        share = float(confidence)
        return share * float(model.budget(_below(level, "0.5"))) + (1 - share) * whole

    histogram = float(model.realised_loss_budget("0.5", worst_move(Histogram(2, 1))))
    return Picture(
        "risk-8",
        "Privacy at risk, figure 8: compensation for 100 people at 5500 dollars, ε₀ = 0.5",
        (
            Panel(
                "the mechanism is the same along every curve",
                _LEVEL,
                "budget in dollars",
                (
                    Curve.of(
                        "published: mixed by the claimed confidence",
                        levels,
                        lambda level: mixed(level, claimed_confidence(_below(level, "0.5"), "0.5")),
                        published=True,
                    ),
                    Curve.of(
                        "sound: the guarantee ε₀; for a count also by its true law",
                        levels,
                        lambda _: whole,
                    ),
                    Curve.of(
                        "mixed by the true P(|loss| ≤ ε) of Laplace noise",
                        levels[:-1],
                        lambda level: mixed(level, true.probability_at_most(level)),
                    ),
                ),
                y_limits=(0, whole * 1.15),
            ),
        ),
        f"{_NOT_A_GUARANTEE} The published minimum is 37,805.86 dollars at ε = 0.274;"
        f" charging a histogram's realised loss gives {histogram:,.2f}.",
    )


def _composition(number: int, epsilon0: str) -> Picture:
    """Composition at epsilon0."""
    epsilon, delta = Fraction(epsilon0), Fraction(1, 10**5)
    counts = [1, *range(10, 301, 10)]
    pair = published_composition.published_pair(epsilon)
    curves = [
        Curve.of(
            "advanced (textbook)",
            counts,
            lambda n: float(accounting.advanced([Pieces(int(n), epsilon)], delta) or 0),
        ),
        Curve.of(
            "Theorem 9 (published)",
            counts,
            lambda n: float(
                published_composition.privacy_at_risk_theorem_9(epsilon, *pair, int(n), delta)
            ),
            published=True,
        ),
        Curve.of("basic", counts, lambda n: float(n * epsilon)),
        Curve.of(
            "zCDP",
            counts,
            lambda n: float(published_composition.zcdp_textbook(epsilon, int(n), delta)),
        ),
        Curve.of(
            "optimal (KOV), exact for a count",
            counts,
            lambda n: float(accounting.optimal(epsilon, int(n), delta) or 0),
        ),
    ]
    if pld.is_available():
        curves.append(
            Curve.of(
                "PLD of Laplace noise",
                [1, 10, 20, 30, 40, *range(50, 301, 50)],
                lambda n: pld.epsilon_of_laplace(epsilon, int(n), delta),
            )
        )
    return Picture(
        f"risk-{number}",
        f"Privacy at risk, figure {number}: composition of ε₀ = {epsilon0}, δ = 10⁻⁵",
        (
            Panel(
                f"published pair ({float(pair[0]):.2f}, {float(pair[1]):.2f})",
                "releases",
                "ε of all releases together",
                tuple(curves),
            ),
        ),
        "Theorem 9 is true of Laplace noise, though not by its proof; zCDP, KOV and PLD beat it"
        " everywhere.",
    )


PICTURES: Mapping[str, Callable[[], Picture]] = {
    "risk-1": figure_1,
    "risk-2": figure_2,
    "risk-4": figure_4,
    "risk-5": figure_5,
    "risk-6": figure_6,
    "risk-8": figure_8,
    "risk-9": lambda: _composition(9, "0.1"),
    "risk-10": lambda: _composition(10, "0.5"),
    "risk-11": lambda: _composition(11, "1"),
}
