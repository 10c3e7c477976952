"""Names, code points, configuration bytes and parameters of the types."""

import pytest

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Histogram, SumVec
from aggregator.vdaf.experimental import SUM_VEC_WITH_MULTIPROOF
from aggregator.vdaf.instances import (
    TYPES,
    configuration_bytes,
    prio3_from_configuration,
    vdaf_from_parameters,
)
from aggregator.vdaf.prio3 import Prio3
from field import FIELD64, FIELD128
from tests.support.prio3s import (
    prio3_count,
    prio3_higher_degree,
    prio3_histogram,
    prio3_l1_bound_sum,
    prio3_multihot_count_vec,
    prio3_sum,
    prio3_sum_vec,
    prio3_sum_vec_with_multiproof,
)

CONFIGURATIONS = [
    (1, "", prio3_count()),
    (2, "00000000000000ff", prio3_sum(255)),  # max_measurement
    (
        3,
        "0000000a000000000000ffff00000007",  # length, max_measurement, chunk_length
        prio3_sum_vec(10, 65535, 7),
    ),
    (4, "000000640000000a", prio3_histogram(100, 10)),  # length, chunk_length
    (
        5,
        "0000000a000000030000000000000002",  # length, chunk_length, max_weight
        prio3_multihot_count_vec(10, 2, 3),
    ),
    (
        7,
        "0000000a00000000000000f000000009",  # length, max_value, chunk_length
        prio3_l1_bound_sum(10, 240, 9),
    ),
]


@pytest.mark.parametrize(
    ("vdaf_type", "configuration", "prio3"),
    [pytest.param(*case, id=case[2].circuit.name) for case in CONFIGURATIONS],
)
def test_a_configuration_and_its_prio3_name_each_other(
    vdaf_type: int, configuration: str, prio3: Prio3
) -> None:
    data = bytes.fromhex(configuration)
    assert prio3_from_configuration(vdaf_type, data) == prio3
    assert configuration_bytes(prio3) == data
    assert prio3.algorithm_id == vdaf_type
    for bad in (data + b"\x00", data[:-1] if data else b"\x00\x00"):
        with pytest.raises(ParameterError, match=f"must have {len(data)} bytes, not {len(bad)}"):
            prio3_from_configuration(vdaf_type, bad)


@pytest.mark.parametrize("vdaf_type", [0, 6, 8, 0xFFFFFFFF])
def test_an_unknown_code_point_is_refused(vdaf_type: int) -> None:
    with pytest.raises(ParameterError, match=f"known code point, not 0x{vdaf_type:08x}"):
        prio3_from_configuration(vdaf_type, b"")


def test_the_experimental_types_have_no_configuration() -> None:
    for prio3 in (prio3_higher_degree(), prio3_sum_vec_with_multiproof(1, 1, 1)):
        with pytest.raises(ParameterError, match="has no configuration"):
            configuration_bytes(prio3)


@pytest.mark.parametrize(
    ("type_name", "parameters", "message"),
    [
        ("Prio3Mean", {}, "type must be one of Prio3Count, .*, not 'Prio3Mean'"),
        ("Prio3HigherDegree", {}, "type must be one of Prio3Count, .*, not 'Prio3HigherDegree'"),
        ("Prio3SumVecWithMultiproof", {}, "type must .*, not 'Prio3SumVecWithMultiproof'"),
        ("Prio3Histogram", {}, "Prio3Histogram needs the parameter length"),
        ("Prio3Histogram", {"length": 1, "bits": 3}, "Prio3Histogram has no parameter bits"),
        ("Prio3Histogram", {"length": 0}, "length must be an integer from 1 to 4294967295, not 0"),
        ("Prio3Histogram", {"length": 2**32}, "length must be an integer from 1 to"),
        ("Prio3Histogram", {"length": True}, "length must be an integer .*, not True"),
        ("Prio3Histogram", {"length": 9, "chunk_length": 0}, "chunk_length must be an integer"),
        ("Prio3Histogram", {"length": 9, "chunk_length": 2**32}, "chunk_length must be an integer"),
        ("Prio3Histogram", {"length": 2**32 - 1}, "an input share must have at most 4294967295"),
        ("Prio3Sum", {"max_measurement": 0}, "max_measurement must be an integer from 1 to"),
        ("Prio3Sum", {"max_measurement": 2**64 - 1}, f"from 1 to {2**64 - 2**32}, not"),
        ("Prio3SumVec", {"length": 1, "max_measurement": 2**64}, f"from 1 to {2**64 - 1}, not"),
        ("Prio3SumVec", {"length": 1, "max_measurement": -1}, "max_measurement must be .*, not -1"),
        (
            "Prio3MultihotCountVec",
            {"length": 4, "max_weight": 5},
            "from 1 to 4, not 5",
        ),
        (
            "Prio3MultihotCountVec",
            {"length": 4, "max_weight": 0},
            "from 1 to 4, not 0",
        ),
        ("Prio3L1BoundSum", {"length": 4, "max_value": 0}, "max_value must be an integer from 1"),
    ],
)
def test_a_parameter_out_of_its_range_is_named_with_the_limit(
    type_name: str, parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        vdaf_from_parameters(type_name, parameters)


@pytest.mark.parametrize("num_shares", [0, 1, 256])
def test_there_are_2_to_255_shares(num_shares: int) -> None:
    with pytest.raises(ParameterError, match=f"num_shares must be from 2 to 255, not {num_shares}"):
        prio3_count(num_shares)


def test_a_type_by_name_is_the_one_made_by_its_function() -> None:
    assert vdaf_from_parameters("Prio3Count", {}) == prio3_count()
    given = {"length": 3, "max_measurement": 9, "chunk_length": 2}
    assert vdaf_from_parameters("Prio3SumVec", given) == prio3_sum_vec(3, 9, 2)
    multiproof = prio3_sum_vec_with_multiproof(3, 9, 2)
    assert SUM_VEC_WITH_MULTIPROOF.prio3(given) == multiproof
    assert (multiproof.num_proofs, multiproof.field) == (3, FIELD64)
    assert prio3_sum_vec_with_multiproof(3, 9, 2, field=FIELD128).field == FIELD128
    assert TYPES["Prio3SumVec"].prio3(given).circuit.parameters == given


@pytest.mark.parametrize("length", [*range(1, 60), 100, 255, 256, 257])
def test_the_optimal_chunk_length_has_the_shortest_proof_of_all(length: int) -> None:
    lengths = [Histogram(length, chunk).proof_len for chunk in range(1, length + 1)]
    best = lengths.index(min(lengths)) + 1  # the shortest chunks of equally short proofs
    assert Histogram(length, 1).with_optimal_chunks() == Histogram(length, best)


def test_a_missing_chunk_length_is_the_optimal_one() -> None:
    for prio3 in (
        prio3_histogram(10_000),
        prio3_sum_vec(100, 255),
        prio3_multihot_count_vec(10, 3),
        prio3_l1_bound_sum(10, 240),
    ):
        assert prio3.circuit == prio3.circuit.with_optimal_chunks()
    # 127 calls of 79 residues hold 10,000 of them.
    assert prio3_histogram(10_000).circuit == Histogram(10_000, 79)
    assert SumVec(2, 7, 1, FIELD64).with_optimal_chunks() == SumVec(2, 7, 2, FIELD64)
    assert Histogram(6, 1).with_optimal_chunks() == Histogram(6, 2)


def test_sizes_are_those_of_the_draft() -> None:
    # Measured on the reference implementation: leader's and helper's input share, verifier share.
    for prio3, leader, helper, verifier in (
        (prio3_count(), 48, 32, 32),
        (prio3_sum(255), 320, 32, 24),
        (prio3_histogram(100, 10), 2448, 64, 384),
        (prio3_sum_vec(1000, 255, 89), 134960, 64, 2912),
        (prio3_multihot_count_vec(100, 10, 10), 2512, 64, 384),
    ):
        sizes = (prio3.input_share_size(0), prio3.input_share_size(1), prio3.verifier_share_size)
        assert sizes == (leader, helper, verifier)
