"""Reports of attribution are those of the vectors, byte for byte, and count as they say.

Another implementation made them: libprio-rs and another HPKE library.
"""

import base64
import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeConfig, HpkeKeypair, input_share_info, open_, seal
from aggregator.dap.ids import ReportId, TaskId
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectorSelectedQuery,
    InputShareAad,
    PlaintextInputShare,
    Report,
    ReportMetadata,
)
from aggregator.dap.profile import CODE_POINTS, BatchMode, Role, profile_named
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Time
from aggregator.protocol.agreements import verify_key_of
from aggregator.protocol.in_band import configuration_in, id_of
from aggregator.vdaf.instances import prio3_from_configuration
from aggregator.vdaf.prio3 import Prio3
from tests.support.entropy import ScriptedEntropy

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "attribution" / "reports.json").read_text("utf-8")
)
TASKS = pytest.mark.parametrize("task", VECTORS["tasks"], ids=lambda task: task["profile"])
ROLES = {"leader": Role.LEADER, "helper": Role.HELPER}
KEYPAIRS = {
    role: HpkeKeypair(
        decode(HpkeConfig, bytes.fromhex(VECTORS["hpke"][name]["hpke_config"])),
        bytes.fromhex(VECTORS["hpke"][name]["private_key"]),
    )
    for name, role in ROLES.items()
}


def configuration_of(task: dict[str, Any]) -> TaskConfiguration:
    sizes = [("length", 4), ("max_value", 8), ("chunk_length", 4)]
    return TaskConfiguration(
        task_info=b"",
        leader_aggregator_endpoint=task["leader"],
        helper_aggregator_endpoint=task["helper"],
        time_precision=task["time_precision"],
        min_batch_size=task["min_batch_size"],
        batch_mode=BatchMode.COLLECTOR_SELECTED,
        vdaf_type=7,
        vdaf_configuration=b"".join(task[name].to_bytes(size, "big") for name, size in sizes),
        extensions=task_extensions(
            attribution=Attribution(task["collector_identity"], task["budget_source"])
        ),
    )


def prio3_of(task: dict[str, Any]) -> Prio3:
    configuration = configuration_of(task)
    return prio3_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)


def in_full(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reports of which each step is given."""
    return [each for each in task["reports"] if "rand" in each]


def metadata_of(report: dict[str, Any]) -> ReportMetadata:
    budget = Extension(CODE_POINTS.privacy_budget, report["privacy_budget"].to_bytes(4, "big"))
    return ReportMetadata(
        ReportId(bytes.fromhex(report["report_id"])), Time(report["time"]), (budget,)
    )


def aad_of(task: dict[str, Any], metadata: ReportMetadata, public_share: bytes) -> bytes:
    task_id = TaskId(bytes.fromhex(task["task_id"]))
    return encode(InputShareAad(task_id, configuration_of(task), metadata, public_share))


def test_the_code_points_are_ours() -> None:
    names = ("batch_mode", "collector_identity", "budget_source", "privacy_budget", "min_dp_budget")
    assert VECTORS["code_points"] == {name: getattr(CODE_POINTS, name) for name in names}


@TASKS
def test_what_follows_from_a_task(task: dict[str, Any]) -> None:
    configuration = encode(configuration_of(task))
    assert configuration.hex() == task["task_configuration"]
    task_id = id_of(configuration)
    assert task_id.value.hex() == task["task_id"]
    assert task["header"] == f":{base64.b64encode(configuration).decode()}:"
    assert configuration_in([task["header"]]) == configuration
    init = bytes.fromhex(VECTORS["verify_key_init"])
    assert verify_key_of(init, task_id).hex() == task["verify_key"]
    tag = profile_named(task["profile"]).tag
    assert (tag + task_id.value).hex() == task["ctx"]
    for name, role in ROLES.items():
        assert input_share_info(tag, role).hex() == task[f"{name}_info"]
    budget = Extension(CODE_POINTS.min_dp_budget, task["min_dp_budget"].to_bytes(4, "big"))
    request = CollectionJobReq(CollectorSelectedQuery(), extensions=(budget,))
    assert encode(request).hex() == task["collection_job_req"]


@TASKS
def test_the_chunk_length_is_the_one_that_the_browsers_draft_asks_for(task: dict[str, Any]) -> None:
    digits = task["max_value"].bit_length() + 1
    assert task["chunk_length"] == round(math.sqrt(digits * task["length"]))


@TASKS
def test_a_report_is_made_to_the_byte(task: dict[str, Any]) -> None:
    prio3, ctx = prio3_of(task), bytes.fromhex(task["ctx"])
    assert in_full(task)
    for report in in_full(task):
        nonce, rand = bytes.fromhex(report["report_id"]), bytes.fromhex(report["rand"])
        shards = prio3.shard(ctx, [report["measurement"]], [nonce], [rand])
        metadata, public_share = metadata_of(report), shards.public_shares[0]
        assert encode(metadata).hex() == report["report_metadata"]
        assert public_share.hex() == report["public_share"]
        aad = aad_of(task, metadata, public_share)
        assert aad.hex() == report["input_share_aad"]
        sealed = []
        for (name, role), shares in zip(ROLES.items(), shards.input_shares, strict=True):
            steps = report[f"{name}_seal"]
            assert shares[0].hex() == report[f"{name}_input_share"]
            plaintext = encode(PlaintextInputShare((), shares[0]))
            assert plaintext.hex() == steps["plaintext_input_share"]
            ephemeral = ScriptedEntropy(bytes.fromhex(steps["ephemeral_private_key"]))
            info = bytes.fromhex(task[f"{name}_info"])
            sealed.append(seal(KEYPAIRS[role].config, info, aad, plaintext, ephemeral))
            assert sealed[-1].enc.hex() == steps["enc"]
            assert encode(sealed[-1]).hex() == steps["hpke_ciphertext"]
        assert encode(Report(metadata, public_share, *sealed)).hex() == report["report"]


@TASKS
def test_the_reports_open_and_verify_and_their_sum_is_exact(task: dict[str, Any]) -> None:
    prio3, ctx = prio3_of(task), bytes.fromhex(task["ctx"])
    key = bytes.fromhex(task["verify_key"])
    reports = [decode(Report, bytes.fromhex(each["report"])) for each in task["reports"]]
    nonces = [each.report_metadata.report_id.value for each in reports]
    public_shares = [each.public_share for each in reports]
    begun = []
    for (name, role), agg_id in zip(ROLES.items(), (0, 1), strict=True):
        shares = []
        for report in reports:
            aad = aad_of(task, report.report_metadata, report.public_share)
            ciphertext = (
                report.leader_encrypted_input_share
                if role is Role.LEADER
                else report.helper_encrypted_input_share
            )
            info = bytes.fromhex(task[f"{name}_info"])
            opened = open_(KEYPAIRS[role], info, aad, ciphertext)
            shares.append(decode(PlaintextInputShare, opened).payload)
        begun.append(prio3.verify_init(key, ctx, agg_id, nonces, public_shares, shares))
        for place, report in enumerate(in_full(task)):
            share = begun[-1].verifier_share_rows[place].tobytes()
            assert share.hex() == report[f"{name}_verifier_share"]
    messages = prio3.verifier_shares_to_message(ctx, [each.verifier_share_rows for each in begun])
    for place, report in enumerate(in_full(task)):
        assert messages.rows[place].tobytes().hex() == report["verifier_message"]
    outs = [prio3.verify_next(each.state, messages) for each in begun]
    assert not any(error for each in outs for error in each.errors)
    shares_of_sum = [prio3.agg_update(prio3.agg_init(), each.shares) for each in outs]
    assert prio3.unshard(shares_of_sum, len(reports)) == task["sum"]
    columns = zip(*(each["measurement"] for each in task["reports"]), strict=True)
    assert [*map(sum, columns)] == task["sum"]


def test_no_two_reports_of_the_vectors_share_an_id_or_a_key() -> None:
    """A report whose randomness was used twice would reveal what is in it."""
    texts = itertools.chain.from_iterable(
        (each["report"] for each in (*task["reports"], *task["malformed"]))
        for task in VECTORS["tasks"]
    )
    reports = [decode(Report, bytes.fromhex(each)) for each in texts]
    assert len({each.report_metadata.report_id for each in reports}) == len(reports)
    keys = {
        hashlib.sha256(sealed.enc).digest()
        for each in reports
        for sealed in (each.leader_encrypted_input_share, each.helper_encrypted_input_share)
    }
    assert len(keys) == 2 * len(reports)
