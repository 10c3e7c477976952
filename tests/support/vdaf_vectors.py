"""Makes the test vectors in `tests/kat/data`, by the oracle alone: no code of the product runs.

They are in the published format, so that this repository alone suffices to check every type: honest
clients, clients that prove what is false, and reports that were changed on their way.
`python -m tests.support.vdaf_vectors` writes them again.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from Crypto.Hash import TurboSHAKE128

from tests.support import sections_oracle, vdaf_oracle
from tests.support.vdaf_oracle import P64, P128, Ints, OracleCircuit, OraclePrio3, Rejected

FOLDER = Path(__file__).parents[1] / "kat" / "data"
CTX = b"some application"
VERIFY_KEY = bytes(range(32))
NONCE_SIZE, SEED_SIZE = 16, 32
TEST_ALGORITHM_ID = 0xFFFFFFFF

Json = dict[str, object]


@dataclass(frozen=True)
class OracleType:
    """What the oracle knows about a type: code point, circuit, and the form of its result."""

    algorithm_id: int
    circuit: Callable[..., OracleCircuit]
    is_scalar: bool = False
    num_proofs: int = 1


ORACLE_TYPES: Mapping[str, OracleType] = {
    "Prio3Count": OracleType(1, vdaf_oracle.count, is_scalar=True),
    "Prio3Sum": OracleType(2, vdaf_oracle.sum_, is_scalar=True),
    "Prio3SumVec": OracleType(3, vdaf_oracle.sum_vec),
    "Prio3Histogram": OracleType(4, vdaf_oracle.histogram),
    "Prio3MultihotCountVec": OracleType(5, vdaf_oracle.multihot_count_vec),
    "Prio3L1BoundSum": OracleType(7, vdaf_oracle.l1_bound_sum),
    "Prio3Sections": OracleType(0xFFFF0053, sections_oracle.sections),
    "Prio3SumVecWithMultiproof": OracleType(
        TEST_ALGORITHM_ID, partial(vdaf_oracle.sum_vec, p=P64), num_proofs=3
    ),
    "Prio3HigherDegree": OracleType(TEST_ALGORITHM_ID, vdaf_oracle.higher_degree, is_scalar=True),
}


@dataclass(frozen=True)
class Case:
    """One file: honest reports, then reports that prove what is false, then changed ones.

    Attributes:
        file: Its name; the type up to the first underscore.
        parameters: The circuit's parameters, by name.
        measurements: What honest clients measure.
        false_residues: Encoded measurements that are not valid, proved by a client that says so.
        changes: What happens to honest reports of the first measurement; all must be rejected.
        num_shares: How many aggregators there are.
        rands: The randomness of the first reports, if it is chosen.
    """

    file: str
    parameters: dict[str, int | str]
    measurements: Sequence[object]
    false_residues: Sequence[Ints] = ()
    changes: Sequence["Change"] = ()
    num_shares: int = 2
    rands: Sequence[bytes] = ()

    @property
    def kind(self) -> OracleType:
        """The type that the file is about."""
        return ORACLE_TYPES[self.file.split("_", maxsplit=1)[0]]

    @property
    def prio3(self) -> OraclePrio3:
        """The slow Prio3 that the file is about."""
        kind = self.kind
        circuit = kind.circuit(**self.parameters)
        return OraclePrio3(kind.algorithm_id, circuit, self.num_shares, kind.num_proofs)


@dataclass
class Sent:
    """A report as its client made it, before its shares reach the aggregators."""

    measurement: object
    nonce: bytes
    rand: bytes
    public_share: bytes
    input_shares: list[bytes]
    message: bytes | None = None
    """A verifier message that stands in for the aggregators' own."""


Change = Callable[[OraclePrio3, Sent], None]


def flipped(data: bytes, place: int) -> bytes:
    """Change one bit of a byte string."""
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def bad_meas_share(_prio3: OraclePrio3, sent: Sent) -> None:
    """Change the leader's share of the measurement."""
    sent.input_shares[0] = flipped(sent.input_shares[0], 0)


def bad_wire_seed(prio3: OraclePrio3, sent: Sent) -> None:
    """Change the leader's share of the proof's first wire seed."""
    place = prio3.circuit.meas_len * prio3.circuit.encoded_size
    sent.input_shares[0] = flipped(sent.input_shares[0], place)


def bad_gadget_poly(prio3: OraclePrio3, sent: Sent) -> None:
    """Change the leader's share of the last value of the proof's gadget polynomial."""
    circuit = prio3.circuit
    residues = circuit.meas_len + circuit.proof_len * prio3.num_proofs
    place = (residues - 1) * circuit.encoded_size
    sent.input_shares[0] = flipped(sent.input_shares[0], place)


def not_a_residue(prio3: OraclePrio3, sent: Sent) -> None:
    """Put the modulus at the start of the leader's share of the measurement."""
    size = prio3.circuit.encoded_size
    sent.input_shares[0] = prio3.circuit.p.to_bytes(size, "little") + sent.input_shares[0][size:]


def short_leader_share(_prio3: OraclePrio3, sent: Sent) -> None:
    """Cut the leader's share."""
    sent.input_shares[0] = sent.input_shares[0][:-1]


def long_helper_share(_prio3: OraclePrio3, sent: Sent) -> None:
    """Add a byte to the helper's share."""
    sent.input_shares[1] += b"\0"


def bad_helper_seed(_prio3: OraclePrio3, sent: Sent) -> None:
    """Change the seed of the helper's shares."""
    sent.input_shares[1] = flipped(sent.input_shares[1], 0)


def bad_leader_jr_blind(_prio3: OraclePrio3, sent: Sent) -> None:
    """Change the blind of the leader's part of the joint randomness."""
    sent.input_shares[0] = flipped(sent.input_shares[0], -1)


def bad_helper_jr_blind(_prio3: OraclePrio3, sent: Sent) -> None:
    """Change the blind of the helper's part."""
    sent.input_shares[1] = flipped(sent.input_shares[1], -1)


def bad_public_share(_prio3: OraclePrio3, sent: Sent) -> None:
    """Change what the helper is told about the leader's part."""
    sent.public_share = flipped(sent.public_share, 0)


def short_public_share(_prio3: OraclePrio3, sent: Sent) -> None:
    """Cut the public share."""
    sent.public_share = sent.public_share[:-1]


def bad_verifier_message(_prio3: OraclePrio3, sent: Sent) -> None:
    """Send the aggregators a verifier message that is not theirs."""
    sent.message = bytes(SEED_SIZE)


CHANGES: Sequence[Change] = (
    bad_meas_share,
    bad_wire_seed,
    bad_gadget_poly,
    not_a_residue,
    short_leader_share,
    bad_helper_seed,
    long_helper_share,
)
JOINT_RAND_CHANGES: Sequence[Change] = (
    *CHANGES,
    bad_leader_jr_blind,
    bad_helper_jr_blind,
    bad_public_share,
    short_public_share,
    bad_verifier_message,
)

# Found by trial: with these helper's seeds and the tests' ctx, word 29 of the measurement share's
# stream, or word 109 of the proof share's, is not a residue of Field64. One word in 2^32 is not.
SKIPPING_SEEDS = [number.to_bytes(8, "little") + bytes(24) for number in (16875388, 780684)]

ALL_SECTIONS = "onehot:4 atmost:4,2 number:100 bygroup:3,9 given:0,2,100 onehot:2 table:0,5"
"""One of each kind. Its residues:

    0-3 onehot   4-7 atmost   8-14 number   15-26 bygroup   27-40 given   41-42 onehot   43-50 table
    51-52 claim of atmost   53-56 of bygroup   57-62 of given
"""

ANSWERS = [1, 0, 0, 0, 0, 1, 0, 1, 100, 0, 9, 0, 77, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]
ALL_SECTIONS_TRUE = sections_oracle.sections(ALL_SECTIONS, 8).encode(ANSWERS)


def lie(changes: Mapping[int, int]) -> Ints:
    """Return the encoding of `ANSWERS` with other residues in some places."""
    return [changes.get(place, residue) for place, residue in enumerate(ALL_SECTIONS_TRUE)]


def ones(*places: int) -> dict[int, int]:
    """Return changes to 1."""
    return dict.fromkeys(places, 1)


def zeros(*places: int) -> dict[int, int]:
    """Return changes to 0."""
    return dict.fromkeys(places, 0)


_NUMBER_GIVEN = range(27, 34)
_NUMBER_NOT_GIVEN = {place + 7: ALL_SECTIONS_TRUE[place] for place in _NUMBER_GIVEN}

SECTION_LIES: Mapping[str, Ints] = {
    "two answers": lie(ones(1)),
    "2 and -1 for one answer": lie({0: 2, 1: -1}),
    "no answer at all": lie(zeros(0, *_NUMBER_GIVEN, 57, 58, 59, 44)),
    "one vote too few here and one too many there": lie(
        {**zeros(0, *_NUMBER_GIVEN, 57, 58, 59, 44), **ones(4)}
    ),
    "three of at most two": lie(ones(4)),
    "three of at most two, claimed in a digit that is none": lie({**ones(4), 52: 2}),
    "a digit of a number that is none": lie({8: -5}),
    "9 and 9 where 9 is the most together": lie(ones(15, 16, 17, 18)),
    "9 and 9, claimed in digits that are none": lie({**ones(15, 16, 17, 18), 56: 10}),
    "a number for an answer not given": lie(
        {**zeros(*_NUMBER_GIVEN), **_NUMBER_NOT_GIVEN, **ones(57, 58, 59)}
    ),
    "the same, with a slack below zero": lie(
        {
            **zeros(*_NUMBER_GIVEN),
            **_NUMBER_NOT_GIVEN,
            **ones(57, 58, 59),
            60: -sum(_NUMBER_NOT_GIVEN.values()),
        }
    ),
    "no answer with a number": lie({**zeros(0, 57, 58, 59, 44), **ones(3, 50)}),
    "a table with the right row and the wrong column": lie({44: 0, 43: 1}),
    "a table with two cells in a row": lie(ones(43)),
    "a table with no cell": lie(zeros(44)),
    "a table of 1, -1, -1 and 2, whose margins are right": lie({43: -1, 44: 2, 45: 1, 46: -1}),
}

CASES = [
    Case("Prio3Count_own", {}, [0, 1, 1, 0, 1], [[2], [-1]], num_shares=3),
    Case("Prio3Count_changed", {}, [1], changes=CHANGES),
    Case("Prio3Sum_own", {"max_measurement": 2**63 - 1}, [0, 2**63 - 1, 12345], [[2] + [0] * 62]),
    Case("Prio3Sum_whole_field", {"max_measurement": 2**64 - 2**32}, [0, 2**64 - 2**32, 2**63]),
    Case(
        "Prio3Sum_skipped_word",
        {"max_measurement": 2**63 - 1},
        [2**62 + 1, 7],
        rands=[seed + bytes(range(32)) for seed in SKIPPING_SEEDS],
    ),
    Case("Prio3Sum_changed", {"max_measurement": 1337}, [1000], changes=CHANGES),
    Case(
        "Prio3SumVec_own",
        {"length": 2, "max_measurement": 2**40 + 12345, "chunk_length": 17},
        [[0, 2**40 + 12345], [2**39, 2**40 - 1]],
        [[2] + [0] * 81],
    ),
    Case(
        "Prio3SumVec_changed",
        {"length": 3, "max_measurement": 9, "chunk_length": 5},
        [[0, 9, 5]],
        changes=JOINT_RAND_CHANGES,
    ),
    Case(
        "Prio3Histogram_own",
        {"length": 5, "chunk_length": 7},
        [0, 4, 2],
        [[0, 1, 1, 0, 0], [0, 2, -1, 0, 0], [0] * 5],
        num_shares=3,
    ),
    Case("Prio3Histogram_long", {"length": 100, "chunk_length": 10}, [0, 99]),
    Case(
        "Prio3Histogram_changed",
        {"length": 5, "chunk_length": 2},
        [2],
        changes=JOINT_RAND_CHANGES,
    ),
    Case(
        "Prio3MultihotCountVec_own",
        {"length": 6, "max_weight": 5, "chunk_length": 4},
        [[True, False, True, True, True, True], [False] * 6],
        [[1, 1, 1, 1, 1, 1, 1, 1, 1]],
    ),
    Case(
        "Prio3MultihotCountVec_changed",
        {"length": 4, "max_weight": 2, "chunk_length": 3},
        [[True, False, False, True]],
        changes=JOINT_RAND_CHANGES,
    ),
    Case(
        "Prio3L1BoundSum_own",
        {"length": 3, "max_value": 6, "chunk_length": 4},
        [[0, 0, 0], [6, 0, 0], [1, 2, 3]],
        # The claimed sum is 6, the entries add up to 7.
        [[1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1]],
    ),
    Case(
        "Prio3L1BoundSum_changed",
        {"length": 3, "max_value": 6, "chunk_length": 4},
        [[1, 2, 3]],
        changes=JOINT_RAND_CHANGES,
    ),
    Case(
        "Prio3Sections_own",
        {"sections": ALL_SECTIONS, "chunk_length": 8},
        [
            ANSWERS,
            [0, 0, 0, 1, *[0] * 10, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            [0, 1, 0, 0, 1, 0, 0, 0, 64, 3, 3, 3, 0, 100, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        ],
        [*SECTION_LIES.values()],
        num_shares=3,
    ),
    Case(
        "Prio3Sections_changed",
        {"sections": "onehot:3 given:0,2,5", "chunk_length": 4},
        [[0, 1, 0, 0, 4]],
        changes=JOINT_RAND_CHANGES,
    ),
    Case(
        "Prio3SumVecWithMultiproof_own",
        {"length": 3, "max_measurement": 9, "chunk_length": 5},
        [[0, 9, 5], [9, 9, 9]],
        [[1, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0]],
    ),
    Case(
        "Prio3SumVecWithMultiproof_changed",
        {"length": 2, "max_measurement": 3, "chunk_length": 2},
        [[1, 3]],
        changes=JOINT_RAND_CHANGES,
    ),
    Case("Prio3HigherDegree_own", {}, [0, 1, 2], [[3], [-1]], num_shares=3),
    Case("Prio3HigherDegree_changed", {}, [2], changes=CHANGES),
]


def sent_reports(case: Case) -> list[Sent]:
    """Return what a file's clients send, in order, whatever happens to it on the way."""
    prio3 = case.prio3
    source = random.Random(case.file)  # noqa: S311  vectors are to be made again
    count = len(case.measurements) + len(case.false_residues) + len(case.changes)
    nonces = [source.randbytes(NONCE_SIZE) for _ in range(count)]
    rands = [source.randbytes(prio3.rand_size) for _ in range(count)]
    rands[: len(case.rands)] = case.rands
    measurements = [
        *case.measurements,
        *(None for _ in case.false_residues),
        *(case.measurements[0] for _ in case.changes),
    ]
    encoded = [None if each is None else prio3.circuit.encode(each) for each in measurements]
    false = iter(case.false_residues)
    sent = []
    for measurement, meas, nonce, rand in zip(measurements, encoded, nonces, rands, strict=True):
        residues = [x % prio3.circuit.p for x in (next(false) if meas is None else meas)]
        public_share, input_shares = prio3.shard_encoded(CTX, residues, nonce, rand)
        sent.append(Sent(measurement, nonce, rand, public_share, input_shares))
    for change, report in zip(case.changes, sent[count - len(case.changes) :], strict=True):
        change(prio3, report)
        report.measurement = None  # These shares are not what a client makes of it.
    return sent


def make_vector(case: Case) -> Json:
    """Return a file's contents: every step of every report, in order."""
    prio3 = case.prio3
    agg_ids = range(prio3.num_shares)
    operations: list[Json] = []
    reports: list[Json] = []
    sums: list[Ints] | None = None
    for index, sent in enumerate(sent_reports(case)):
        if sent.measurement is not None:
            operations.append(_step("shard", index, success=True))
        verified = _verify(prio3, index, sent, operations)
        out_shares = verified.out_shares
        if out_shares:
            sums = [
                [(x + y) % prio3.circuit.p for x, y in zip(share, out_share, strict=True)]
                for share, out_share in zip(
                    sums or [[0] * len(out_shares[0])] * len(out_shares), out_shares, strict=True
                )
            ]
        reports.append(
            {
                "measurement": sent.measurement,
                "nonce": sent.nonce.hex(),
                "rand": sent.rand.hex(),
                "public_share": sent.public_share.hex(),
                "input_shares": [share.hex() for share in sent.input_shares],
                "verifier_shares": [[share.hex() for share in verified.verifier_shares]],
                "verifier_messages": [message.hex() for message in verified.messages],
                "out_shares": [prio3.encode_vector(share).hex() for share in out_shares],
            }
        )
    result: int | Ints | None = None
    if sums is not None:
        operations += [
            {"operation": "aggregate", "aggregator_id": agg_id, "success": True}
            for agg_id in agg_ids
        ]
        operations.append({"operation": "unshard", "success": True})
        totals = [sum(column) % prio3.circuit.p for column in zip(*sums, strict=True)]
        result = totals[0] if case.kind.is_scalar else totals
    return {
        **case.parameters,
        "shares": case.num_shares,
        "agg_param": "",
        "ctx": CTX.hex(),
        "verify_key": VERIFY_KEY.hex(),
        "reports": reports,
        "operations": operations,
        "agg_shares": [prio3.encode_vector(share).hex() for share in sums or []],
        "agg_result": result,
    }


@dataclass
class _Verified:
    """How the aggregators verified a report, until one of them rejects it."""

    verifier_shares: list[bytes]
    messages: list[bytes]
    out_shares: list[Ints]


def _verify(prio3: OraclePrio3, index: int, sent: Sent, operations: list[Json]) -> _Verified:
    """Verify one report, and add each step and whether it succeeds."""
    found = _Verified([], [], [])
    seeds, out_shares = [], []
    for agg_id, input_share in enumerate(sent.input_shares):
        try:
            out_share, seed, verifier_share = prio3.verify_init(
                VERIFY_KEY, CTX, agg_id, sent.nonce, sent.public_share, input_share
            )
        except Rejected:
            operations.append(_step("verify_init", index, success=False, aggregator_id=agg_id))
            return found
        operations.append(_step("verify_init", index, success=True, aggregator_id=agg_id))
        found.verifier_shares.append(verifier_share)
        seeds.append(seed)
        out_shares.append(out_share)
    try:
        message = prio3.verifier_shares_to_message(CTX, found.verifier_shares)
    except Rejected:
        operations.append(_step("verifier_shares_to_message", index, success=False, round=0))
        return found
    if sent.message is None:
        operations.append(_step("verifier_shares_to_message", index, success=True, round=0))
    found.messages.append(message if sent.message is None else sent.message)
    accepted = [seed == found.messages[0] for seed in seeds]
    operations += [
        _step("verify_next", index, success=success, aggregator_id=agg_id, round=1)
        for agg_id, success in enumerate(accepted)
    ]
    if all(accepted):
        found.out_shares += out_shares
    return found


def _step(name: str, index: int, *, success: bool, **more: int) -> Json:
    return {"operation": name, "report_index": index, "success": success, **more}


def make_xof_vector() -> Json:
    """Return the contents of a file about the XOF: a seed's derived seed and residues."""
    seed, dst, binder = bytes(range(32, 64)), b"domain separation tag", b"binder string"
    message = len(dst).to_bytes(2, "little") + dst + bytes([len(seed)]) + seed + binder
    stream = TurboSHAKE128.new(domain=1, data=message)
    residues: Ints = []
    while len(residues) < 40:
        number = int.from_bytes(stream.read(16), "little")
        residues += [number] if number < P128 else []
    return {
        "seed": seed.hex(),
        "dst": dst.hex(),
        "binder": binder.hex(),
        "length": len(residues),
        "derived_seed": TurboSHAKE128.new(domain=1, data=message).read(SEED_SIZE).hex(),
        "expanded_vec_field128": b"".join(x.to_bytes(16, "little") for x in residues).hex(),
    }


def all_vectors() -> dict[str, Json]:
    """Return the contents of every file, by its name."""
    made = {f"{case.file}.json": make_vector(case) for case in CASES}
    return {**made, "XofTurboShake128_own.json": make_xof_vector()}


if __name__ == "__main__":
    for name, vector in all_vectors().items():
        text = json.dumps(vector, sort_keys=True, separators=(",", ":"))
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
