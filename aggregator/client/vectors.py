"""Every step from a measurement to an upload, byte by byte, to test a client in another language.

All randomness comes from a public seed, so that another implementation can use the same bytes at
each step and compare. Such reports protect nobody.

Source: DAP, "Uploading Reports"; VDAF, "Sharding" of Prio3; RFC 9180, "Single-Shot APIs".
"""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from aggregator import VDAF_DRAFT
from aggregator.client.verdicts import verdict_of
from aggregator.codec import encode
from aggregator.dap.hpke import (
    HpkeConfigList,
    HpkeKeypair,
    generate_keypair,
    input_share_info,
    key_schedule,
    suite_of,
)
from aggregator.dap.messages import PlaintextInputShare, Report, UploadRequest, input_share_aad
from aggregator.dap.profile import Role
from aggregator.dap.times import Time
from aggregator.entropy import Entropy
from aggregator.protocol.reports import PreparedReport, prepare_reports, seal_report
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_for_clients
from aggregator.vdaf import flp
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.shares import nth
from aggregator.vdaf.xof import ByteRows
from field import concat, encode_rows

WARNING = (
    "All randomness in this file comes from a seed that everybody knows: send none of its reports, "
    "and let no aggregator use its keys."
)
_CONFIG_IDS = {Role.LEADER: 7, Role.HELPER: 8}


class KnownEntropy(Entropy):
    """The same bytes for everybody: SHAKE-256 of a label and of the number of earlier calls."""

    def __init__(self, label: bytes) -> None:
        self._label = label
        self._calls = 0

    @override
    def bytes(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.shake_256(self._label + self._calls.to_bytes(8, "big")).digest(size)


class Recorded(Entropy):
    """Passes bytes on and keeps them."""

    def __init__(self, source: Entropy) -> None:
        self._source = source
        self.given: list[bytes] = []

    @override
    def bytes(self, size: int) -> bytes:
        self.given.append(self._source.bytes(size))
        return self.given[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class _Given(Entropy):
    """Always gives one value."""

    value: bytes

    @override
    def bytes(self, size: int) -> bytes:
        return self.value


def client_vectors(
    task: Task, measurements: Sequence[Measurement], seconds: int
) -> dict[str, object]:
    """Return all that a client computes for these measurements, bytes in hexadecimal.

    The aggregators' keys are the file's own. Times are in seconds since the epoch. Raises
    `ParameterError` if a measurement is out of range.
    """
    entropy = KnownEntropy(b"prio client vectors" + task.task_id.value)
    keypairs = {role: generate_keypair(id_, entropy) for role, id_ in _CONFIG_IDS.items()}
    time = task.time(seconds)
    written = [_report(task, each, time, keypairs, entropy) for each in measurements]
    configuration = task.configuration
    return {
        "version": 1,
        "warning": WARNING,
        "drafts": {"dap": task.profile.name, "vdaf": VDAF_DRAFT},
        "task": task_for_clients(task),
        "read": {
            "leader": configuration.leader_aggregator_endpoint,
            "helper": configuration.helper_aggregator_endpoint,
            "time_precision": configuration.time_precision,
            "vdaf_type": configuration.vdaf_type,
            "parameters": task.prio3.circuit.parameters,
            "field": task.prio3.field.name,
        },
        "ctx": task.ctx.hex(),
        "hpke": {
            role.name.lower(): {
                "private_key": keypair.private_key.hex(),
                "hpke_config_list": encode(HpkeConfigList((keypair.config,))).hex(),
            }
            for role, keypair in keypairs.items()
        },
        "reports": [steps for steps, _ in written],
        "upload_request": encode(UploadRequest(tuple(report for _, report in written))).hex(),
        "report_errors": [
            {"code": code, "name": error.draft_name, "verdict": verdict_of(error.draft_name).value}
            for error, code in task.profile.codes.items()
        ],
    }


def _report(
    task: Task,
    measurement: Measurement,
    time: Time,
    keypairs: dict[Role, HpkeKeypair],
    entropy: Entropy,
) -> tuple[dict[str, object], Report]:
    """Return the steps of one report, and the report."""
    sharding, sealing = Recorded(entropy), Recorded(entropy)
    [prepared] = prepare_reports(task, [measurement], time, sharding)
    configs = (keypairs[Role.LEADER].config, keypairs[Role.HELPER].config)
    report = seal_report(task, prepared, *configs, sealing)
    aad = input_share_aad(task.input_share_aad_prefix, prepared.metadata, prepared.public_share)
    report_id, rand = sharding.given
    leader_seed, helper_seed = sealing.given
    steps: dict[str, object] = {
        "measurement": measurement,
        "time": time.units,
        "report_id": report_id.hex(),
        "rand": rand.hex(),
        "shard": _sharding(task, measurement, report_id, rand),
        "public_share": prepared.public_share.hex(),
        "leader_input_share": prepared.leader_input_share.hex(),
        "helper_input_share": prepared.helper_input_share.hex(),
        "report_metadata": encode(prepared.metadata).hex(),
        "input_share_aad": aad.hex(),
        "leader_seal": _sealing(task, Role.LEADER, keypairs, prepared, leader_seed),
        "helper_seal": _sealing(task, Role.HELPER, keypairs, prepared, helper_seed),
        "report": encode(report).hex(),
    }
    return steps, report


@dataclasses.dataclass(frozen=True, slots=True)
class _Seeds:
    """The parts of `rand`, in their order; without joint randomness there are no blinds."""

    helper: ByteRows
    helper_blind: ByteRows
    leader_blind: ByteRows
    prover: ByteRows

    @classmethod
    def of(cls, rand: bytes, *, are_blinded: bool) -> "_Seeds":
        seeds = np.frombuffer(rand, np.uint8).reshape(-1, 1, SEED_SIZE)
        if are_blinded:
            return cls(seeds[0], seeds[1], seeds[2], seeds[3])
        nothing = seeds[0][:, :0]
        return cls(seeds[0], nothing, nothing, seeds[1])


def _sharding(
    task: Task, measurement: Measurement, report_id: bytes, rand: bytes
) -> dict[str, object]:
    prio3 = task.prio3
    circuit, randomness = prio3.circuit, Randomness(prio3, task.ctx)
    seeds = _Seeds.of(rand, are_blinded=prio3.has_joint_rand)
    nonces = np.frombuffer(report_id, np.uint8)[None]
    meas = circuit.encode([measurement])
    helper_meas = randomness.helper_meas_shares(1, seeds.helper)
    leader_meas = meas - helper_meas
    steps = {
        "encoded_measurement": encode_rows(meas),
        "helper_seed": seeds.helper,
        "prove_seed": seeds.prover,
        "helper_measurement_share": encode_rows(helper_meas),
        "leader_measurement_share": encode_rows(leader_meas),
    }
    parts = nonces[:, :0]
    if prio3.has_joint_rand:
        encoded = (encode_rows(leader_meas), encode_rows(helper_meas))
        blinds = (seeds.leader_blind, seeds.helper_blind)
        both = [
            randomness.joint_rand_parts(agg_id, blinds[agg_id], nonces, encoded[agg_id])
            for agg_id in (0, 1)
        ]
        parts = np.concatenate(both, axis=1)
        steps |= {
            "leader_blind": blinds[0],
            "helper_blind": blinds[1],
            "leader_joint_rand_part": both[0],
            "helper_joint_rand_part": both[1],
        }
    joint_rand_seeds = randomness.joint_rand_seeds(parts)
    joint_rands = randomness.joint_rands(joint_rand_seeds)
    prove_rands = randomness.prove_rands(seeds.prover)
    proofs = concat(
        [
            flp.prove(
                circuit,
                meas,
                nth(prove_rands, proof, circuit.prove_rand_len),
                nth(joint_rands, proof, circuit.joint_rand_len),
            )
            for proof in range(prio3.num_proofs)
        ]
    )
    helper_proofs = randomness.helper_proofs_shares(1, seeds.helper)
    steps |= {
        "joint_rand_seed": joint_rand_seeds,
        "joint_rand": encode_rows(joint_rands),
        "prove_rand": encode_rows(prove_rands),
        "proof": encode_rows(proofs),
        "helper_proof_share": encode_rows(helper_proofs),
        "leader_proof_share": encode_rows(proofs - helper_proofs),
    }
    return {name: rows.tobytes().hex() for name, rows in steps.items()}


def _sealing(
    task: Task,
    role: Role,
    keypairs: dict[Role, HpkeKeypair],
    prepared: PreparedReport,
    private_key: bytes,
) -> dict[str, object]:
    config = keypairs[role].config
    ephemeral = generate_keypair(config.id, _Given(private_key))
    share = prepared.leader_input_share if role is Role.LEADER else prepared.helper_input_share
    enc, info = ephemeral.config.public_key, input_share_info(task.profile.tag, role)
    secret = ephemeral.exchange(config.public_key)
    key, nonce = key_schedule(suite_of(config), secret, enc + config.public_key, info)
    steps = {
        "plaintext_input_share": encode(PlaintextInputShare((), share)),
        "info": info,
        "ephemeral_private_key": private_key,
        "enc": enc,
        "shared_secret_of_x25519": secret,
        "key": key,
        "base_nonce": nonce,
    }
    return {name: value.hex() for name, value in steps.items()}
