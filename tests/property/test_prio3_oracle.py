"""The batched Prio3 against the slow one, on circuits for which there is no published vector."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.prio3 import Prio3, VerifyError
from field import FIELD64, FIELD128, encode
from tests.support.prio3_batches import (
    CTX,
    PATHS,
    VERIFY_KEY,
    Batch,
    oracle_of,
    random_bytes,
    seeded,
    take_path,
    verify,
)
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
from tests.support.residues import to_int
from tests.support.vdaf_oracle import Ints, Rejected


def agree(prio3: Prio3, measurements: list[Measurement], seed: int) -> None:
    """Check that both implementations give the same bytes at every step, for valid measurements."""
    source = seeded(seed)
    oracle = oracle_of(prio3)
    nonces = random_bytes(source, 16, len(measurements))
    rands = random_bytes(source, prio3.rand_size, len(measurements))
    shards = prio3.shard(CTX, measurements, nonces, rands)
    for index, measurement in enumerate(measurements):
        public_share, input_shares = oracle.shard(CTX, measurement, nonces[index], rands[index])
        assert shards.public_shares[index] == public_share
        assert [shares[index] for shares in shards.input_shares] == input_shares
    agree_on_verification(prio3, Batch(nonces, shards.public_shares, shards.input_shares))


def agree_on_verification(prio3: Prio3, batch: Batch) -> list[bool]:
    """Check that both implementations verify alike; return which reports they accept."""
    oracle = oracle_of(prio3)
    outcome = verify(prio3, batch)
    accepted = []
    for index, nonce in enumerate(batch.nonces):
        verifier_shares, seeds, out_shares = [], [], []
        for agg_id in range(prio3.num_shares):
            out_share, seed, verifier_share = oracle.verify_init(
                VERIFY_KEY,
                CTX,
                agg_id,
                nonce,
                batch.public_shares[index],
                batch.input_shares[agg_id][index],
            )
            assert outcome.verifier_share(agg_id, index) == verifier_share
            verifier_shares.append(verifier_share)
            seeds.append(seed)
            out_shares.append(out_share)
        try:
            message = oracle.verifier_shares_to_message(CTX, verifier_shares)
        except Rejected:
            assert isinstance(outcome.messages[index], VerifyError)
            accepted.append(False)
            continue
        assert outcome.messages[index] == message
        for agg_id, result in enumerate(outcome.out_shares):
            if seeds[agg_id] == message:
                assert result.shares[index].to_ints() == out_shares[agg_id]
                assert result.errors[index] is None
            else:
                assert isinstance(result.errors[index], VerifyError)
        accepted.append(all(seed == message for seed in seeds))
    return accepted


VECTOR_SIZES = ((1, 1), (1, 6), (2, 5), (3, 4))
"""Lengths and largest entries for which every chunk length is tried, too long ones also."""

SMALL_CIRCUITS: dict[str, list[Prio3]] = {
    "histogram": [
        prio3_histogram(length, chunk_length)
        for length in range(1, 8)
        for chunk_length in range(1, length + 3)
    ],
    "sum_vec": [
        prio3_sum_vec(length, largest, chunk_length)
        for length, largest in VECTOR_SIZES
        for chunk_length in range(1, length * largest.bit_length() + 2)
    ],
    "l1_bound_sum": [
        prio3_l1_bound_sum(length, largest, chunk_length)
        for length, largest in VECTOR_SIZES
        for chunk_length in range(1, (length + 1) * largest.bit_length() + 2)
    ],
    "multihot_count_vec": [
        prio3_multihot_count_vec(length, max_weight, chunk_length)
        for length in range(1, 5)
        for max_weight in range(1, length + 1)
        for chunk_length in range(1, length + max_weight.bit_length() + 2)
    ],
    "sum": [
        prio3_sum(largest)
        for largest in (1, 2, 3, 4, 7, 8, 9, 100, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 2**32)
    ],
    "count": [prio3_count(), prio3_count(3)],
    "higher_degree": [prio3_higher_degree(), prio3_higher_degree(3)],
}


def some_measurements(prio3: Prio3, source: random.Random, count: int) -> list[Measurement]:
    """Valid measurements of a type, extremes first."""
    circuit = prio3.circuit
    parameters = circuit.parameters
    if circuit.name == "Histogram":
        ends = [0, parameters["length"] - 1]
        return [*ends, *(source.randrange(parameters["length"]) for _ in range(count))][:count]
    if circuit.is_scalar:
        largest = parameters.get("max_measurement", 1 if circuit.name == "Count" else 2)
        return [0, largest, *(source.randint(0, largest) for _ in range(count))][:count]
    length = parameters["length"]
    if circuit.name == "SumVec":
        largest = parameters["max_measurement"]
        vectors = [[source.randint(0, largest) for _ in range(length)] for _ in range(count)]
        return [[largest] * length, [0] * length, *vectors][:count]
    total = parameters.get("max_value", parameters.get("max_weight", 0))
    vectors = [[0] * length for _ in range(count)]
    for vector in vectors[1:]:
        for _ in range(source.randint(0, total)):
            place = source.randrange(length)
            vector[place] = 1 if circuit.name == "MultihotCountVec" else vector[place] + 1
            if sum(vector) == total:
                break
    return [list(vector) for vector in vectors]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", SMALL_CIRCUITS)
def test_every_small_circuit_agrees_with_the_oracle(
    kind: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_path(path, monkeypatch)
    source = seeded(kind)
    for prio3 in SMALL_CIRCUITS[kind]:
        agree(prio3, some_measurements(prio3, source, 3), source.randrange(2**32))


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    length=st.integers(1, 300),
    chunks=st.integers(1, 40),
    num_shares=st.integers(2, 4),
    seed=st.integers(0, 2**32),
)
def test_random_histograms_agree_with_the_oracle(
    length: int, chunks: int, num_shares: int, seed: int
) -> None:
    prio3 = prio3_histogram(length, -(-length // chunks), num_shares)
    agree(prio3, some_measurements(prio3, seeded(seed), 2), seed)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    length=st.integers(1, 40),
    largest=st.integers(1, 2**20),
    chunks=st.integers(1, 20),
    num_shares=st.integers(2, 5),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([prio3_sum_vec, prio3_l1_bound_sum]),
)
def test_random_vectors_agree_with_the_oracle(
    length: int, largest: int, chunks: int, num_shares: int, seed: int, kind: object
) -> None:
    chunk_length = -(-length * largest.bit_length() // chunks)
    make = prio3_sum_vec if kind is prio3_sum_vec else prio3_l1_bound_sum
    prio3 = make(length, largest, chunk_length, num_shares)
    measurements: list[Measurement] = [[0] * length, [largest] + [0] * (length - 1)]
    agree(prio3, measurements, seed)


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize("num_proofs", [1, 2, 3])
def test_many_proofs_agree_with_the_oracle(field: object, num_proofs: int) -> None:
    prio3 = prio3_sum_vec_with_multiproof(
        5, 9, 3, 3, field=FIELD64 if field is FIELD64 else FIELD128, num_proofs=num_proofs
    )
    agree(prio3, [[0, 1, 8, 9, 3], [9] * 5], num_proofs)


def test_255_shares_agree_with_the_oracle() -> None:
    agree(prio3_histogram(3, 2, 255), [1], 7)
    agree(prio3_count(255), [1], 7)


FALSE_STATEMENTS: list[tuple[Prio3, Ints]] = [
    (prio3_count(), [2]),
    (prio3_higher_degree(), [3]),
    (prio3_sum(9), [1, 0, 2, 0]),
    (prio3_histogram(5, 2), [0, 1, 0, 0, 1]),
    (prio3_histogram(5, 2), [0, 0, 0, 0, 0]),
    (prio3_histogram(5, 2), [0, 2, 0, 0, -1]),
    (prio3_sum_vec(2, 5, 2), [1, 0, 1, 0, -1, 0]),
    (prio3_multihot_count_vec(4, 2, 3), [1, 1, 1, 0, 1, 1]),
    (prio3_multihot_count_vec(4, 2, 3), [1, 1, 1, 0, 0, 3]),
    (prio3_l1_bound_sum(2, 3, 2), [1, 1, 1, 0, 1, 1]),
    (prio3_l1_bound_sum(2, 3, 2), [1, 1, 1, 0, 0, 4]),
    (prio3_sum_vec_with_multiproof(2, 3, 2), [2, 0, 0, 0]),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("prio3", "meas"),
    [pytest.param(p, m, id=f"{p.circuit.name} {m}") for p, m in FALSE_STATEMENTS],
)
def test_a_false_statement_is_rejected_by_both(
    prio3: Prio3, meas: Ints, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_path(path, monkeypatch)
    source = seeded(3)
    oracle = oracle_of(prio3)
    nonces, rands = random_bytes(source, 16, 2), random_bytes(source, prio3.rand_size, 2)
    batch = Batch(nonces, [], [[] for _ in range(prio3.num_shares)])
    for nonce, rand in zip(nonces, rands, strict=True):
        residues = [m % prio3.field.modulus for m in meas]
        public_share, input_shares = oracle.shard_encoded(CTX, residues, nonce, rand)
        batch.public_shares.append(public_share)
        for agg_id, share in enumerate(input_shares):
            batch.input_shares[agg_id].append(share)
    assert agree_on_verification(prio3, batch) == [False, False]


def test_the_oracle_and_the_product_encode_every_measurement_alike() -> None:
    for largest in range(1, 70):
        prio3 = prio3_sum(largest)
        oracle = oracle_of(prio3)
        encoded = prio3.circuit.encode(list(range(largest + 1)))
        for value in range(largest + 1):
            assert encoded[value].to_ints() == oracle.circuit.encode(value)
            assert to_int(prio3.circuit.truncate(encoded[value : value + 1])) == value
            assert encode(encoded[value]) == oracle.encode_vector(oracle.circuit.encode(value))
