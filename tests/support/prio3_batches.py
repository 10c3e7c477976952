"""Shards batches of reports, verifies them as all aggregators, and compares the outcomes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from aggregator.errors import ReportRejected
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    Measurement,
    MultihotCountVec,
    Sections,
    Sum,
    SumVec,
)
from aggregator.vdaf.circuits.higher_degree import HigherDegree
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.prio3 import BegunBatch, OutShares, Prio3
from aggregator.vdaf.xof import ByteRows
from tests.support import sections_oracle, vdaf_oracle
from tests.support.vdaf_oracle import OracleCircuit, OraclePrio3

CTX = b"some application"
VERIFY_KEY = bytes(range(32))


@dataclass
class Batch:
    """Reports as the aggregators get them; lists, so that a test can spoil them."""

    nonces: list[bytes]
    public_shares: list[bytes]
    input_shares: list[list[bytes]]

    def only(self, index: int) -> "Batch":
        return Batch(
            [self.nonces[index]],
            [self.public_shares[index]],
            [[shares[index]] for shares in self.input_shares],
        )


@dataclass
class Outcome:
    inits: list[BegunBatch]
    messages: list[bytes | ReportRejected]
    out_shares: list[OutShares]

    @property
    def rejected(self) -> list[int]:
        """The reports that some aggregator rejects."""
        return sorted(
            {
                index
                for out_shares in self.out_shares
                for index, error in enumerate(out_shares.errors)
                if error is not None
            }
        )

    def verifier_share(self, agg_id: int, index: int) -> bytes:
        return self.inits[agg_id].verifier_share_rows[index].tobytes()

    def values(self, index: int) -> list[object]:
        """Everything that the aggregators compute about one report, to compare bit for bit."""
        return [
            [self.verifier_share(agg_id, index) for agg_id in range(len(self.inits))],
            [init.state.joint_rand_seeds[index].tobytes() for init in self.inits],
            self.messages[index],
            [out_shares.shares[index].to_ints() for out_shares in self.out_shares],
            [out_shares.errors[index] for out_shares in self.out_shares],
        ]


PATHS = ("fused", "general")
"""The ways to query reports: kernels if there are any, or vectors for every circuit."""


def take_path(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test verify by one of `PATHS`."""
    if path == "general":
        monkeypatch.setattr(dispatch, "plan_for", lambda _parameters, _agg_id: None)


def seeded(seed: int | str) -> random.Random:
    """Return a generator that makes the same choices each time."""
    return random.Random(seed)  # noqa: S311  tests are to be repeatable


def random_bytes(source: random.Random, size: int, count: int) -> list[bytes]:
    return [source.randbytes(size) for _ in range(count)]


def make_batch(prio3: Prio3, measurements: Sequence[Measurement], seed: int = 1) -> Batch:
    source = seeded(seed)
    nonces = random_bytes(source, prio3.nonce_size, len(measurements))
    rands = random_bytes(source, prio3.rand_size, len(measurements))
    shards = prio3.shard(CTX, measurements, nonces, rands)
    return Batch(nonces, shards.public_shares, shards.input_shares)


def verify(prio3: Prio3, batch: Batch) -> Outcome:
    """Let every aggregator verify a batch."""
    inits = [
        prio3.verify_init(
            VERIFY_KEY, CTX, agg_id, batch.nonces, batch.public_shares, batch.input_shares[agg_id]
        )
        for agg_id in range(prio3.num_shares)
    ]
    decided = prio3.verifier_shares_to_message(CTX, [init.verifier_share_rows for init in inits])
    messages = [
        decided.rejected.get(index, row.tobytes()) for index, row in enumerate(decided.rows)
    ]
    return Outcome(inits, messages, [prio3.verify_next(init.state, decided) for init in inits])


def rows_of(*strings: bytes) -> ByteRows:
    """Return strings of one size as an array, one per row."""
    return np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), len(strings[0]))


def result(prio3: Prio3, outcome: Outcome, num_measurements: int) -> int | list[int]:
    """Sum and unshard."""
    agg_shares = [
        prio3.agg_update(prio3.agg_init(), out_shares.shares) for out_shares in outcome.out_shares
    ]
    return prio3.unshard(agg_shares, num_measurements)


def oracle_of(prio3: Prio3) -> OraclePrio3:
    """Return the slow implementation of the same VDAF."""
    return OraclePrio3(
        prio3.algorithm_id, _oracle_circuit(prio3.circuit), prio3.num_shares, prio3.num_proofs
    )


def _oracle_circuit(circuit: Circuit) -> OracleCircuit:
    match circuit:
        case Count():
            made = vdaf_oracle.count()
        case HigherDegree():
            made = vdaf_oracle.higher_degree()
        case Sum():
            made = vdaf_oracle.sum_(**circuit.parameters)
        case SumVec():
            made = vdaf_oracle.sum_vec(**circuit.parameters, p=circuit.field.modulus)
        case Histogram():
            made = vdaf_oracle.histogram(**circuit.parameters)
        case MultihotCountVec():
            made = vdaf_oracle.multihot_count_vec(**circuit.parameters)
        case L1BoundSum():
            made = vdaf_oracle.l1_bound_sum(**circuit.parameters)
        case Sections():
            made = sections_oracle.sections(**circuit.parameters)
        case _:
            raise NotImplementedError(circuit.name)
    return made
