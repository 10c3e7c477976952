"""Quantiles from bins: which bins are ruled out, by the definition."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import pytest

from aggregator.collector.results import Noised, Quantile, median, total
from aggregator.collector.results.values import combination
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.errors import ParameterError

LAW = DiscreteLaplaceLaw(2, Fraction(4))


def bins(counts: Sequence[int], law: NoiseLaw | None = LAW) -> list[Noised]:
    return [Noised.released(count, law, index) for index, count in enumerate(counts)]


def kept_by_definition(quantile: Quantile, confidence: Fraction) -> list[int]:
    """Each bin that neither of its two tests rules out."""
    count = len(quantile.bins)

    def excess(last: int) -> Noised:
        taken = quantile.part
        exact = Fraction(0)
        if quantile.report_count is not None:
            taken = Fraction(last + 1, count)
            exact = (taken - quantile.part) * quantile.report_count
        parts = [
            (each, Fraction(index <= last) - taken) for index, each in enumerate(quantile.bins)
        ]
        return combination(parts) + exact

    kept = []
    for index in range(count):
        at, before = excess(index), excess(index - 1)
        too_low = at.value < -at.law.width(confidence).size
        too_high = index > 0 and before.value >= before.law.width(confidence).size
        if not too_low and not too_high:
            kept.append(index)
    return kept


@pytest.mark.parametrize("report_count", [None, 400])
@pytest.mark.parametrize("part", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize(
    "counts",
    [(100, 100, 100, 100), (3, 380, 12, -5), (0, 0, 390, 10), (30, -8, 40, 5, 61, 29, 100, 90, 50)],
)
def test_the_interval_holds_all_bins_that_no_test_rules_out(
    counts: tuple[int, ...], part: Fraction, report_count: int | None
) -> None:
    edges = [10 * index for index in range(len(counts) + 1)]
    quantile = Quantile(bins(counts), edges, part, report_count)
    for confidence in (Fraction(1, 2), Fraction(95, 100)):
        kept = kept_by_definition(quantile, confidence)
        interval = quantile.interval(confidence)
        assert (interval.low, interval.high) == (edges[kept[0]], edges[kept[-1] + 1])


@pytest.mark.parametrize(
    ("answers", "part", "expected"),
    [
        ((0, 10, 0, 0), Fraction(1, 2), (1, 2)),
        ((5, 5, 0, 0), Fraction(1, 2), (0, 1)),
        ((5, 5, 5, 5), Fraction(3, 4), (2, 3)),
        ((1, 0, 0, 9), Fraction(1), (3, 4)),
    ],
)
@pytest.mark.parametrize("is_public", [True, False])
def test_without_noise_exactly_the_bin_of_the_quantile_is_left(
    answers: tuple[int, ...], part: Fraction, expected: tuple[int, int], *, is_public: bool
) -> None:
    count = sum(answers) if is_public else None
    found = Quantile(bins(answers, None), [0, 1, 2, 3, 4], part, count)
    assert (found.interval().low, found.interval().high) == expected
    assert expected[0] <= found.estimate <= expected[1]


def test_a_public_number_of_reports_makes_the_interval_narrower() -> None:
    counts = [50] * 100
    edges = list(range(101))
    known = median(bins(counts), edges, 5000).interval()
    unknown = median(bins([50] * 50 + [0] * 50), edges).interval()
    assert known.high - known.low <= 4
    assert 50 in known
    assert 25 in unknown


def test_many_bins_of_many_batches_are_no_narrower_for_being_cut_short() -> None:
    # Too many bins cannot be told apart for each to be asked for its exact width.
    nothing = [
        total(Noised.released(0, LAW, (index, batch)) for batch in range(5)) for index in range(300)
    ]
    interval = median(nothing, list(range(301)), 1).interval()
    assert (interval.low, interval.high) == (0, 300)


def test_the_estimate_lies_between_the_edges_of_its_bin_as_the_counts_do() -> None:
    found = median(bins([10, 30, 10]), [0, 10, 20, 60], 50)
    assert found.estimate == 15
    quarter = Quantile(bins([10, 30, 10]), [0, 10, 20, 60], Fraction(1, 4), 50)
    assert quarter.estimate == 10 + Fraction(10) * Fraction(5, 60)
    # The counts are 10 too large, of which a third is the first bin's.
    first = Quantile(bins([40, 10, 10]), [0, 10, 20, 60], Fraction(1, 4), 50)
    assert first.estimate == 10 * Fraction(50, 4) / (40 - Fraction(10, 3))


@pytest.mark.parametrize(
    ("edges", "part", "message"),
    [
        ([0, 1], Fraction(1, 2), "one more than the bins"),
        ([0, 2, 1], Fraction(1, 2), "ascending order"),
        ([0, 1, 2], Fraction(0), "part must be a Fraction above 0"),
        ([0, 1, 2], 0.5, "part must be a Fraction above 0"),
        ([0, 1, 2], Fraction(3, 2), "part must be a Fraction above 0"),
    ],
)
def test_bins_and_edges_that_do_not_fit_are_refused(
    edges: list[int], part: Fraction, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Quantile(bins([1, 2]), edges, part)


def test_bins_with_noise_in_common_are_refused() -> None:
    one, two = bins([1, 2])
    for pair in itertools.permutations([one, one + two]):
        with pytest.raises(ParameterError, match="no noise in common"):
            median(pair, [0, 1, 2])
