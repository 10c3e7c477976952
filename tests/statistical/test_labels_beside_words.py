"""What people write by what they chose, in simulated releases: how often intervals of cells hold.

Thresholds are those of all fingerprints. Of a hundred thousand people each writes one of 50,000
strings, held in proportion to 1/k, or 1/k^1.5, and chooses one of four labels.
"""

import numpy as np
import pytest

from aggregator.client.text.choices import ByChoice
from aggregator.client.text.hashing import TextHashes
from aggregator.steward.text.beside import decode_beside, foretold_deviation
from aggregator.steward.text.plan import TextPlan, zipf
from tests.support.text import Counts, Everything, released_levels, some_prints

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

PEOPLE, STRINGS, RUNS, TASKS, LENGTH = 100_000, 50_000, 20, 11, 1025
BY = ByChoice("age", ("a", "b", "c", "d"))
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
FREQUENT = 5


def as_all_do(who: Counts, rng: np.random.Generator) -> Counts:
    return rng.choice(4, len(who), p=SHARES)


def by_the_string(who: Counts, rng: np.random.Generator) -> Counts:
    """Each string has shares of its own, of which most are near 0 or large."""
    until = rng.dirichlet(np.full(4, 0.5), STRINGS).cumsum(axis=1)
    return (rng.random(len(who))[:, None] > until[who]).sum(axis=1).clip(0, 3)


def of_the_string(who: Counts, rng: np.random.Generator) -> Counts:
    """All who write a string choose one label; of the most frequent strings it is the same."""
    label = rng.choice(4, STRINGS, p=SHARES)
    label[:FREQUENT], label[FREQUENT : 2 * FREQUENT] = 0, 1
    return label[who]


@pytest.mark.parametrize(
    ("power", "chosen"),
    [(1, as_all_do), (1, by_the_string), (1, of_the_string), (1.5, of_the_string)],
)
def test_intervals_of_how_many_chose_each_label_hold_as_often_as_they_say(
    power: float, chosen: object
) -> None:
    assert callable(chosen)
    plan = TextPlan(zipf(PEOPLE, STRINGS, power), 1.0, TASKS, LENGTH, levels=BY.levels)
    counts_hold, cells_hold, shares_hold = list[bool](), list[bool](), list[bool]()
    errors = list[float]()
    shares = np.arange(1, STRINGS + 1) ** -float(power)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        hashes, prints = TextHashes(rng.bytes(32), TASKS, LENGTH), some_prints(STRINGS, rng)
        who = rng.choice(STRINGS, PEOPLE, p=shares / shares.sum())
        level = chosen(who, rng)
        tables = released_levels(hashes, prints, (who, level, BY.levels), 1, rng)
        tried = np.concatenate([prints, np.setdiff1d(some_prints(20_000, rng), prints)])
        held = np.bincount(who, minlength=STRINGS)
        cells = np.bincount(who * BY.levels + level, minlength=STRINGS * BY.levels)
        places = {int(each): place for place, each in enumerate(prints)}
        for each in decode_beside(hashes, tables, BY, Everything(tried)).found:
            place = places[each.fingerprint]
            counts_hold.append(each.low <= held[place] <= each.high)
            assert [label for label, _ in each.by] == [*BY.labels]
            for number, (_, part) in enumerate(each.by):
                truth = cells[place * BY.levels + number]
                cells_hold.append(part.sum_low <= truth <= part.sum_high)
                shares_hold.append(part.low <= truth / held[place] <= part.high)
                errors.append(part.sum - truth)
    assert len(counts_hold) / RUNS == pytest.approx(plan.found, rel=0.1)
    assert np.mean(counts_hold) > 0.93
    assert 0.94 <= np.mean(cells_hold) <= 0.98
    assert 0.94 <= np.mean(shares_hold) <= 0.98
    assert np.std(errors) == pytest.approx(foretold_deviation(plan), rel=0.2)
