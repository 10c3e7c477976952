"""What people told beside found strings, in simulated releases of all levels: means, counts."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from aggregator.client.text.amounts import Range
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.hashing import TextHashes
from aggregator.errors import ParameterError
from aggregator.steward.text.beside import decode_beside, foretold_half_width
from aggregator.steward.text.decode import Decoded, decode
from aggregator.steward.text.means import MeanLaw
from aggregator.steward.text.plan import best_plan, zipf
from tests.support.text import (
    Counts,
    Fingerprints,
    released_amounts,
    released_levels,
    some_prints,
    zipf_counts,
)

RANGE = Range(Fraction(0), Fraction(100), Fraction(1), "euros")
HASHES = TextHashes(bytes(range(32)), 11, 1024)
STRINGS = 3000


def decoded(who: Counts, steps: Counts, seed: int, asked: Range | None = RANGE) -> Decoded:
    rng = np.random.default_rng(seed)
    prints = some_prints(STRINGS, rng)
    tables = released_amounts(HASHES, prints, (who, steps, 100), 1, rng)
    return decode_beside(HASHES, tables, asked, Fingerprints(prints))


def people(held: int = 60_000) -> Counts:
    return np.repeat(np.arange(STRINGS), zipf_counts(held, STRINGS))


def test_means_and_sums_hold_the_truth_and_are_as_wide_as_a_plan_foretells() -> None:
    who = people()
    rng = np.random.default_rng(7)
    means = np.clip(rng.lognormal(3, 0.6, STRINGS), 0, 100)
    held, summed, wide, foretold = list[bool](), list[bool](), list[float](), list[float]()
    plan = dataclasses.replace(
        best_plan(zipf(60_000, STRINGS), 1.0, 1024, STRINGS, levels=2), tasks=HASHES.tasks
    )
    for seed in range(6):
        steps = np.clip(np.rint(means[who] * rng.lognormal(-0.2, 0.6, len(who))), 0, 100)
        counts, sums = np.bincount(who), np.bincount(who, steps)
        prints = some_prints(STRINGS, np.random.default_rng(seed))
        places = {int(each): place for place, each in enumerate(prints)}
        for each in decoded(who, steps.astype(np.int64), seed).found:
            place, amount = places[each.fingerprint], each.amount
            assert amount is not None
            held.append(amount.low <= sums[place] / counts[place] <= amount.high)
            summed.append(amount.sum_low <= sums[place] <= amount.sum_high)
            if each.count > 1.5 * plan.found_from:
                wide.append((amount.high - amount.low) / 2)
                foretold.append(foretold_half_width(plan, RANGE, each.count, 0.95))
    assert len(held) > 300
    assert 0.935 <= np.mean(held) <= 0.99
    assert 0.935 <= np.mean(summed) <= 0.99
    assert np.mean(wide) == pytest.approx(np.mean(foretold), rel=0.15)


def test_a_string_of_which_all_write_most_lifts_no_other_strings_mean() -> None:
    """Without the joint fit, those that share a bucket with it would have ten times the error."""
    who = people()
    steps = np.where(who < 3, 100, 10)
    counts = np.bincount(who)
    errors = []
    for seed in range(3):
        prints = some_prints(STRINGS, np.random.default_rng(seed))
        places = {int(each): place for place, each in enumerate(prints)}
        for each in decoded(who, steps, seed).found:
            place = places[each.fingerprint]
            assert each.amount is not None
            if place >= 3 and counts[place] > 400:
                errors.append(each.amount.mean - 10)
            if place < 3:
                assert each.amount.mean > 97
    assert len(errors) > 30
    assert abs(np.mean(errors)) < 2
    assert np.sqrt(np.mean(np.square(errors))) < 6


def test_counts_are_those_of_the_strings_alone() -> None:
    who, rng = people(), np.random.default_rng(3)
    prints = some_prints(STRINGS, rng)
    tables = released_amounts(HASHES, prints, (who, np.full(len(who), 30), 100), 1, rng)
    found = decode_beside(HASHES, tables, RANGE, Fingerprints(prints))
    strings = tables[:, 1:].reshape(HASHES.tasks, 2, HASHES.buckets).sum(axis=1)
    alone = decode(HASHES, np.concatenate([tables[:, :1], strings], 1), Fingerprints(prints))
    assert len(alone.found) > 30
    assert dataclasses.replace(alone, found=()) == dataclasses.replace(found, found=())
    assert alone.found == tuple(dataclasses.replace(each, amount=None) for each in found.found)


def test_a_range_that_does_not_begin_at_zero_moves_means_and_sums() -> None:
    who = people()
    steps = np.full(len(who), 25)
    asked = Range(Fraction(-10), Fraction(40), Fraction(1, 2), "")
    for plain, moved in zip(
        decoded(who, steps, 1).found, decoded(who, steps, 1, asked).found, strict=True
    ):
        assert plain.amount is not None
        assert moved.amount is not None
        assert moved.amount.mean == pytest.approx(plain.amount.mean / 2 - 10)
        assert moved.amount.high == pytest.approx(plain.amount.high / 2 - 10)
        assert moved.amount.sum == pytest.approx(plain.amount.sum / 2 - 10 * plain.count)


def test_the_interval_of_a_mean_is_the_formulas() -> None:
    law = MeanLaw(RANGE, 40.0, -900.0, 150.0)
    mean, low, high = law.mean((100.0, 80.0, 125.0), 0.95)
    half = 1.959964 * 150 / 100
    assert mean == pytest.approx(31)
    assert low == pytest.approx(31 - math.hypot(half, -9 + 900 / 80))
    assert high == pytest.approx(31 + math.hypot(half, -900 / 125 + 9))
    found, least, most = law.sum((100.0, 80.0, 125.0), 0.95)
    assert found == pytest.approx(3100)
    assert least == pytest.approx(3100 - math.hypot(40 * 20, 100 * half))
    assert most == pytest.approx(3100 + math.hypot(40 * 25, 100 * half))


@pytest.mark.parametrize("count", [(90.0, 0.0, 200.0), (0.0, -40.0, 60.0), (-5.0, -60.0, 20.0)])
def test_a_count_that_may_be_nothing_says_nothing_of_a_mean(
    count: tuple[float, float, float],
) -> None:
    mean, low, high = MeanLaw(RANGE, 40.0, 900.0, 150.0).mean(count, 0.95)
    assert 40 <= mean <= 100
    assert (low, high) == (0, 100)


def test_tables_of_another_size_are_refused() -> None:
    tables, candidates = np.zeros((11, 1024), np.int64), Fingerprints(np.arange(9, dtype=np.uint32))
    with pytest.raises(ParameterError, match="tables must be 11 of 2047 entries, not 11 of 1024"):
        decode_beside(HASHES, tables, RANGE, candidates)


BY = ByChoice("age", ("young", "middle", "old"))


def by_age(who: Counts, level: Counts, seed: int) -> tuple[Decoded, dict[int, int]]:
    """Return what is decoded, and the place of each fingerprint."""
    rng = np.random.default_rng(seed)
    prints = some_prints(STRINGS, rng)
    tables = released_levels(HASHES, prints, (who, level, 3), 1, rng)
    decoded = decode_beside(HASHES, tables, BY, Fingerprints(prints))
    return decoded, {int(each): place for place, each in enumerate(prints)}


def test_the_counts_of_labels_add_up_to_the_strings_count_and_hold_the_truth() -> None:
    who, rng, hold = people(), np.random.default_rng(8), list[bool]()
    level = rng.integers(0, 3, STRINGS)[who]
    level[rng.random(len(who)) < 0.5] = 2
    for seed in range(5):
        decoded, places = by_age(who, level, seed)
        for each in decoded.found:
            assert sum(part.sum for _, part in each.by) == pytest.approx(each.count)
            assert sum(part.mean for _, part in each.by) == pytest.approx(1, abs=0.3)
            mine = level[who == places[each.fingerprint]]
            for number, (label, part) in enumerate(each.by):
                assert label == BY.labels[number]
                assert 0 <= part.sum_low <= part.sum_high
                assert 0 <= part.low <= part.high <= 1
                hold.append(part.sum_low <= (mine == number).sum() <= part.sum_high)
    assert len(hold) > 300
    assert 0.93 <= np.mean(hold) <= 0.99


def test_a_string_of_which_all_chose_one_label_lifts_it_at_no_other_string() -> None:
    who = people()
    level = np.where(who < 3, 2, who % 2)
    errors = []
    for seed in range(3):
        decoded, places = by_age(who, level, seed)
        for each in decoded.found:
            place, (_, old) = places[each.fingerprint], each.by[2]
            if place < 3:
                assert old.mean > 0.97
            elif each.count > 400:
                errors.append(old.mean)
    assert len(errors) > 25
    assert abs(np.mean(errors)) < 0.03


def test_strings_and_their_counts_are_those_of_the_strings_alone() -> None:
    who, rng = people(), np.random.default_rng(3)
    prints = some_prints(STRINGS, rng)
    tables = released_levels(HASHES, prints, (who, who % 3, 3), 1, rng)
    found = decode_beside(HASHES, tables, BY, Fingerprints(prints)).found
    strings = tables[:, 1:].reshape(HASHES.tasks, 3, HASHES.buckets).sum(axis=1)
    alone = decode(HASHES, np.concatenate([tables[:, :1], strings], 1), Fingerprints(prints)).found
    assert len(alone) > 20
    assert alone == tuple(dataclasses.replace(each, by=()) for each in found)
