"""Every type of Prio3 by a function of its own, for short tests."""

from aggregator.vdaf.circuits import SumVec
from aggregator.vdaf.experimental import ALGORITHM_ID, HIGHER_DEGREE
from aggregator.vdaf.instances import (
    COUNT,
    HISTOGRAM,
    L1_BOUND_SUM,
    MULTIHOT_COUNT_VEC,
    SUM,
    SUM_VEC,
)
from aggregator.vdaf.prio3 import Prio3
from field import FIELD64, Field


def prio3_count(num_shares: int = 2) -> Prio3:
    return COUNT.prio3({}, num_shares)


def prio3_sum(max_measurement: int, num_shares: int = 2) -> Prio3:
    return SUM.prio3({"max_measurement": max_measurement}, num_shares)


def prio3_sum_vec(
    length: int, max_measurement: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    parameters = {"length": length, "max_measurement": max_measurement}
    return SUM_VEC.prio3(parameters | _given(chunk_length), num_shares)


def prio3_histogram(length: int, chunk_length: int | None = None, num_shares: int = 2) -> Prio3:
    return HISTOGRAM.prio3({"length": length} | _given(chunk_length), num_shares)


def prio3_multihot_count_vec(
    length: int, max_weight: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    parameters = {"length": length, "max_weight": max_weight}
    return MULTIHOT_COUNT_VEC.prio3(parameters | _given(chunk_length), num_shares)


def prio3_l1_bound_sum(
    length: int, max_value: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    parameters = {"length": length, "max_value": max_value}
    return L1_BOUND_SUM.prio3(parameters | _given(chunk_length), num_shares)


def prio3_sum_vec_with_multiproof(
    length: int,
    max_measurement: int,
    chunk_length: int,
    num_shares: int = 2,
    *,
    field: Field = FIELD64,
    num_proofs: int = 3,
) -> Prio3:
    circuit = SumVec(length, max_measurement, chunk_length, field)
    return Prio3(ALGORITHM_ID, circuit, num_shares, num_proofs)


def prio3_higher_degree(num_shares: int = 2) -> Prio3:
    return HIGHER_DEGREE.prio3({}, num_shares)


def _given(chunk_length: int | None) -> dict[str, int]:
    return {} if chunk_length is None else {"chunk_length": chunk_length}
