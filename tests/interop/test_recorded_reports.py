"""Reports that libprio-rs sharded and we verify, and the other way round: every Prio3 type.

Theirs come with the randomness that they were made of, so that we must make the same; all have
each message of verification, each out share, both aggregate shares and the result.
"""

import json
from typing import Any

import pytest

from aggregator.vdaf import ping_pong
from aggregator.vdaf.instances import TYPES, vdaf_from_parameters
from aggregator.vdaf.prio3 import OutShares, Prio3
from field import encode
from tests.support.recorded import FOLDER

PRIVATE_USE = 0xFFFF0000
"""From here on code points are for types of our own, which nobody else has."""

CASES: list[dict[str, Any]] = json.loads((FOLDER / "libprio-rs.json").read_text())["runs"]


def name(case: dict[str, Any]) -> str:
    return "-".join([case["type"], *map(str, case["params"].values()), case["shares_by"]])


each_case = pytest.mark.parametrize("case", CASES, ids=name)


def prio3_of(case: dict[str, Any]) -> Prio3:
    return vdaf_from_parameters(case["type"], case["params"])


def of_each(case: dict[str, Any], member: str) -> list[bytes]:
    return [bytes.fromhex(report[member]) for report in case["reports"]]


def input_shares(case: dict[str, Any], agg_id: int) -> list[bytes]:
    return [bytes.fromhex(report["input_shares"][agg_id]) for report in case["reports"]]


def encoded(out_shares: OutShares) -> list[str]:
    assert not any(out_shares.errors)
    return [encode(out_shares.shares[row]).hex() for row in range(len(out_shares.errors))]


def test_there_are_reports_of_every_type_of_a_draft_by_either() -> None:
    made = {(case["type"], case["shares_by"]) for case in CASES}
    names = {each for each, row in TYPES.items() if row.algorithm_id < PRIVATE_USE}
    assert made == {(each, who) for each in names for who in ("ours", "theirs")}


@pytest.mark.parametrize("case", [c for c in CASES if c["shares_by"] == "theirs"], ids=name)
def test_the_same_randomness_makes_the_same_shares(case: dict[str, Any]) -> None:
    measurements = [report["measurement"] for report in case["reports"]]
    shards = prio3_of(case).shard(
        bytes.fromhex(case["ctx"]), measurements, of_each(case, "nonce"), of_each(case, "rand")
    )
    assert shards.public_shares == of_each(case, "public_share")
    assert shards.input_shares == [input_shares(case, agg_id) for agg_id in (0, 1)]


@each_case
def test_verification_says_the_same_at_every_step_and_ends_in_the_same_result(
    case: dict[str, Any],
) -> None:
    prio3, ctx = prio3_of(case), bytes.fromhex(case["ctx"])
    nonces, public_shares = of_each(case, "nonce"), of_each(case, "public_share")
    key = bytes.fromhex(case["verify_key"])
    begun = ping_pong.leader_initialized(
        prio3, key, ctx, nonces, public_shares, input_shares(case, 0)
    )
    assert begun.outbound == of_each(case, "initialize")
    helper = ping_pong.helper_initialized(
        prio3, key, ctx, nonces, public_shares, input_shares(case, 1), begun.outbound
    )
    assert helper.outbound == of_each(case, "finish")
    leader = ping_pong.leader_continued(prio3, begun, helper.outbound)
    assert list(zip(encoded(leader), encoded(helper.out_shares), strict=True)) == [
        tuple(report["out_shares"]) for report in case["reports"]
    ]
    sums = [prio3.agg_update(prio3.agg_init(), each.shares) for each in (leader, helper.out_shares)]
    assert [prio3.encode_agg_share(each).hex() for each in sums] == case["agg_shares"]
    result = prio3.unshard(sums, len(nonces))
    assert ([result] if isinstance(result, int) else result) == case["result"]
