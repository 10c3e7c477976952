"""What a collector shows of a result, and what it says of the rule."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.collector.results.disclosure import WITHHELD, disclose
from aggregator.collector.results.partial_knowledge import CAVEATS
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from tests.support.tasks import make_task

GEOMETRIC = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))  # k = 22
FOUR = Histogram(4, 2)


def suppressing(limit: int, probability: Fraction | None = None) -> PrivacyPolicy:
    return PrivacyPolicy(NoPrivacy(), suppression=Suppression(limit, probability))


def test_without_a_rule_everything_is_shown_without_comment() -> None:
    shown = disclose(PrivacyPolicy(GEOMETRIC), FOUR, [3, -3, 100, 7], 107)
    assert shown.values == (3, -3, 100, 7)
    assert (shown.rule, shown.withheld, shown.caveats) == ("everything", 0, ())


def test_noised_buckets_are_shown_above_twice_k_and_public_ones_above_their_own() -> None:
    policy = PrivacyPolicy(GEOMETRIC, thresholds=Thresholds("2k", 5, (1, 3)))
    shown = disclose(policy, FOUR, [44, 6, 45, -3], 100)
    assert shown.values == (None, 6, 45, None)
    assert shown.thresholds == (44, 5, 44, 5)
    assert shown.withheld == 2
    assert "no bucket that nobody chose is shown" in shown.guarantee
    assert "before selection" in shown.caveats[0]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (PrivacyPolicy(GEOMETRIC, thresholds=Thresholds("k")), "would have to be 44"),
        (PrivacyPolicy(GEOMETRIC, thresholds=Thresholds(21)), "4 buckets .* at most 0.000219"),
        (PrivacyPolicy(GEOMETRIC, thresholds=Thresholds(0, None, (0, 1, 2, 3))), "All buckets"),
        # At epsilon = 1 a threshold of 23 leaves 256 empty buckets hidden but for 1 %.
        (
            PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1)), thresholds=Thresholds(23)),
            "of 4 buckets is shown if nobody chose it is at most 0.000104",
        ),
    ],
    ids=["k", "below k", "all public", "laplace"],
)
def test_other_thresholds_say_what_they_do_to_empty_buckets(
    policy: PrivacyPolicy, words: str
) -> None:
    with_words = disclose(policy, FOUR, [50, 50, 0, 0], 100).guarantee
    assert re.search(words, with_words), with_words


@pytest.mark.parametrize(
    ("counts", "limit", "expected"),
    [
        ([3, 4, 50, 60], 5, [None, None, 50, 60]),
        ([3, 70, 50, 60], 5, [None, 70, None, 60]),  # alone it would be found by subtraction
        ([0, 0, 50, 60], 5, [None, None, None, 60]),  # a sum of 0 would tell both
        ([5, 5, 50, 60], 5, [None, None, None, 60]),  # so would a sum of 2 T
        ([0, 1, 50, 60], 1, [None, None, None, 60]),  # their sum would be a small count
        ([3, 2, 50, 60], 5, [None, None, None, 60]),  # so would this one
        ([0, 70, 50, 60], 0, [None, 70, None, 60]),
        ([3, 4, 2, 60], 5, [None, None, None, 60]),
        ([6, 70, 50, 60], 5, [6, 70, 50, 60]),
        ([3, 4, 2, 1], 5, [None] * 4),
        ([7, 8, 9, 3], 5, [None, 8, 9, None]),
        ([7, 7, 9, 3], 5, [None, None, 9, None]),  # a choice between equals would tell
    ],
)
def test_small_buckets_are_suppressed_and_cannot_be_found_by_subtraction(
    counts: list[int], limit: int, expected: list[int | None]
) -> None:
    shown = disclose(suppressing(limit), FOUR, counts, sum(counts))
    assert list(shown.values) == expected
    assert shown.guarantee.startswith("No guarantee") or not shown.withheld
    assert set(CAVEATS) <= set(shown.caveats)
    assert (WITHHELD in shown.caveats) == (expected == [None] * 4)


def test_one_small_bucket_of_two_withholds_the_whole_result() -> None:
    shown = disclose(suppressing(5), Histogram(2, 1), [3, 97], 100)
    assert shown.values == (None, None)
    assert WITHHELD in shown.caveats


def possibilities(shown: Sequence[int | None], total: int, limit: int) -> list[list[int]]:
    """Return all counts with this total of which exactly this is shown."""
    hidden = [j for j, value in enumerate(shown) if value is None]
    left = total - sum(value for value in shown if value is not None)

    def fill(count: int, rest: int) -> list[list[int]]:
        if count == 1:
            return [[rest]]
        return [[n, *tail] for n in range(rest + 1) for tail in fill(count - 1, rest - n)]

    found = []
    for guess in fill(len(hidden), left):
        counts = [0 if value is None else value for value in shown]
        for j, count in zip(hidden, guess, strict=True):
            counts[j] = count
        if Suppression(limit).select(counts, Histogram(len(counts), 2), total) == list(shown):
            found.append(counts)
    return found


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4), st.integers(0, 4))
def test_a_reader_who_knows_rule_and_total_is_sure_of_no_suppressed_count(
    counts: list[int], limit: int
) -> None:
    total = sum(counts)
    shown = Suppression(limit).select(counts, Histogram(len(counts), 2), total)
    hidden = [j for j, value in enumerate(shown) if value is None]
    if not hidden or len(hidden) == len(counts):  # nothing hidden; or withheld altogether
        return
    consistent = possibilities(shown, total, limit)
    assert counts in consistent
    for j in hidden:
        assert len({guess[j] for guess in consistent}) > 1


@pytest.mark.slow
def test_in_small_tables_a_quarter_of_the_suppressed_counts_are_one_of_two_values() -> None:
    """How little Theorem 8 of docs/privacy.md says."""
    pinned = hidden_cells = 0
    for buckets, limit in itertools.product((2, 3, 4), range(4)):
        for counts in itertools.combinations_with_replacement(range(13), buckets):
            shown = Suppression(limit).select(counts, Histogram(buckets, 2), sum(counts))
            hidden = [j for j, value in enumerate(shown) if value is None]
            if sum(counts) > 12 or not hidden or len(hidden) == buckets:
                continue
            consistent = possibilities(shown, sum(counts), limit)
            choices = [len({guess[j] for guess in consistent}) for j in hidden]
            assert min(choices) > 1
            hidden_cells += len(choices)
            pinned += choices.count(2)
    assert hidden_cells > 1000
    assert pinned > hidden_cells / 4


def test_entries_of_a_vector_of_counts_are_suppressed_one_by_one() -> None:
    circuit = MultihotCountVec(4, 2, 3)
    shown = disclose(suppressing(5), circuit, [5, 30, 20, 10], 40)
    assert shown.values == (None, 30, 20, 10)
    assert shown.guarantee == "No guarantee: nothing is proved for Prio3MultihotCountVec."
    assert shown.figures is None


@pytest.mark.parametrize(
    ("circuit", "counts", "expected"),
    [
        (Count(), [39], [None]),  # of a class of forty one said no
        (Count(), [40], [None]),
        (Count(), [35], [None]),
        (Count(), [34], [34]),
        (Count(), [6], [6]),
        (Sum(1), [36], [None]),
        (Histogram(3, 1), [39, 1, 0], [None] * 3),
        (MultihotCountVec(4, 2, 4), [1, 20, 39, 40], [None, 20, None, None]),
        (SumVec(2, 1, 1), [38, 20], [None, 20]),
        # Each report adds to one entry at most, and 2 add to none.
        (MultihotCountVec(2, 1, 1), [18, 20], [None, 20]),
        (L1BoundSum(2, 1, 1), [18, 20], [None, 20]),
        # All but 3 add to two of three entries.
        (MultihotCountVec(3, 2, 2), [30, 25, 22], [30, 25, None]),
    ],
    ids=lambda value: value.name if isinstance(value, Circuit) else None,
)
def test_a_count_is_withheld_if_the_number_of_all_others_is_small(
    circuit: Circuit, counts: list[int], expected: list[int | None]
) -> None:
    shown = disclose(suppressing(5), circuit, counts, 40)
    assert list(shown.values) == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 4), st.integers(0, 9))
def test_no_count_of_at_most_t_follows_from_what_is_shown(
    counts: list[int], limit: int, none: int
) -> None:
    """Neither a part, nor what it lacks of all, nor the sum of what is hidden."""
    n = sum(counts) + none
    circuit = MultihotCountVec(len(counts), 1, 1)
    shown = Suppression(limit).select(counts, circuit, n)
    kept = [count for count in shown if count is not None]
    assert all(limit < count < n - limit for count in kept)
    assert not kept or n - sum(kept) > limit


def test_the_mark_of_a_withheld_count_does_not_tell_on_which_side_it_is() -> None:
    for policy in (suppressing(5), suppressing(5, Fraction(1, 50))):
        for low in range(6):
            assert disclose(policy, Count(), [low], 90) == disclose(policy, Count(), [90 - low], 90)


def test_a_task_whose_batches_would_all_be_withheld_is_refused() -> None:
    privacy = {"mechanism": "None", "suppress_at_or_below": 5}
    with pytest.raises(ParameterError, match="min_batch_size: must be at least 12, not 11"):
        make_task({"type": "Prio3Count"}, privacy, min_batch_size=11)
    task = make_task({"type": "Prio3Count"}, privacy, min_batch_size=12)
    assert disclose(task.policy, task.prio3.circuit, [6], 12).values == (6,)


def test_where_yes_is_usual_the_theorem_is_about_no() -> None:
    usual = disclose(suppressing(20, Fraction(199, 200)), Count(), [988], 1000)
    rare = disclose(suppressing(20, Fraction(1, 200)), Count(), [12], 1000)
    assert rare.figures is not None
    assert usual.figures == dataclasses.replace(rare.figures, rare="no")
    assert "each is 'no' with a probability below 1/200" in usual.guarantee


def test_figures_are_given_for_one_count_under_the_assumption_that_the_task_names() -> None:
    shown = disclose(suppressing(20, Fraction(1, 200)), Count(), [12], 1000)
    assert shown.values == (None,)
    assert shown.figures is not None
    assert float(shown.figures.epsilon) == pytest.approx(3.131563096e-7, rel=1e-9)
    assert float(shown.figures.delta) == pytest.approx(3.131562606e-7, rel=1e-9)
    assert float(shown.figures.sharper_delta) == pytest.approx(2.345524655e-7, rel=1e-9)
    assert "No differential privacy" in shown.guarantee
    assert "below 1/200" in shown.guarantee


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (suppressing(20), "names no assumed_probability"),
        (suppressing(4, Fraction(1, 200)), "No guarantee: r = .* not 1.25503"),
        (suppressing(2000, Fraction(1, 200)), "No guarantee: threshold"),
    ],
    ids=["no assumption", "r above 1", "T above n"],
)
def test_a_result_to_which_the_theorem_does_not_apply_says_so(
    policy: PrivacyPolicy, words: str
) -> None:
    shown = disclose(policy, Count(), [30], 1000)
    assert shown.figures is None
    assert re.search(words, shown.guarantee), shown.guarantee
