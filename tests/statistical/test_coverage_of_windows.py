"""Intervals of a survey's windows hold as often as they say, through the release itself.

The windows are those that the task binds. Both aggregators release shares of made-up sums, sealed
to the collector; it opens them, and its JSON document is read as pages and notebooks read it: each
figure, the change from window to window, and the sum over pairs of windows.

Size: those of some independent releases in which a right interval holds are five standard
deviations fewer than expected with a probability of 10^-5 for counts, of which 160 are looked at,
and of 2 * 10^-3 at most for what takes long (ratios, quantiles), of which 20 or 40 are. Changes are
between windows that no other change has. Seeds are fixed.
Power: intervals of confidence 1/2 fall short of 9/10.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from aggregator.client.table_files.cells import cell_of
from aggregator.collector.documents import result_document
from aggregator.collector.results import Batch, Noised, Quantile, Quantity, compare, total
from aggregator.collector.results.result import collection_request, open_result
from aggregator.dap.messages import CollectionJobResp
from aggregator.dap.profile import Role
from aggregator.dap.times import Interval
from aggregator.protocol.collection import release
from aggregator.protocol.task import Task
from aggregator.steward.survey import Figure, Meaning, SurveyResults
from field import Vector
from tests.support.collector_world import task_asking
from tests.support.entropy import SeededEntropy
from tests.support.tasks import collector_keypair

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

WINDOWS = 160
SLOW = 4
"""One pair of windows of this many is looked at for what takes long."""
PEOPLE = 150
CONFIDENCE, LOWER = Fraction(9, 10), Fraction(1, 2)
SIGMAS = 5
FIRST = datetime(2026, 11, 2, tzinfo=UTC)

QUESTIONS = """
[[question]]
name = "department"
kind = "choice"
labels = ["surgery", "medicine", "eyes"]
[[question]]
name = "wait"
kind = "number"
low = -5
high = 40
unit = "minutes"
[[question]]
name = "satisfaction"
kind = "scale"
high = 4
"""

Key = tuple[str, str]


def collected(task: Task, sums: list[int], number: int, made: random.Random) -> Batch:
    """Release a window's sums at both aggregators; return what the collector reads."""
    meaning = Meaning.of_task(task)
    start = FIRST + number * timedelta(seconds=meaning.windows.seconds)
    first, end = (int(each.timestamp()) for each in meaning.window(start))
    request = collection_request(task, {"start": first, "end": end})
    field = task.prio3.field
    mask = Vector.from_ints(field, [made.randrange(field.modulus) for _ in sums])
    shares = (Vector.from_ints(field, sums) - mask, mask)
    sealed = [
        release(
            task, role, share, request, SeededEntropy(f"{task.task_id} {number} {role}".encode())
        )
        for role, share in zip((Role.LEADER, Role.HELPER), shares, strict=True)
    ]
    unit = task.time_precision
    interval = Interval.of(first // unit, (end - first) // unit)
    response = CollectionJobResp(PEOPLE, interval, *sealed)
    result = open_result(task, collector_keypair(), request, response)
    document = json.loads(json.dumps(result_document(task, result)))
    return Batch.of_document(task, document)


def true_figures(task: Task, sums: list[int]) -> Mapping[Key, Figure]:
    exact = [Noised.exact(each) for each in sums]
    sheet = Meaning.of_task(task).sheet
    return _by_key(sheet.parts[0].figures(sheet.sums(exact, PEOPLE)))


def _by_key(figures: list[Figure]) -> Mapping[Key, Figure]:
    return {(each.shows, each.quantity.label): each for each in figures}


def asking(questions: str, place: int) -> Task:
    """Return the task of a survey of one of some questions."""
    return task_asking("[[question]]" + questions.split("[[question]]")[1 + place], place)


def answers(task: Task, made: random.Random) -> Iterator[list[int]]:
    """Yield what a window's people sum up to, which differs from window to window."""
    meaning = Meaning.of_task(task)
    sheet = meaning.sheet
    circuit, ((question, _),) = sheet.circuit, sheet.asked
    while True:
        cells = [_answer(question.name, made) for _ in range(PEOPLE)]
        read = [sheet.measurement([question.read([cell_of(each)]).answer]) for each in cells]
        yield circuit.truncate(circuit.encode(read)).sum(axis=0).to_ints()


def _answer(question: str, made: random.Random) -> str | int:
    match question:
        case "department":
            return made.choice(["surgery", "surgery", "eyes"])
        case "wait" | "age":
            return made.randint(0, 40)
        case _:
            return made.randint(1, 4)


@pytest.mark.parametrize("place", range(3), ids=["choice", "number", "scale"])
def test_figures_changes_and_sums_of_windows_hold(place: int) -> None:
    task = asking(QUESTIONS, place)
    assert task.policy.window is not None
    made = random.Random(place)  # noqa: S311  made-up answers
    held, narrow, looked = Counter[Key](), Counter[Key](), Counter[Key]()
    windows = answers(task, made)
    sums = [next(windows) for _ in range(4)]  # few different ones, so that tests are fast
    truths = [true_figures(task, each) for each in sums]
    before: Mapping[Key, Figure] = {}
    sheet = Meaning.of_task(task).sheet
    first = sheet.parts[0]
    for number in range(WINDOWS):
        truth = truths[number % len(sums)]
        batch = collected(task, sums[number % len(sums)], number, made)
        found = {
            key: figure
            for key, figure in _by_key(
                first.source.figures(sheet.sums_of_part(first, batch))
            ).items()
            if isinstance(figure.quantity, Noised) or number // 2 % SLOW == 0
        }
        for key, figure in found.items():
            right = truth[key].quantity.estimate
            assert right is not None
            looked[key] += 1
            held[key] += right in figure.quantity.interval(CONFIDENCE)
            if isinstance(figure.quantity, Noised):
                narrow[key] += right in figure.quantity.interval(LOWER)
        if number % 2:
            earlier = truths[(number - 1) % len(sums)]
            for key, figure in found.items():
                _count_pair(held, looked, key, (figure, before[key]), (truth[key], earlier[key]))
        before = found
    for key, of in looked.items():
        least = of * CONFIDENCE - SIGMAS * math.sqrt(of * CONFIDENCE * (1 - CONFIDENCE))
        assert held[key] >= least, (key, of, held[key])
        if key in narrow:
            assert narrow[key] < least, (key, narrow[key])


MISSING = """
[[question]]
name = "wait"
kind = "number"
low = -5
high = 40
variance = true
design = "sum and squares"
[[question]]
name = "age"
kind = "bins"
edges = [0, 10, 15, 20, 25, 30, 35, 40, 50]
"""


@pytest.mark.parametrize("pairs", [24, pytest.param(2000, marks=pytest.mark.bench)])
@pytest.mark.parametrize("place", range(2), ids=["variance", "quantiles"])
def test_changes_across_a_window_that_is_missing_hold_and_name_both(place: int, pairs: int) -> None:
    task = asking(MISSING, place)
    made = random.Random(place)  # noqa: S311  made-up answers
    windows = answers(task, made)
    sums = [next(windows) for _ in range(2)]
    last, first = (true_figures(task, each) for each in sums)
    held = Counter[Key]()
    for number in range(pairs):
        # Of three windows the middle one was never collected.
        batches = [collected(task, sums[1 - end], 3 * number + 2 * end, made) for end in (0, 1)]
        results = SurveyResults([(task, each) for each in batches])
        for new, old in results.changed_rows():
            if new.shows == "share":
                continue  # many, which take long, and are looked at above
            key = new.shows, new.quantity.label
            found = compare(new.named, old.named, CONFIDENCE)
            assert new.window in found.first
            assert old.window in found.second
            rights = [each[key].quantity.estimate for each in (last, first)]
            assert rights[0] is not None
            assert rights[1] is not None
            if isinstance(new.quantity, Quantile):
                # The true one is somewhere in its bin; so the least and the most must be held.
                bins = [_bin(each[key].quantity) for each in (last, first)]
                low, high = bins[0][0] - bins[1][1], bins[0][1] - bins[1][0]
                held[key] += found.interval.low <= low and high <= found.interval.high
            else:
                held[key] += rights[0] - rights[1] in found.interval
    least = pairs * CONFIDENCE - SIGMAS * math.sqrt(pairs * CONFIDENCE * (1 - CONFIDENCE))
    assert {shows for shows, _ in held} >= {("variance", "quantile")[place]}
    assert all(count >= least for count in held.values()), held


def _bin(quantile: Quantity) -> tuple[Fraction, Fraction]:
    """Return the bin that an exact quantile lies in."""
    interval = quantile.interval()
    assert isinstance(interval.low, Fraction)
    assert isinstance(interval.high, Fraction)
    return interval.low, interval.high


def _count_pair(
    held: Counter[Key],
    looked: Counter[Key],
    key: Key,
    found: tuple[Figure, Figure],
    true: tuple[Figure, Figure],
) -> None:
    """Count whether the change between two windows, and their sum, are in their intervals."""
    shows, label = key
    last, first = (each.quantity for each in found)
    rights = [each.quantity.estimate for each in true]
    assert rights[0] is not None
    assert rights[1] is not None
    change, summed = (f"change of {shows}", label), (f"sum of {shows}", label)
    looked[change] += 1
    held[change] += rights[0] - rights[1] in compare(last, first, CONFIDENCE).interval
    if isinstance(last, Noised) and isinstance(first, Noised):
        looked[summed] += 1
        held[summed] += rights[0] + rights[1] in total([last, first]).interval(CONFIDENCE)
