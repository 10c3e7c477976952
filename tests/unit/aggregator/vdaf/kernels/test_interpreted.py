"""Kernels run as plain Python: any number of lanes, either layout, any processor, every index.

Interpreted kernels are compared with `query_shares`, the definition. Another test compares compiled
kernels with them, for each width that this processor has.
"""

import inspect
import textwrap

import pytest

from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    Measurement,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.kernels.chunks import plan
from aggregator.vdaf.kernels.shares import ScratchOf
from aggregator.vdaf.prio3 import Prio3
from field.lanes import LaneWidth, Limbs26, Limbs52, row_ends
from tests.support.kernel_runs import agree, all_values, by_kernel, shares_of
from tests.support.lane_widths import COMPILED, INTERPRETED

SMALL: list[tuple[Circuit, Measurement]] = [
    (Count(), 1),
    (Sum(1), 1),
    (Sum(5), 4),
    (Histogram(1, 1), 0),
    (Histogram(7, 3), 6),
    (SumVec(2, 5, 4), [5, 2]),
    (MultihotCountVec(4, 3, 3), [1, 1, 1, 0]),
    (L1BoundSum(3, 3, 4), [1, 0, 2]),
]
LARGE: tuple[Circuit, Measurement] = (SumVec(1, 2**28 + 1, 9), [2**27])
"""Each circuit that has kernels, and each way in which their kernels branch on it."""


@pytest.mark.parametrize("width", INTERPRETED)
@pytest.mark.parametrize(
    ("circuit", "measurement"),
    [*SMALL, pytest.param(*LARGE, marks=pytest.mark.slow)],
    ids=str,
)
def test_an_interpreted_kernel_computes_what_the_definition_says_for_both_roles(
    circuit: Circuit, measurement: Measurement, width: LaneWidth
) -> None:
    assert agree(Prio3(4, circuit), [measurement] * 2, width)


@pytest.mark.parametrize("width", COMPILED)
@pytest.mark.parametrize(("circuit", "measurement"), [*SMALL, LARGE], ids=str)
def test_a_compiled_kernel_computes_what_the_interpreted_one_does(
    circuit: Circuit, measurement: Measurement, width: LaneWidth
) -> None:
    interpreted = LaneWidth(width.lanes, width.has_multiply_add, is_interpreted=True)
    prio3 = Prio3(4, circuit)
    for agg_id in range(2):
        shares = shares_of(prio3, [measurement] * 9, agg_id)
        compiled = all_values(by_kernel(prio3, shares, width))
        assert compiled == all_values(by_kernel(prio3, shares, interpreted))


@pytest.mark.parametrize("is_long", [False, True], ids=["32 bits", "52 bits"])
def test_a_row_beyond_a_scratch_array_is_an_error_and_not_the_next_array(
    monkeypatch: pytest.MonkeyPatch, *, is_long: bool
) -> None:
    def too_small(rows: ScratchOf[int], lanes: int) -> ScratchOf[int]:
        return row_ends(rows._replace(odd_start=0), lanes)

    monkeypatch.setattr(plan, "row_ends", too_small)
    monkeypatch.setattr(plan, "scratch_ends", plan.scratch_ends.__wrapped__)
    with pytest.raises(IndexError, match="element 1 of an array of 1"):
        agree(Prio3(4, Histogram(7, 3)), [1], LaneWidth(1, is_long, is_interpreted=True))


FAULTS: list[tuple[object, str, str, str]] = [
    (Limbs26, "reduced", "q << 24", "q << 23"),
    (Limbs26, "reduced", "28 << 12", "28 << 11"),
    (Limbs26, "reduced", "c[i + 2] + q", "c[i + 3] + q"),
    (Limbs26, "plus_folded", "x[0] - h", "x[0] + h"),
    (Limbs52, "_divided", "q = ~c[i]", "q = c[i]"),
    (Limbs52, "_divided", "plus_high_product(q, p2)", "plus_low_product(q, p2)"),
    (Limbs52, "reduced", "[x0 - h", "[x0 + h"),
    (Limbs52, "unmasked_product", "x0 - h", "x0 + h"),
]
"""A method of a layout, and a fault in it: the right code and the wrong."""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(("layout", "method", "right", "wrong"), FAULTS)
def test_a_wrong_step_of_a_montgomery_reduction_is_found_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, layout: type, method: str, right: str, wrong: str, lanes: int
) -> None:
    source = textwrap.dedent(inspect.getsource(getattr(layout, method)))
    assert source.count(right) == 1
    names = dict(vars(inspect.getmodule(layout)))
    exec(source.replace(right, wrong), names)  # noqa: S102  our own source, with a fault in it
    width = LaneWidth(lanes, layout is Limbs52, is_interpreted=True)
    assert agree(Prio3(4, Histogram(7, 3)), [1, 6], width)
    monkeypatch.setattr(layout, method, names[method])
    assert not agree(Prio3(4, Histogram(7, 3)), [1, 6], width)
