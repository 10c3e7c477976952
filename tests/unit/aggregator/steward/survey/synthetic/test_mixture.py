"""The mixture that is fitted to released tables."""

import numpy as np
import pytest

from aggregator.steward.survey.synthetic.drawing import apportioned, rows_of
from aggregator.steward.survey.synthetic.mixture import Mixture, Target, fitted, softmax
from aggregator.steward.survey.synthetic.tables import Released
from tests.support.synthetic_surveys import planned, release_without_noise


def released(people: int = 400, sizes: tuple[int, ...] = (3, 2, 4)) -> Released:
    names = {f"q{place}": size for place, size in enumerate(sizes)}
    asked = planned(names)
    random = np.random.default_rng(4)
    answers = random.integers(0, [size + 1 for size in sizes], (people, len(sizes)))
    answers[: people // 2, 1] = np.minimum(answers[: people // 2, 0], sizes[1])
    return release_without_noise(asked, answers)


def test_the_gradient_is_that_of_the_distance() -> None:
    target = Target.of(released())
    random = np.random.default_rng(5)
    logits, entries = random.normal(size=3), random.normal(size=(3, 12))
    _, of_logits, of_entries = target.distance(logits, entries)
    step = 1e-6
    for place in range(3):
        moved = logits.copy()
        moved[place] += step
        back = logits.copy()
        back[place] -= step
        slope = (target.distance(moved, entries)[0] - target.distance(back, entries)[0]) / step / 2
        assert of_logits[place] == pytest.approx(slope, rel=1e-5)
        for entry in range(12):
            moved_entries, back_entries = entries.copy(), entries.copy()
            moved_entries[place, entry] += step
            back_entries[place, entry] -= step
            slope = target.distance(logits, moved_entries)[0]
            slope = (slope - target.distance(logits, back_entries)[0]) / step / 2
            assert of_entries[place, entry] == pytest.approx(slope, rel=1e-4, abs=1e-2)


def test_the_distance_does_not_depend_on_the_order_of_components() -> None:
    target = Target.of(released())
    random = np.random.default_rng(6)
    logits, entries = random.normal(size=3), random.normal(size=(3, 12))
    order = [2, 0, 1]
    assert target.distance(logits[order], entries[order])[0] == pytest.approx(
        target.distance(logits, entries)[0]
    )


@pytest.mark.slow
def test_without_noise_a_pair_is_what_it_is() -> None:
    of_two = released(sizes=(3, 2))
    (table,) = of_two.tables
    beginning = [np.full(size, 1 / size) for size in (4, 3)]
    everything = [np.ones(7, dtype=bool)]
    made = fitted(of_two, beginning, everything, np.random.default_rng)
    assert 50 * np.abs(made.pair(0, 1) - table / of_two.people).sum() < 0.05


def test_shares_of_a_mixture_agree_with_each_other() -> None:
    random = np.random.default_rng(7)
    target = Target.of(released())
    shares = target.shares(random.normal(size=(5, 12)))
    mixture = Mixture(target.starts, softmax(random.normal(size=5)), shares, 1.0, is_far=False)
    pair = mixture.pair(0, 2)
    assert pair.sum() == pytest.approx(1)
    assert pair.sum(axis=1) == pytest.approx(mixture.one(0))
    assert mixture.share({0: 1, 2: 3}) == pytest.approx(pair[1, 3])
    triple = [mixture.share({0: 1, 1: entry, 2: 3}) for entry in range(3)]
    assert sum(triple) == pytest.approx(pair[1, 3])


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_whole_numbers_are_shares_rounded_up_or_down(count: int) -> None:
    shares = np.array([0.5, 0.3, 0.19, 0.01])
    random = np.random.default_rng(8)
    found = np.array([apportioned(shares, count, random) for _ in range(2000)])
    assert (found.sum(axis=1) == count).all()
    assert (np.abs(found - shares * count) < 1).all()
    # Six standard deviations of the mean of a number that is rounded up or down.
    assert found.mean(axis=0) == pytest.approx(shares * count, abs=6 * 0.5 / 2000**0.5)


def test_rows_have_the_shares_of_their_mixture() -> None:
    random = np.random.default_rng(9)
    target = Target.of(released())
    shares = target.shares(random.normal(size=(5, 12)))
    mixture = Mixture(target.starts, softmax(random.normal(size=5)), shares, 1.0, is_far=False)
    rows = rows_of(mixture, 5000, random)
    assert rows.shape == (5000, 3)
    counts = np.bincount(rows[:, 2], minlength=5) / 5000
    # Rounding moves each component's label by less than one row.
    assert counts == pytest.approx(mixture.one(2), abs=5 / 5000)
