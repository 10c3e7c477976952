"""Figures of [DVGM22], partition selection, and figure 3.4 of [Des20], thresholding."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from aggregator.collector.results.partial_knowledge import Thresholding
from aggregator.papers.figures import Curve, Panel, Picture
from aggregator.papers.partition_selection import OptimalSelection
from aggregator.papers.selection_plan import MIDPOINTS, SelectionPlan
from aggregator.papers.selection_rivals import LaplaceSelection

_PERSONS = "persons in the bucket"
_KEEP = "probability that the bucket is shown"
_REAL_COUNTS = (
    "Counts of both rules are real numbers: the least whole number of persons with that chance is"
    " the count rounded up. Where curves lie on each other both rules need the same count for"
    " different chances."
)


def _keep_curves(epsilon: str, delta: str, counts: range) -> Panel:
    optimal, laplace = OptimalSelection.of(epsilon, delta), LaplaceSelection.of(epsilon, delta)
    return Panel(
        f"ε = {epsilon}, δ = {_power(delta)}",
        _PERSONS,
        _KEEP,
        (
            Curve.of("optimal", counts, lambda n: optimal.keep_probability(int(n))),
            Curve.of("Laplace", counts, lambda n: laplace.keep_probability(int(n))),
        ),
    )


def figure_1() -> Picture:
    """Probability of showing a bucket by its size."""
    return Picture(
        "selection-1",
        "Partition selection, figure 1: optimal and Laplace selection",
        (_keep_curves("1", "1e-5", range(5, 21)), _keep_curves("0.1", "1e-10", range(150, 301, 3))),
        "Both are (ε, δ)-differentially private for adding or removing one person.",
    )


def _percentiles(
    points: list[Fraction], numbers: Callable[[Fraction], tuple[Fraction, Fraction]]
) -> tuple[Curve, ...]:
    x = tuple(float(point) for point in points)
    rules: list[tuple[str, list[OptimalSelection | LaplaceSelection]]] = [
        ("optimal", [OptimalSelection.of(*numbers(point)) for point in points]),
        ("Laplace", [LaplaceSelection.of(*numbers(point)) for point in points]),
    ]
    curves = []
    for colour, (name, at_points) in enumerate(rules):
        for probability in MIDPOINTS:
            counts = [rule.count_kept_with(probability) for rule in at_points]
            y = tuple(None if count is None else float(count) for count in counts)
            label = f"{name}, {int(probability * 100)} %"
            curves.append(Curve(label, x, y, colour=colour, is_rival=colour > 0))
    return tuple(curves)


def _grid(low: int, high: int, steps: int) -> list[Fraction]:
    """Return powers of ten from 10^low to 10^high, `steps` per decade."""
    return [
        Fraction(10 ** (i / steps)).limit_denominator(10**15)
        for i in range(low * steps, high * steps + 1)
    ]


def figure_2() -> Picture:
    """Percentiles of the shown size by epsilon."""
    delta = Fraction(1, 10**5)

    def panel(low: int, high: int, title: str) -> Panel:
        curves = _percentiles(_grid(low, high, 12), lambda epsilon: (epsilon, delta))
        return Panel(
            title, "ε of the selection", "persons for 5 %, 50 %, 95 % chance", curves, x_log=True
        )

    return Picture(
        "selection-2",
        "Partition selection, figure 2: how many persons a bucket needs, δ = 10⁻⁵",
        (panel(-2, -1, "small ε"), panel(-1, 0, "ε up to 1")),
        _REAL_COUNTS,
    )


def figure_3() -> Picture:
    """Percentiles of the shown size by delta."""

    def panel(epsilon: str) -> Panel:
        curves = _percentiles(_grid(-12, -3, 3), lambda delta: (Fraction(epsilon), delta))
        return Panel(
            f"ε = {epsilon}", "δ", "persons for 5 %, 50 %, 95 % chance", curves, x_log=True
        )

    return Picture(
        "selection-3",
        "Partition selection, figure 3: how many persons a bucket needs by δ",
        (panel("0.1"), panel("1")),
        _REAL_COUNTS,
    )


def figure_4() -> Picture:
    """Midpoints by the number of buckets a person is in."""
    kappas = range(1, 8)
    plans = {kappa: SelectionPlan.of("1", "1e-5", kappa) for kappa in kappas}
    return Picture(
        "selection-4",
        "Partition selection, figure 4: several buckets per person, ε = 1, δ = 10⁻⁵",
        (
            Panel(
                "persons for a chance of one half",
                "buckets a person is in, κ",
                _PERSONS,
                (
                    Curve.of("optimal", kappas, lambda n: plans[int(n)].midpoints["optimal"]),
                    Curve.of("Laplace", kappas, lambda n: plans[int(n)].midpoints["laplace"]),
                    Curve.of(
                        "Gaussian, best split of δ",
                        kappas,
                        lambda n: plans[int(n)].midpoints["gaussian"],
                    ),
                ),
            ),
        ),
        "Optimal and Laplace selection divide ε and δ by κ; the Gaussian rule's noise grows as √κ,"
        " and δ is split for the smallest threshold. They cross near κ = 2.85.",
    )


def _thresholding(reports: int, thresholds: range) -> Panel:
    releases = {t: Thresholding.of(reports, "0.005", t) for t in thresholds}
    bounds = {t: release.bound() for t, release in releases.items()}
    return Panel(
        f"n = {reports:,} reports",
        "threshold T (largest hidden count)",
        "ε or δ",
        (
            Curve.of("Theorem 4, ε", thresholds, lambda t: bounds[int(t)].epsilon, published=True),
            Curve.of("Theorem 4, δ", thresholds, lambda t: bounds[int(t)].delta, published=True),
            Curve.of("exact δ at ε = 0", thresholds, lambda t: releases[int(t)].delta()),
        ),
        y_log=True,
    )


def thesis_figure() -> Picture:
    """Theorem 4's epsilon and delta by threshold, and the exact delta below both."""
    spans = ((1000, range(6, 19)), (10_000, range(60, 121, 2)), (100_000, range(550, 701, 5)))
    panels = tuple(_thresholding(reports, thresholds) for reports, thresholds in spans)
    return Picture(
        "thesis-3.4",
        "Thesis, figure 3.4: thresholding without noise, every answer 'yes' with p = 0.005",
        panels,
        "Not differential privacy: holds only for independent answers with p_i < p, and protects"
        " hidden counts only.",
    )


def _power(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    raised = exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if mantissa == "1" else text


PICTURES: Mapping[str, Callable[[], Picture]] = {
    "thesis-3.4": thesis_figure,
    "selection-1": figure_1,
    "selection-2": figure_2,
    "selection-3": figure_3,
    "selection-4": figure_4,
}
