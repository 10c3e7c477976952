"""Made-up reports of any type, for timing."""

import dataclasses
from collections.abc import Sequence

from aggregator.entropy import SystemEntropy
from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.instances import Value, VdafType
from aggregator.vdaf.prio3 import BegunBatch, Prio3
from aggregator.vdaf.shares import Batch, to_rows
from aggregator.vdaf.xof import ByteRows

CTX = b"benchmark"


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A Prio3, its name, and a measurement for it."""

    name: str
    prio3: Prio3
    measurement: Measurement


def case(vdaf_type: VdafType, **parameters: Value) -> Case:
    """Return a case with these parameters, and typical values for the others.

    Raises:
        ParameterError: A parameter is unknown to the type, or out of range.
    """
    prio3 = vdaf_type.prio3(vdaf_type.typical() | parameters)
    circuit = prio3.circuit
    sizes = [str(circuit.parameters[name]) for name in vdaf_type.typical()]
    name = " ".join([circuit.name, ", ".join(sizes)]).strip()
    return Case(name, prio3, circuit.furthest_measurements()[1])


@dataclasses.dataclass(frozen=True, slots=True)
class Reports:
    """A batch of reports as the aggregators get them, in arrays or in byte strings.

    Attributes:
        prio3: The VDAF.
        verify_key: The aggregators' key.
        nonces: One per report.
        public_shares: One per report.
        input_shares: For each aggregator, one per report.
    """

    prio3: Prio3
    verify_key: bytes = dataclasses.field(repr=False)
    nonces: Batch
    public_shares: Batch = dataclasses.field(repr=False)
    input_shares: Sequence[Batch] = dataclasses.field(repr=False)

    def as_arrays(self) -> "Reports":
        """Return the same reports, with each kind of share in an array of rows."""
        prio3 = self.prio3

        def rows(strings: Batch, size: int) -> ByteRows:
            return to_rows(strings, size)[0]

        return Reports(
            prio3,
            self.verify_key,
            rows(self.nonces, prio3.nonce_size),
            rows(self.public_shares, prio3.public_share_size),
            [
                rows(shares, prio3.input_share_size(agg_id))
                for agg_id, shares in enumerate(self.input_shares)
            ],
        )

    def verify_init(self, agg_id: int, part: slice = slice(None)) -> BegunBatch:
        """Begin to verify all or some reports as one aggregator."""
        return self.prio3.verify_init(
            self.verify_key,
            CTX,
            agg_id,
            self.nonces[part],
            self.public_shares[part],
            self.input_shares[agg_id][part],
        )


def drawn(size: int, count: int) -> list[bytes]:
    """Return random strings."""
    entropy = SystemEntropy()
    return [entropy.bytes(size) for _ in range(count)]


def honest_reports(made: Case, count: int) -> Reports:
    """Return reports as clients would send them, in byte strings."""
    prio3 = made.prio3
    nonces = drawn(prio3.nonce_size, count)
    shards = prio3.shard(CTX, [made.measurement] * count, nonces, drawn(prio3.rand_size, count))
    (key,) = drawn(prio3.verify_key_size, 1)
    return Reports(prio3, key, nonces, shards.public_shares, shards.input_shares)


def random_reports(made: Case, count: int) -> Reports:
    """Return reports of random bytes, which need nothing compiled to make them."""
    prio3 = made.prio3
    (key,) = drawn(prio3.verify_key_size, 1)
    return Reports(
        prio3,
        key,
        drawn(prio3.nonce_size, count),
        drawn(prio3.public_share_size, count),
        [drawn(prio3.input_share_size(agg_id), count) for agg_id in range(prio3.num_shares)],
    )
