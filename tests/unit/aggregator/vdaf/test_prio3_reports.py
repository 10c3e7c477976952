"""Batches of reports: each has its own outcome, whatever its neighbours are."""

import itertools
import tracemalloc

import numpy as np
import pytest

from aggregator.errors import ParameterError, ReportRejected
from aggregator.vdaf import sharding, verification
from aggregator.vdaf.circuits import MeasurementError
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.outcomes import NO_ENCODING
from aggregator.vdaf.prio3 import Prio3, ShareDecodeError, VerifierMessages, VerifyError
from field import FIELD64, FIELD128, Vector, encode_rows
from tests.support.prio3_batches import (
    CTX,
    VERIFY_KEY,
    Batch,
    make_batch,
    result,
    rows_of,
    seeded,
    take_path,
    verify,
)
from tests.support.prio3s import (
    prio3_count,
    prio3_histogram,
    prio3_l1_bound_sum,
    prio3_multihot_count_vec,
    prio3_sum,
    prio3_sum_vec,
)
from tests.support.residues import rows_to_ints

HISTOGRAM = prio3_histogram(7, 3)
SUM = prio3_sum(100)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.slow
def test_one_cheater_among_1000_is_rejected_and_changes_no_other_report() -> None:
    measurements = [index % 7 for index in range(1000)]
    batch = make_batch(HISTOGRAM, measurements)
    batch.input_shares[0][77] = flipped(batch.input_shares[0][77], 5)
    outcome = verify(HISTOGRAM, batch)
    assert outcome.rejected == [77]
    for index in set(range(1000)) - {77}:
        assert verify(HISTOGRAM, batch.only(index)).values(0) == outcome.values(index)
    del measurements[77]
    assert result(HISTOGRAM, outcome, 999) == [measurements.count(bucket) for bucket in range(7)]


@pytest.mark.parametrize("prio3", [HISTOGRAM, SUM], ids=["histogram", "sum"])
def test_any_flipped_bit_of_any_share_rejects_the_report(prio3: Prio3) -> None:
    batch = make_batch(prio3, [3])
    source = seeded(1)
    places: list[tuple[str, int]] = [
        ("public", bit) for bit in range(0, 8 * len(batch.public_shares[0]), 7)
    ]
    for agg_id, shares in enumerate(batch.input_shares):
        size = 8 * len(shares[0])
        places += [(str(agg_id), bit) for bit in source.sample(range(size), min(size, 200))]
    spoilt = Batch([], [], [[] for _ in batch.input_shares])
    for place, bit in places:
        spoilt.nonces.append(batch.nonces[0])
        public_share = batch.public_shares[0]
        spoilt.public_shares.append(
            flipped(public_share, bit) if place == "public" else public_share
        )
        for agg_id, shares in enumerate(batch.input_shares):
            share = shares[0]
            spoilt.input_shares[agg_id].append(
                flipped(share, bit) if place == str(agg_id) else share
            )
    assert verify(prio3, spoilt).rejected == list(range(len(places)))


def test_a_flipped_bit_of_a_verifier_share_or_message_rejects_the_report() -> None:
    batch = make_batch(HISTOGRAM, [3])
    outcome = verify(HISTOGRAM, batch)
    assert outcome.rejected == []
    leader, helper = (outcome.verifier_share(agg_id, 0) for agg_id in range(2))
    for bit in range(0, 8 * len(leader), 11):
        messages = HISTOGRAM.verifier_shares_to_message(
            CTX, [rows_of(flipped(leader, bit)), rows_of(helper)]
        )
        state = outcome.inits[1].state
        assert HISTOGRAM.verify_next(state, messages).errors != [None]
    message = outcome.messages[0]
    assert isinstance(message, bytes)
    for bit in range(256):
        messages = VerifierMessages(rows_of(flipped(message, bit)), {})
        [error] = HISTOGRAM.verify_next(outcome.inits[0].state, messages).errors
        assert isinstance(error, VerifyError)


@pytest.mark.parametrize("change", [b"", b"\x00", None], ids=["empty", "longer", "shorter"])
@pytest.mark.parametrize("which", ["public", "leader", "helper"])
def test_a_share_of_the_wrong_size_is_its_reports_error_only(
    which: str, change: bytes | None
) -> None:
    batch = make_batch(HISTOGRAM, [0, 1, 2])
    good = verify(HISTOGRAM, batch)
    strings = {
        "public": batch.public_shares,
        "leader": batch.input_shares[0],
        "helper": batch.input_shares[1],
    }[which]
    strings[1] = strings[1][:-1] if change is None else (change and strings[1] + change)
    outcome = verify(HISTOGRAM, batch)
    assert outcome.rejected == [1]
    assert [outcome.values(index) for index in (0, 2)] == [good.values(index) for index in (0, 2)]
    agg_id = 1 if which == "helper" else 0
    assert isinstance(outcome.inits[agg_id].state.errors[1], ShareDecodeError)
    assert set(outcome.verifier_share(agg_id, 1)) == {NO_ENCODING}
    assert outcome.out_shares[agg_id].shares[1] == HISTOGRAM.agg_init()


@pytest.mark.parametrize("prio3", [HISTOGRAM, SUM], ids=["Field128", "Field64"])
def test_a_number_that_is_not_a_residue_is_its_reports_error_only(prio3: Prio3) -> None:
    batch = make_batch(prio3, [0, 1, 2])
    good = verify(prio3, batch)
    size = prio3.field.encoded_size
    share = batch.input_shares[0][1]
    for number in (prio3.field.modulus, 2 ** (8 * size) - 1):
        for place in (
            0,
            prio3.meas_share_size,
            prio3.meas_share_size + prio3.proofs_share_size - size,
        ):
            spoilt = share[:place] + number.to_bytes(size, "little") + share[place + size :]
            batch.input_shares[0][1] = spoilt
            outcome = verify(prio3, batch)
            assert isinstance(outcome.inits[0].state.errors[1], ShareDecodeError)
            assert outcome.rejected == [1]
            assert outcome.values(2) == good.values(2)


def test_a_verifier_share_that_does_not_decode_is_its_reports_error_only() -> None:
    outcome = verify(HISTOGRAM, make_batch(HISTOGRAM, [0, 1]))
    leader, helper = (init.verifier_share_rows.copy() for init in outcome.inits)
    leader[0, :16] = rows_of(HISTOGRAM.field.modulus.to_bytes(16, "little"))
    messages = HISTOGRAM.verifier_shares_to_message(CTX, [leader, helper])
    assert [type(error) for error in messages.errors] == [VerifyError, type(None)]
    assert messages.rows[1].tobytes() == outcome.messages[1]


def test_another_key_nonce_ctx_or_order_of_aggregators_rejects_a_report() -> None:
    batch = make_batch(HISTOGRAM, [1])

    def rejects(agg_id: int, key: bytes, ctx: bytes, nonce: bytes, shares: list[bytes]) -> bool:
        mine = HISTOGRAM.verify_init(key, ctx, agg_id, [nonce], batch.public_shares, shares)
        other = HISTOGRAM.verify_init(
            VERIFY_KEY,
            CTX,
            1 - agg_id,
            batch.nonces,
            batch.public_shares,
            batch.input_shares[1 - agg_id],
        )
        both = [mine.verifier_share_rows, other.verifier_share_rows]
        if agg_id:
            both.reverse()
        messages = HISTOGRAM.verifier_shares_to_message(CTX, both)
        [error] = HISTOGRAM.verify_next(mine.state, messages).errors
        return error is not None

    for agg_id, own in enumerate(batch.input_shares):
        assert not rejects(agg_id, VERIFY_KEY, CTX, batch.nonces[0], own)
        assert rejects(agg_id, bytes(32), CTX, batch.nonces[0], own)
        assert rejects(agg_id, VERIFY_KEY, b"other", batch.nonces[0], own)
        assert rejects(agg_id, VERIFY_KEY, CTX, bytes(16), own)


@pytest.mark.parametrize("prio3", [HISTOGRAM, SUM], ids=["Field128", "Field64"])
def test_a_test_point_that_is_a_root_of_unity_rejects_its_report_only(
    prio3: Prio3, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_path("general", monkeypatch)
    batch = make_batch(prio3, [0, 1, 2])
    good = verify(prio3, batch)
    root = prio3.field.root_of_unity(prio3.circuit.wire_poly_len)
    query_rands = verification.Randomness.query_rands

    def with_roots(
        self: verification.Randomness, verify_key: bytes, nonces: verification.ByteRows
    ) -> Vector:
        rows = rows_to_ints(query_rands(self, verify_key, nonces))
        for row, nonce in zip(rows, nonces, strict=True):
            if nonce.tobytes() == batch.nonces[1]:
                row[-1] = pow(root, 2, prio3.field.modulus)
        return Vector.from_ints(prio3.field, rows)

    monkeypatch.setattr(verification.Randomness, "query_rands", with_roots)
    # A fused kernel draws its own randomness; what it does with such a report is tested there.
    monkeypatch.setattr(dispatch, "plan_for", lambda _prio3, _agg_id: None)
    outcome = verify(prio3, batch)
    assert outcome.rejected == [1]
    for init in outcome.inits:
        error = init.state.errors[1]
        assert isinstance(error, VerifyError)
        assert "root of unity" in str(error)
        assert set(init.verifier_share_rows[1].tolist()) == {NO_ENCODING}
        assert init.state.out_shares[1] == prio3.agg_init()
    assert [outcome.values(index) for index in (0, 2)] == [good.values(index) for index in (0, 2)]


@pytest.mark.parametrize(
    ("prio3", "measurements", "expected"),
    [
        (prio3_count(), [0, 1, 1, 0, 1], 3),
        (prio3_count(3), [True, False, np.int64(1)], 2),
        (prio3_sum(1337), [0, 1337, 184, 0], 1521),
        (prio3_sum_vec(3, 4, 2), [[0, 4, 2], [1, 0, 4]], [1, 4, 6]),
        (prio3_histogram(4), [3, 0, 3], [1, 0, 0, 2]),
        (prio3_multihot_count_vec(4, 2), [[0, 1, 1, 0], [True, False, False, True]], [1, 1, 1, 1]),
        (prio3_l1_bound_sum(3, 7), [[7, 0, 0], [1, 2, 4], [0, 0, 0]], [8, 2, 4]),
    ],
    ids=["count", "count3", "sum", "sum_vec", "histogram", "multihot_count_vec", "l1_bound_sum"],
)
def test_a_batch_adds_up(
    prio3: Prio3, measurements: list[int | list[int]], expected: int | list[int]
) -> None:
    outcome = verify(prio3, make_batch(prio3, measurements))
    assert outcome.rejected == []
    assert result(prio3, outcome, len(measurements)) == expected


def test_a_batch_of_many_slices_gives_what_its_parts_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = make_batch(HISTOGRAM, [index % 7 for index in range(23)])
    whole = verify(HISTOGRAM, batch)
    monkeypatch.setattr("aggregator.vdaf.shares.WORKING_MEMORY", 8000)
    monkeypatch.setattr("aggregator.vdaf.prio3.SLICE_SIZE", 8000)
    monkeypatch.setattr(sharding, "WORKING_MEMORY", 8000)
    assert make_batch(HISTOGRAM, [index % 7 for index in range(23)]) == batch
    batch.input_shares[1][20] = b""
    sliced = verify(HISTOGRAM, batch)
    assert sliced.rejected == [20]
    for index in itertools.chain(range(20), range(21, 23)):
        assert sliced.values(index) == whole.values(index)


@pytest.mark.parametrize("offset", [0, 3], ids=["aligned", "unaligned"])
def test_the_leaders_out_shares_are_part_of_its_input_shares_which_do_not_change(
    offset: int,
) -> None:
    batch = make_batch(HISTOGRAM, list(range(7)))
    batch.input_shares[0][2] = b"\xff" * 16 + batch.input_shares[0][2][16:]
    size = HISTOGRAM.input_share_size(0)
    memory = np.frombuffer(bytes(offset) + b"".join(batch.input_shares[0]), np.uint8)
    rows = memory[offset:].reshape(7, size)
    public = np.frombuffer(b"".join(batch.public_shares), np.uint8).reshape(7, -1)
    before = rows.tobytes()
    begun = [
        HISTOGRAM.verify_init(VERIFY_KEY, CTX, 0, batch.nonces[part], public[part], rows[part])
        for part in (slice(0, 2), slice(0, 7))
    ]
    whole, broken = (encode_rows(init.state.out_shares).tobytes() for init in begun)
    expected = [share[: 7 * 16] for share in batch.input_shares[0]]
    assert whole == b"".join(expected[:2])
    assert broken == b"".join([*expected[:2], bytes(7 * 16), *expected[3:]])
    assert [index for index, error in enumerate(begun[1].state.errors) if error] == [2]
    assert rows.tobytes() == before
    assert np.shares_memory(begun[0].state.out_shares.words, rows) == (offset == 0)


@pytest.mark.parametrize("agg_id", [0, 1], ids=["leader", "helper"])
def test_arrays_of_any_strides_are_taken(agg_id: int) -> None:
    batch = make_batch(HISTOGRAM, list(range(7)))
    public, rows = (
        np.frombuffer(b"".join(shares), np.uint8).reshape(7, -1)
        for shares in (batch.public_shares, batch.input_shares[agg_id])
    )

    def begun(input_rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> tuple[bytes, bytes]:
        init = HISTOGRAM.verify_init(VERIFY_KEY, CTX, agg_id, batch.nonces, public, input_rows)
        return init.verifier_share_rows.tobytes(), encode_rows(init.state.out_shares).tobytes()

    every_second = np.repeat(rows, 2, axis=1)[:, ::2]
    backwards = rows[::-1].copy()[::-1]
    for strided in (np.asfortranarray(rows), every_second, backwards):
        assert begun(strided) == begun(rows)


def test_messages_of_any_strides_are_taken() -> None:
    outcome = verify(HISTOGRAM, make_batch(HISTOGRAM, list(range(7))))
    shares = [init.verifier_share_rows for init in outcome.inits]
    messages = HISTOGRAM.verifier_shares_to_message(CTX, shares)
    rows = messages.rows.copy()
    rows[3, 31] ^= 1
    every_second = np.repeat(rows, 2, axis=1)[:, ::2]
    for strided in (rows, np.asfortranarray(rows), every_second, rows[::-1].copy()[::-1]):
        finished = HISTOGRAM.verify_next(outcome.inits[0].state, VerifierMessages(strided, {}))
        assert list(finished.rejected) == [3]


def test_shares_that_lie_apart_are_copied_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, memory = 2000, 2**17
    size = HISTOGRAM.input_share_size(0)
    together = np.zeros((rows, 2 * size), np.uint8)
    public = np.zeros((rows, HISTOGRAM.public_share_size), np.uint8)
    nonces = np.zeros((rows, 16), np.uint8)
    monkeypatch.setattr("aggregator.vdaf.prio3.SLICE_SIZE", memory)
    arguments = (VERIFY_KEY, CTX, 0, nonces, public, together[:, :size])
    HISTOGRAM.verify_init(*arguments)  # What is kept for the next batch is not counted.
    tracemalloc.start()
    try:
        outputs = HISTOGRAM.verify_init(*arguments)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del outputs
    assert peak - kept < 2 * memory < rows * size


def test_an_empty_batch_is_an_empty_batch() -> None:
    for prio3 in (HISTOGRAM, SUM):
        outcome = verify(prio3, make_batch(prio3, []))
        assert outcome.messages == []
        assert result(prio3, outcome, 1) == prio3.circuit.decode([0] * prio3.output_len)


def test_a_measurement_out_of_range_is_named_with_its_place_in_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharding, "WORKING_MEMORY", 8000)
    measurements = [0] * 40
    measurements[31] = 7
    with pytest.raises(
        MeasurementError, match=r"^measurement 31: it must be from 0 to 6, not 7$"
    ) as info:
        make_batch(HISTOGRAM, measurements)
    assert info.value.index == 31


def test_the_callers_own_mistakes_are_parameter_errors() -> None:
    batch = make_batch(HISTOGRAM, [1])
    arguments = (batch.nonces, batch.public_shares, batch.input_shares[0])
    with pytest.raises(ParameterError, match="verify_key must have 32 bytes, not 31"):
        HISTOGRAM.verify_init(bytes(31), CTX, 0, *arguments)
    with pytest.raises(ParameterError, match="agg_id must be from 0 to 1, not 2"):
        HISTOGRAM.verify_init(VERIFY_KEY, CTX, 2, *arguments)
    with pytest.raises(ParameterError, match="nonce 0 must have 16 bytes, not 3"):
        HISTOGRAM.verify_init(VERIFY_KEY, CTX, 0, [b"abc"], *arguments[1:])
    with pytest.raises(ParameterError, match="one public share per report, 1, not 0"):
        HISTOGRAM.verify_init(VERIFY_KEY, CTX, 0, batch.nonces, [], batch.input_shares[0])
    with pytest.raises(ParameterError, match="one input share per report, 1, not 2"):
        HISTOGRAM.verify_init(VERIFY_KEY, CTX, 0, batch.nonces, batch.public_shares, [b"", b""])
    outcome = verify(HISTOGRAM, batch)
    with pytest.raises(ParameterError, match="one verifier message per report, 1, not 0"):
        HISTOGRAM.verify_next(outcome.inits[0].state, VerifierMessages(np.empty((0, 32)), {}))
    with pytest.raises(ParameterError, match="rand 0 must have 128 bytes, not 1"):
        HISTOGRAM.shard(CTX, [1], [bytes(16)], [b"x"])
    with pytest.raises(ParameterError, match="one nonce per report, 1, not 0"):
        HISTOGRAM.shard(CTX, [1], [], [bytes(128)])
    with pytest.raises(ParameterError, match="ctx must have at most 65527 bytes, not 65528"):
        HISTOGRAM.verify_init(VERIFY_KEY, bytes(65528), 0, *arguments)


def test_an_earlier_error_wins_over_a_later_one() -> None:
    batch = make_batch(HISTOGRAM, [1])
    batch.input_shares[0][0] = b""
    init = HISTOGRAM.verify_init(
        VERIFY_KEY, CTX, 0, batch.nonces, batch.public_shares, batch.input_shares[0]
    )
    peers = VerifierMessages(rows_of(bytes(32)), {0: ReportRejected("from the peer")})
    [error] = HISTOGRAM.verify_next(init.state, peers).errors
    assert isinstance(error, ShareDecodeError)
    outcome = verify(HISTOGRAM, make_batch(HISTOGRAM, [1]))
    assert HISTOGRAM.verify_next(outcome.inits[0].state, peers).errors == [peers.rejected[0]]


def test_no_repr_shows_what_it_holds() -> None:
    batch = make_batch(HISTOGRAM, [1])
    outcome = verify(HISTOGRAM, batch)
    secrets = {
        text
        for data in [
            *batch.input_shares[0],
            *batch.input_shares[1],
            outcome.verifier_share(0, 0),
            *map(bytes, encode_rows(outcome.out_shares[0].shares)),
        ]
        for text in (repr(data)[2:-1], data.hex(), repr(list(data))[1:-1])
    }
    source = seeded(1)
    rands = [source.randbytes(HISTOGRAM.rand_size)]
    shards = HISTOGRAM.shard(CTX, [1], batch.nonces, rands)
    aggregator = verification.Aggregator(VERIFY_KEY, CTX, 1)
    queried = verification.ReportShares(
        aggregator, *(np.zeros((1, 32), np.uint8) for _ in range(3))
    )
    for value in (shards, *outcome.inits, outcome.inits[0].state, outcome.out_shares[0], queried):
        text = repr(value)
        assert len(text) < 300
        assert not any(secret in text for secret in secrets)


@pytest.mark.parametrize("prio3", [HISTOGRAM, SUM], ids=["Field128", "Field64"])
def test_an_aggregate_share_survives_its_wire_form_and_other_bytes_are_refused(
    prio3: Prio3,
) -> None:
    share = Vector.from_ints(prio3.field, [prio3.field.modulus - 1] * prio3.output_len)
    data = prio3.encode_agg_share(share)
    assert prio3.decode_agg_share(data) == share
    for bad in (b"", data[:-1], data + b"\x00"):
        with pytest.raises(ParameterError, match=f"must have {len(data)} bytes, not {len(bad)}"):
            prio3.decode_agg_share(bad)
    with pytest.raises(ParameterError, match="not a residue"):
        prio3.decode_agg_share(b"\xff" * len(data))


def test_unsharding_gives_residues_or_signed_numbers() -> None:
    field = HISTOGRAM.field
    shares = [
        Vector.from_ints(field, [field.modulus - 3, 1, 0, 0, 0, 0, 5]),
        Vector.from_ints(field, [1, 1, 0, 0, 0, 0, field.modulus - 1]),
    ]
    assert HISTOGRAM.unshard(shares, 3) == [field.modulus - 2, 2, 0, 0, 0, 0, 4]
    assert HISTOGRAM.unshard_signed(shares, 3) == [-2, 2, 0, 0, 0, 0, 4]
    assert (
        SUM.unshard_signed([Vector.from_ints(FIELD64, [FIELD64.modulus - 9]), SUM.agg_init()], 1)
        == -9
    )
    with pytest.raises(ParameterError, match="2 aggregate shares, not 1"):
        HISTOGRAM.unshard(shares[:1], 3)
    with pytest.raises(ParameterError, match="num_measurements must be at least 1, not 0"):
        HISTOGRAM.unshard(shares, 0)


def test_merging_adds() -> None:
    share = Vector.from_ints(FIELD128, [1, 2, 3, 4, 5, 6, 7])
    assert HISTOGRAM.merge([share, share, HISTOGRAM.agg_init()]) == share * 2
    assert HISTOGRAM.merge([]) == HISTOGRAM.agg_init()
