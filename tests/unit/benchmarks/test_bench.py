"""What `prio bench` prints, on batches too small to say anything about speed."""

import json

import pytest
from typer.testing import CliRunner

from aggregator.errors import ParameterError
from aggregator.vdaf.instances import COUNT, HISTOGRAM, MULTIHOT_COUNT_VEC, SUM_VEC, VdafType
from benchmarks.circuits import CTX, case
from benchmarks.cli import app
from benchmarks.timing import median_seconds
from benchmarks.vdaf import time_steps, working_bytes
from benchmarks.xof import XofPass, passes


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "verify --circuit histogram --length 12 --chunk-length 3 --reports 20 --rounds 2",
        "verify --circuit count --reports 9 --rounds 1 --role helper",
        "shard --circuit count --reports 9 --rounds 1",
        "survey --reports 5 --rounds 1",
        "report --reports 30 --rounds 3",
        "first --circuit sum --max-measurement 6 --role leader",
        "noise --scale 7/3 --count 500 --rounds 1",
        "field --length 256 --rounds 1",
    ],
)
def test_a_benchmark_prints_numbers_and_none_is_nothing(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    rows = found if isinstance(found, list) else [found]
    numbers = [each for row in rows for each in row.values() if isinstance(each, int | float)]
    assert numbers
    assert min(numbers) > 0


def test_a_length_of_zero_is_refused() -> None:
    with pytest.raises(
        ParameterError, match="length must be an integer from 1 to 4294967295, not 0"
    ):
        case(MULTIHOT_COUNT_VEC, length=0)


def test_a_helper_of_count_hashes_three_streams_of_one_block_and_a_leader_one() -> None:
    # 11 bytes of tag and version, the tag's length, the seed's length, the seed; then the binder.
    count = case(COUNT).prio3
    head = 2 + (8 + len(CTX)) + 1 + 32

    assert passes(count, CTX, 0) == [XofPass(head + 1 + 16, 8)]
    # A share of one residue; seeds of two wires, and a polynomial of degree two.
    assert passes(count, CTX, 1)[1:] == [XofPass(head + 1, 8), XofPass(head + 2, 8 * (2 + 3))]
    assert [each.permutations for each in passes(count, CTX, 1)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("message", "stream", "expected"), [(167, 168, 1), (168, 168, 2), (167, 169, 2), (335, 336, 3)]
)
def test_a_permutation_is_needed_for_each_block_in_and_each_further_block_out(
    message: int, stream: int, expected: int
) -> None:
    assert XofPass(message, stream).permutations == expected


def test_works_take_turns() -> None:
    done: list[str] = []

    median_seconds({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, rounds=2)

    assert "".join(done) == "ababab"


@pytest.mark.bench
@pytest.mark.parametrize(("length", "chunk_length"), [(100, 10), (1000, 32)])
def test_steps_after_the_first_cost_less_than_a_third_of_it(length: int, chunk_length: int) -> None:
    # docs/benchmarks.md has a seventh to an eighth; the room is for a busy machine.
    made = case(HISTOGRAM, length=length, chunk_length=chunk_length)
    times = time_steps(made, 1000, rounds=9)
    assert times.rest <= times.helper / 3


@pytest.mark.bench
def test_memory_does_not_grow_with_the_batch() -> None:
    made = case(HISTOGRAM, length=100, chunk_length=10)
    for agg_id in (0, 1):
        assert working_bytes(made, agg_id, 5000) <= 64 * 2**20


@pytest.mark.bench
@pytest.mark.parametrize("vdaf_type", [HISTOGRAM, SUM_VEC], ids=str)
def test_a_kernel_is_several_times_as_fast_as_the_general_path(vdaf_type: VdafType) -> None:
    times = time_steps(case(vdaf_type), 1000, rounds=5)
    assert times.general >= 4 * times.helper
