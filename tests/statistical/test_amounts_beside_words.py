"""Amounts beside what people write, in simulated releases: found, and how often intervals hold.

Thresholds are those of all fingerprints. Of a hundred thousand people each writes one of 50,000
strings; strings are held in proportion to 1/k, or 1/k^1.5.
"""

from fractions import Fraction

import numpy as np
import pytest

from aggregator.client.text.amounts import Range
from aggregator.client.text.hashing import TextHashes
from aggregator.steward.text.beside import decode_beside
from tests.support.text import Counts, Everything, released_amounts, some_prints

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

PEOPLE, STRINGS, RUNS = 100_000, 50_000, 25
RANGE = Range(Fraction(0), Fraction(100), Fraction(1), "euros")
FREQUENT = 5


def skewed(who: Counts, means: Counts, rng: np.random.Generator) -> Counts:
    return np.asarray(means[who] * rng.lognormal(-0.3, 0.8, len(who)))


def of_the_string(who: Counts, means: Counts, _: np.random.Generator) -> Counts:
    """All who write a string give the same."""
    return means[who]


def extremes(who: Counts, _: Counts, rng: np.random.Generator) -> Counts:
    """Of the most frequent strings always the largest or always the least, else one of both."""
    given = 100 * (rng.random(len(who)) < 0.21)
    given[who < FREQUENT] = 100
    given[(who >= FREQUENT) & (who < 2 * FREQUENT)] = 0
    return given


@pytest.mark.parametrize(
    ("power", "given", "found"), [(1, skewed, 44.9), (1, of_the_string, 44.6), (1.5, extremes, 38)]
)
def test_as_many_strings_are_found_and_intervals_of_means_hold_as_often_as_they_say(
    power: float, given: object, found: float
) -> None:
    assert callable(given)
    counts_hold, means_hold, sums_hold = list[bool](), list[bool](), list[bool]()
    shares = np.arange(1, STRINGS + 1) ** -float(power)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        hashes, prints = TextHashes(rng.bytes(32), 11, 1025), some_prints(STRINGS, rng)
        who = rng.choice(STRINGS, PEOPLE, p=shares / shares.sum())
        means = np.clip(rng.lognormal(2.8, 0.6, STRINGS), 0, 90)
        steps = np.clip(np.rint(given(who, means, rng)), 0, 100).astype(np.int64)
        tables = released_amounts(hashes, prints, (who, steps, 100), 1, rng)
        tried = np.concatenate([prints, np.setdiff1d(some_prints(20_000, rng), prints)])
        held, sums = np.bincount(who, minlength=STRINGS), np.bincount(who, steps, STRINGS)
        places = {int(each): place for place, each in enumerate(prints)}
        for each in decode_beside(hashes, tables, RANGE, Everything(tried)).found:
            place, amount = places[each.fingerprint], each.amount
            assert amount is not None
            counts_hold.append(each.low <= held[place] <= each.high)
            means_hold.append(amount.low <= sums[place] / held[place] <= amount.high)
            sums_hold.append(amount.sum_low <= sums[place] <= amount.sum_high)
    assert len(means_hold) / RUNS == pytest.approx(found, rel=0.1)
    assert np.mean(counts_hold) > 0.935
    assert 0.94 <= np.mean(means_hold) <= 0.99
    assert np.mean(sums_hold) > 0.94
