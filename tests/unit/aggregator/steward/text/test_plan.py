"""What a plan says will be found is what simulations of the same design have found."""

import json
import math

import numpy as np
import pytest

from aggregator.client.text.hashing import TextHashes
from aggregator.errors import ParameterError
from aggregator.steward.text.decode import decode
from aggregator.steward.text.found_strings import decoded_document
from aggregator.steward.text.last_window import last_window
from aggregator.steward.text.plan import Tail, TextPlan, best_plan, zipf
from tests.support.text import Fingerprints, released, some_prints

STRINGS = 50_000


@pytest.mark.parametrize(
    ("people", "tasks", "length", "found", "deviation", "surely"),
    [
        # Found by a better decoder than the one of the design (190): `test_decode` sees 237.
        pytest.param(10**6, 64, 1024, 237, 50.5, 573, marks=pytest.mark.slow),
        pytest.param(10**6, 32, 4096, 366, 30.0, 340, marks=pytest.mark.slow),
        pytest.param(10**6, 16, 8192, 512, 21.8, 223, marks=pytest.mark.slow),
        pytest.param(10**6, 14, 16384, 612, 18.0, 200, marks=pytest.mark.slow),
        (10**5, 20, 1024, 53, 21.7, 223),
        (10**5, 12, 4096, 68, 15.4, 160),
    ],
)
def test_a_plan_is_what_simulations_found(
    people: int, tasks: int, length: int, found: int, deviation: float, surely: int
) -> None:
    """From which count on 99 % were found is of one simulation's few strings near it: 20 %."""
    plan = TextPlan(zipf(people, STRINGS), 1, tasks, length)
    assert plan.found == pytest.approx(found, rel=0.07)
    assert plan.deviation == pytest.approx(deviation, rel=0.1)
    assert plan.found_from == pytest.approx(surely, rel=0.2)


@pytest.mark.slow
def test_the_last_window_tells_what_the_next_one_finds() -> None:
    """Strings are held by a power of the rank that is not the guess; sums are simulated."""
    rng = np.random.default_rng(1)
    counts = np.rint(60_000 * np.arange(1, 5001) ** -0.7 / np.sum(np.arange(1, 5001) ** -0.7))
    hashes, prints = TextHashes(rng.bytes(32), 12, 4096), some_prints(len(counts), rng)
    tables = released(hashes, prints, counts.astype(np.int64), 1, rng, silent=5000)
    decoded = decode(hashes, tables, Fingerprints(prints))
    last = last_window(json.dumps(decoded_document(decoded)))
    for people in (65_000, 260_000):
        held = 60_000 * people / 65_000
        planned, truth, guess = (
            TextPlan(tail, 1, 12, 4096, len(prints))
            for tail in (
                last.tail(people),
                Tail.of(counts * people / 65_000),
                zipf(round(held), STRINGS),
            )
        )
        assert planned.tail.people == pytest.approx(held, rel=0.02)
        assert planned.found == pytest.approx(truth.found, rel=0.15)
        assert planned.deviation == pytest.approx(truth.deviation, rel=0.05)
    assert abs(guess.found / truth.found - 1) > 0.2


@pytest.mark.slow
def test_the_deviation_is_that_of_the_formula() -> None:
    """tasks * v + S / (tasks * length) + N / length, with N all who answered."""
    plan = TextPlan(zipf(10**6, STRINGS), 1, 16, 8192)
    left = plan.tail.counts < plan.found_from
    squares = float(plan.tail.counts[left] ** 2 @ plan.tail.strings[left])
    decay = math.exp(-0.5)
    noise = 4 * decay / (1 - decay) ** 2
    variance = 16 * noise + squares / (16 * 8192) + plan.tail.people / 8192
    assert plan.deviation == pytest.approx(variance**0.5, rel=0.03)


@pytest.mark.slow
def test_no_other_number_of_tasks_finds_much_rarer_strings() -> None:
    tail = zipf(10**5, STRINGS)
    best = best_plan(tail, 1, 4096)
    others = [TextPlan(tail, 1, tasks, 4096).found_from for tasks in (8, 16, 24, 32)]
    assert best.found_from <= 1.03 * min(others)


@pytest.mark.slow
def test_more_epsilon_more_buckets_and_fewer_candidates_find_more() -> None:
    tail = zipf(10**5, STRINGS)
    plain = TextPlan(tail, 1, 12, 1024)
    assert TextPlan(tail, 4, 12, 1024).found_from < plain.found_from
    assert TextPlan(tail, 1, 12, 4096).found_from < plain.found_from
    assert TextPlan(tail, 1, 12, 1024, candidates=1000).found_from < plain.found_from


def test_a_tail_keeps_its_people() -> None:
    counts = np.array([5, 1000, 17, 17, 18, 0], np.float64)
    tail = Tail.of(counts)
    assert tail.people == pytest.approx(1057)
    assert tail.strings.sum() == 5
    assert list(tail.counts) == sorted(tail.counts, reverse=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"candidates": 2**33}, "candidates must be from 1 to 4294967296"),
        ({"tasks": 4}, "tasks must be from 8"),
    ],
)
def test_plans_out_of_range_are_refused(change: dict[str, float], words: str) -> None:
    given = {"tail": zipf(1000, 10), "epsilon": 1, "tasks": 8, "length": 64}
    with pytest.raises(ParameterError, match=words):
        TextPlan(**{**given, **change})  # type: ignore[arg-type] - wrong values are the point
    with pytest.raises(ParameterError, match="counts: at least one string"):
        Tail.of(np.zeros(3))
