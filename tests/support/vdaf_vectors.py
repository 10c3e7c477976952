"""Makes test vectors in the published format; the ones in `tests/kat/data` were made by it.

They were committed after every published vector passed, and pin what those leave out: L1BoundSum,
chunks longer than the measurement, large ranges, a client that proves what is false among honest
ones, on several shares. `python -m tests.support.vdaf_vectors FOLDER` writes them again.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.instances import TYPES
from field import encode
from tests.support.prio3_batches import (
    CTX,
    VERIFY_KEY,
    Batch,
    oracle_of,
    random_bytes,
    seeded,
    verify,
)
from tests.support.vdaf_oracle import Ints

Json = dict[str, object]


@dataclass(frozen=True)
class Case:
    """One file: valid measurements, and residues for which the slow prover makes a false proof."""

    file: str
    parameters: dict[str, int]
    measurements: Sequence[Measurement]
    false_residues: Sequence[Ints] = ()
    num_shares: int = 2
    rands: Sequence[bytes] = ()
    """Randomness of the first reports, where it is chosen."""


# Found by trial: with these helper's seeds and the tests' ctx, word 29 of the measurement share's
# stream, or word 109 of the proof share's, is no residue of Field64. One word in 2^32 is none.
SKIPPING_SEEDS = [number.to_bytes(8, "little") + bytes(24) for number in (16875388, 780684)]

CASES = [
    Case(
        "Prio3L1BoundSum_own",
        {"length": 3, "max_value": 6, "chunk_length": 4},
        [[0, 0, 0], [6, 0, 0], [1, 2, 3]],
        # The claimed sum is 6, the entries add up to 7.
        [[1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1]],
    ),
    Case(
        "Prio3Histogram_own",
        {"length": 5, "chunk_length": 7},
        [0, 4, 2],
        [[0, 1, 1, 0, 0], [0, 2, -1, 0, 0], [0] * 5],
        num_shares=3,
    ),
    Case(
        "Prio3SumVec_own",
        {"length": 2, "max_measurement": 2**40 + 12345, "chunk_length": 17},
        [[0, 2**40 + 12345], [2**39, 2**40 - 1]],
        [[2] + [0] * 81],
    ),
    Case("Prio3Sum_own", {"max_measurement": 2**63 - 1}, [0, 2**63 - 1, 12345], [[2] + [0] * 62]),
    Case(
        "Prio3Sum_skipped_word",
        {"max_measurement": 2**63 - 1},
        [2**62 + 1, 7],
        rands=[seed + bytes(range(32)) for seed in SKIPPING_SEEDS],
    ),
    Case(
        "Prio3MultihotCountVec_own",
        {"length": 6, "max_weight": 5, "chunk_length": 4},
        [[True, False, True, True, True, True], [False] * 6],
        [[1, 1, 1, 1, 1, 1, 1, 1, 1]],
    ),
]


def make_vector(case: Case) -> Json:
    """Return a file's contents: every step of every report, in order."""
    prio3 = TYPES[case.file.split("_", maxsplit=1)[0]].prio3(case.parameters, case.num_shares)
    source = seeded(case.file)
    num_reports = len(case.measurements) + len(case.false_residues)
    nonces = random_bytes(source, prio3.nonce_size, num_reports)
    rands = random_bytes(source, prio3.rand_size, num_reports)
    rands[: len(case.rands)] = case.rands
    num_true = len(case.measurements)
    shards = prio3.shard(CTX, case.measurements, nonces[:num_true], rands[:num_true])
    batch = Batch(nonces, shards.public_shares, shards.input_shares)
    oracle = oracle_of(prio3)
    for residues, nonce, rand in zip(
        case.false_residues, nonces[num_true:], rands[num_true:], strict=True
    ):
        meas = [x % prio3.field.modulus for x in residues]
        public_share, input_shares = oracle.shard_encoded(CTX, meas, nonce, rand)
        batch.public_shares.append(public_share)
        for strings, share in zip(batch.input_shares, input_shares, strict=True):
            strings.append(share)

    outcome = verify(prio3, batch)
    operations: list[Json] = []
    reports: list[Json] = []
    for index in range(num_reports):
        is_true = index < num_true
        if is_true:
            operations.append({"operation": "shard", "report_index": index, "success": True})
        operations += [
            _step("verify_init", index, success=True, aggregator_id=agg_id)
            for agg_id in range(prio3.num_shares)
        ]
        operations.append(_step("verifier_shares_to_message", index, success=is_true, round=0))
        message = outcome.messages[index]
        if is_true:
            operations += [
                _step("verify_next", index, success=True, aggregator_id=agg_id, round=1)
                for agg_id in range(prio3.num_shares)
            ]
        reports.append(
            {
                "measurement": case.measurements[index] if is_true else None,
                "nonce": nonces[index].hex(),
                "rand": rands[index].hex(),
                "public_share": batch.public_shares[index].hex(),
                "input_shares": [shares[index].hex() for shares in batch.input_shares],
                "verifier_shares": [[init.verifier_shares[index].hex() for init in outcome.inits]],
                "verifier_messages": [message.hex()] if isinstance(message, bytes) else [],
                "out_shares": [
                    encode(out_shares.shares[index]).hex()
                    for out_shares in outcome.out_shares
                    if is_true
                ],
            }
        )
    agg_shares = [
        prio3.agg_update(prio3.agg_init(), out_shares.shares) for out_shares in outcome.out_shares
    ]
    operations += [
        {"operation": "aggregate", "aggregator_id": agg_id, "success": True}
        for agg_id in range(prio3.num_shares)
    ]
    operations.append({"operation": "unshard", "success": True})
    return {
        **case.parameters,
        "shares": case.num_shares,
        "agg_param": "",
        "ctx": CTX.hex(),
        "verify_key": VERIFY_KEY.hex(),
        "reports": reports,
        "operations": operations,
        "agg_shares": [prio3.encode_agg_share(share).hex() for share in agg_shares],
        "agg_result": prio3.unshard(agg_shares, num_reports),
    }


def _step(name: str, index: int, *, success: bool, **more: int) -> Json:
    return {"operation": name, "report_index": index, "success": success, **more}


if __name__ == "__main__":
    for case in CASES:
        text = json.dumps(make_vector(case), indent=1, sort_keys=True)
        (Path(sys.argv[1]) / f"{case.file}.json").write_text(text + "\n")
