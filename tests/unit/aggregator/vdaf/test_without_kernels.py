"""Before kernels are compiled, both aggregators compute the same bytes without them."""

import itertools

import numpy as np
import pytest

from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.instances import TYPES, VdafType
from aggregator.vdaf.prio3 import Prio3
from tests.support.cold import without_kernels
from tests.support.prio3_batches import CTX, VERIFY_KEY, Batch, make_batch, verify

pytestmark = pytest.mark.slow

NUM_REPORTS = 11
"""More than the lanes of any processor, and no multiple of them."""


UNDECODABLE = (0, 9)


def measurements(prio3: Prio3) -> list[Measurement]:
    return list(
        itertools.islice(itertools.cycle(prio3.circuit.furthest_measurements()), NUM_REPORTS)
    )


def spoil(prio3: Prio3, batch: Batch) -> None:
    """Make every third report invalid, each for another reason."""
    leader, helper = batch.input_shares
    size = prio3.field.encoded_size
    leader[0] = b"\xff" * size + leader[0][size:]  # no residue
    leader[3] = leader[3][:size] + bytes([leader[3][size] ^ 1]) + leader[3][size + 1 :]
    helper[6] = bytes([helper[6][0] ^ 1]) + helper[6][1:]
    leader[9] = leader[9][:-1]


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_a_batch_with_invalid_reports_comes_to_the_same_bytes(row: VdafType) -> None:
    prio3 = row.prio3(row.typical())
    batch = make_batch(prio3, measurements(prio3))
    spoil(prio3, batch)
    compiled = verify(prio3, batch)
    with without_kernels():
        plain = verify(prio3, batch)
    assert plain.rejected == compiled.rejected == [0, 3, 6, 9]
    for index in range(NUM_REPORTS):
        for field, (one, other) in enumerate(
            zip(plain.values(index), compiled.values(index), strict=True)
        ):
            # A report that cannot be decoded has no seed. An error has no equality, but its words.
            if not (index in UNDECODABLE and field == 1):
                assert repr(one) == repr(other)
    for before, after in zip(compiled.out_shares, plain.out_shares, strict=True):
        total = prio3.agg_update(prio3.agg_init(), before.shares)
        with without_kernels():
            assert prio3.agg_update(prio3.agg_init(), after.shares) == total


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_a_batch_is_sharded_into_the_same_bytes(row: VdafType) -> None:
    prio3 = row.prio3(row.typical())
    rng = np.random.default_rng(5)
    nonces = [rng.bytes(prio3.nonce_size) for _ in range(NUM_REPORTS)]
    rands = [rng.bytes(prio3.rand_size) for _ in range(NUM_REPORTS)]
    compiled = prio3.shard(CTX, measurements(prio3), nonces, rands)
    with without_kernels():
        plain = prio3.shard(CTX, measurements(prio3), nonces, rands)
    assert plain == compiled


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
@pytest.mark.parametrize("late", [0, 1], ids=["leader", "helper"])
def test_one_aggregator_may_have_its_kernels_before_the_other(row: VdafType, late: int) -> None:
    prio3 = row.prio3(row.typical())
    batch = make_batch(prio3, measurements(prio3))
    spoil(prio3, batch)
    compiled = verify(prio3, batch)

    def begun(agg_id: int) -> bytes:
        shares = batch.public_shares, batch.input_shares[agg_id]
        init = prio3.verify_init(VERIFY_KEY, CTX, agg_id, batch.nonces, *shares)
        return init.verifier_share_rows.tobytes()

    with without_kernels():
        assert begun(late) == compiled.inits[late].verifier_share_rows.tobytes()
    assert begun(1 - late) == compiled.inits[1 - late].verifier_share_rows.tobytes()
