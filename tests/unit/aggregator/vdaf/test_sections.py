"""Prio3Sections: what it accepts, what it refuses, and how it is written."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import MeasurementError, Sections
from aggregator.vdaf.circuits.section_lists import (
    MAX_RESIDUES,
    bytes_of_sections,
    sections_of_bytes,
)
from aggregator.vdaf.instances import (
    SECTIONS,
    configuration_bytes,
    prio3_from_configuration,
    vdaf_from_parameters,
)
from aggregator.vdaf.kernels import dispatch
from field import Vector
from tests.support.prio3_batches import (
    CTX,
    Batch,
    Outcome,
    make_batch,
    oracle_of,
    random_bytes,
    result,
    seeded,
    take_path,
    verify,
)
from tests.support.residues import rows_to_ints
from tests.support.small_field import contributions
from tests.support.vdaf_vectors import ALL_SECTIONS, ANSWERS, SECTION_LIES

SMALL = (
    "onehot:2",
    "onehot:4",
    "atmost:3,1",
    "atmost:3,2",
    "atmost:3,3",
    "number:1",
    "number:5",
    "bygroup:1,3",
    "bygroup:2,2",
    "onehot:2 atmost:2,1",
    "onehot:2 number:2 given:0,1,3",
    "onehot:2 given:0,2,2",
    "onehot:3 given:0,2,1",
    "onehot:2 onehot:2 table:0,1",
)
LONGER = ("onehot:2 given:0,2,2", "onehot:2 onehot:2 table:0,1")


def valid_encodings(circuit: Sections) -> Vector:
    """All vectors of bits for which the linear checks hold: with bits the range check does."""
    bits = np.array([*itertools.product((0, 1), repeat=circuit.meas_len)], np.uint64)
    meas = Vector.from_array(circuit.field, bits)
    # The gadget's outputs add up to 0 for bits, whatever the joint randomness.
    outputs = circuit.evaluate(Vector.zeros(circuit.field, (len(bits), circuit.num_calls)), meas, 1)
    is_valid = [not any(row) for row in rows_to_ints(outputs)]
    return Vector.from_array(circuit.field, bits[is_valid])


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=[pytest.mark.slow] if text in LONGER else []) for text in SMALL],
)
def test_the_bits_that_are_accepted_are_the_measurements_and_nothing_else(text: str) -> None:
    circuit = Sections(text, 2)
    accepted = {*map(tuple, rows_to_ints(circuit.truncate(valid_encodings(circuit))))}
    assert accepted == {*contributions(circuit)}


@pytest.mark.parametrize("lie", SECTION_LIES.values(), ids=SECTION_LIES)
def test_a_client_that_lies_in_one_section_is_rejected(lie: Sequence[int]) -> None:
    circuit = Sections(ALL_SECTIONS, 8)
    meas = Vector.from_ints(circuit.field, [x % circuit.field.modulus for x in lie])[None]
    joint_rands = Vector.from_ints(circuit.field, range(3, 3 + circuit.joint_rand_len))[None]
    inputs = circuit.gadget_inputs(meas, joint_rands, 1)
    [outputs] = rows_to_ints(circuit.evaluate(circuit.gadget.evaluate(inputs), meas, 1))
    assert any(outputs)


def assert_alike(found: Outcome, expected: Outcome, reports: int) -> None:
    assert found.rejected == expected.rejected
    for report in range(reports):
        # Verifier shares and seeds of all aggregators, bit for bit.
        assert found.values(report)[:2] == expected.values(report)[:2]


def test_lies_among_honest_reports_are_rejected_and_no_others_on_either_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prio3 = vdaf_from_parameters("Prio3Sections", {"sections": ALL_SECTIONS})
    oracle, source = oracle_of(prio3), seeded(5)
    truth = oracle.circuit.encode(ANSWERS)
    encoded = [truth, *SECTION_LIES.values(), truth, truth]
    random.Random(7).shuffle(encoded)  # noqa: S311  tests are to be repeatable
    nonces = random_bytes(source, prio3.nonce_size, len(encoded))
    rands = random_bytes(source, prio3.rand_size, len(encoded))
    sent = [
        oracle.shard_encoded(CTX, [x % oracle.circuit.p for x in meas], nonce, rand)
        for meas, nonce, rand in zip(encoded, nonces, rands, strict=True)
    ]
    shares = [[report[1][agg_id] for report in sent] for agg_id in range(2)]
    batch = Batch(nonces, [report[0] for report in sent], shares)
    found = verify(prio3, batch)
    assert dispatch.is_fused(prio3)
    assert found.rejected == [at for at, meas in enumerate(encoded) if meas != truth]
    assert result(prio3, found, 3) == [3 * each for each in ANSWERS]
    take_path("general", monkeypatch)
    expected = verify(prio3, batch)
    assert_alike(found, expected, len(encoded))


@pytest.mark.slow
def test_more_checks_than_are_summed_at_once_give_what_the_circuit_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prio3 = vdaf_from_parameters("Prio3Sections", {"sections": " ".join(["onehot:2"] * 530)})
    batch = make_batch(prio3, [[0, 1] * 530, [1, 0] * 530, [1, 0, 0, 1] * 265])
    batch.input_shares[0][1] = batch.input_shares[0][0]
    found = verify(prio3, batch)
    assert found.rejected == [1]
    take_path("general", monkeypatch)
    expected = verify(prio3, batch)
    assert_alike(found, expected, 3)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, 1, r"in section 0, onehot:4, exactly one entry must be 1: \[1, 1, 0, 0\]"),
        (2, 2, "entry 2 of section 0, onehot:4 must be from 0 to 1, not 2"),
        (4, 1, "in section 1, atmost:4,2, at most 2 entries must be 1"),
        (8, 200, "entry 8 must be from 0 to 100, not 200"),
        (9, 10, "entry 0 of section 3, bygroup:3,9 must be from 0 to 9, not 10"),
        (9, 1, "in section 3, bygroup:3,9, the entries must add up to at most 9"),
        (13, 5, "in section 4, given:0,2,100, an entry must be 0 unless that of section 0 is 1"),
        (16, 1, "in section 6, table:0,5, each entry must be the product of those of sections 0"),
        (8, -1, "entry 8 must be from 0 to 100, not -1"),
    ],
)
def test_a_measurement_that_is_none_is_refused_with_its_section_and_limit(
    place: int, value: int, message: str
) -> None:
    wrong = [value if at == place else each for at, each in enumerate(ANSWERS)]
    with pytest.raises(MeasurementError, match=f"measurement 1: {message}"):
        Sections(ALL_SECTIONS, 8).encode([ANSWERS, wrong])


def test_numbers_of_up_to_eight_bytes_are_encoded_and_their_sums_do_not_wrap() -> None:
    largest = 2**64 - 1
    circuit = Sections(f"number:{largest} bygroup:3,{largest} onehot:2 given:2,2,{largest}", 8)
    rows = [[largest, largest - 2, 1, 1, 0, 1, 0, largest], [0, 0, 0, largest, 1, 0, 2**63, 0]]
    assert rows_to_ints(circuit.truncate(circuit.encode(rows))) == rows
    with pytest.raises(MeasurementError, match="must add up to at most"):
        circuit.encode([[0, largest, largest, 2, 1, 0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there must be 1 to 3854, not 0"),
        ("onehot:2 " * 3855, "there must be 1 to 3854, not 3855"),
        ("onehot", "section 0, 'onehot': '' must be a whole number in digits"),
        ("onehot:-1", "'-1' must be a whole number"),
        ("onehot:05", "'05' must be a whole number"),
        ("onehot:٣", "must be a whole number"),
        ("onehot:1", "the number of entries must be at least 2"),
        ("onehot:65536", "the number of entries must be an integer from 1 to 65535, not 65536"),
        ("onehot:2,3", "its numbers must be entries, not 2 numbers"),
        ("onehut:2", "the kind must be one of onehot, .*; did you mean onehot?"),
        ("atmost:3,4", "the most ones must be an integer from 1 to 3, not 4"),
        ("atmost:3,0", "from 1 to"),
        ("number:0", "the largest number must be an integer from 1 to"),
        (f"number:{2**64}", f"from 1 to {2**64 - 1}"),
        ("given:0,1,5", "must refer to an earlier onehot section, not to 0"),
        ("number:4 given:0,1,5", "must refer to an earlier onehot section, not to 0"),
        ("onehot:2 given:0,3,5", "the number of entries must be an integer from 1 to 2, not 3"),
        ("onehot:2 onehot:2 table:0,0", "must be of two different sections"),
        ("onehot:2 onehot:2 table:0,2", "section 2, .* an earlier onehot section, not to 2"),
        ("onehot:60000 " * 5, f"at most {MAX_RESIDUES} residues, and sections 0 to 4 have 300000"),
        (7, "sections must be text, not 7"),
    ],
)
def test_sections_that_are_none_are_refused_with_their_number_and_limit(
    text: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        vdaf_from_parameters("Prio3Sections", {"sections": text})


def test_a_task_of_sections_and_its_configuration_name_each_other() -> None:
    prio3 = vdaf_from_parameters(
        "Prio3Sections", {"sections": " onehot:5  atmost:7,3 given:0,4,100", "chunk_length": 7}
    )
    rows = (
        "01 00000005 0000000000000001 0000 0000"
        "02 00000007 0000000000000003 0000 0000"
        "05 00000004 0000000000000064 0000 0000"
    )
    configuration = bytes.fromhex(f"00000007 0003 {rows}")
    assert configuration_bytes(prio3) == configuration
    assert prio3_from_configuration(SECTIONS.algorithm_id, configuration) == prio3
    assert prio3.circuit.parameters["sections"] == "onehot:5 atmost:7,3 given:0,4,100"
    for size in range(len(configuration)):
        with pytest.raises(ParameterError):
            prio3_from_configuration(SECTIONS.algorithm_id, configuration[:size])


def test_a_configuration_with_another_bit_is_refused_or_has_other_sections() -> None:
    text = "onehot:4 atmost:4,2 number:100 bygroup:3,9 given:0,2,100 onehot:2 table:0,5"
    data = bytes_of_sections(text)
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            found = sections_of_bytes(bytes(changed))
        except ParameterError:
            continue
        assert found != text
        assert bytes_of_sections(found) == changed


def test_one_section_alone_has_the_encoding_of_the_drafts_type() -> None:
    for name, parameters, text, measurement, own in (
        ("Histogram", {"length": 5}, "onehot:5", 3, [0, 0, 0, 1, 0]),
        ("MultihotCountVec", {"length": 4, "max_weight": 2}, "atmost:4,2", [1, 0, 0, 1], None),
        ("L1BoundSum", {"length": 3, "max_value": 9}, "bygroup:3,9", [2, 0, 7], None),
    ):
        standard = vdaf_from_parameters(f"Prio3{name}", {**parameters, "chunk_length": 3}).circuit
        sections = Sections(text, 3)
        [expected] = rows_to_ints(standard.encode([measurement]))
        assert rows_to_ints(sections.encode([own or measurement])) == [expected]
        assert sections.proof_len == standard.proof_len
