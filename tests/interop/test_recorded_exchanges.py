"""What went over the wire between us and other implementations, role by role.

Whatever an exchange leaves no choice about we must make again, byte for byte, in the other's place
as well as in our own: the leader's request from the reports, the helper's answer from the request,
the request for a share. What was drawn is opened instead.
"""

import pytest

from aggregator.codec import Message, decode, encode
from aggregator.collector.results.result import open_agg_shares, open_result
from aggregator.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    UploadRequest,
)
from aggregator.dap.messages.job_columns import read_job
from aggregator.protocol.aggregation import leader_finish, leader_init
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.collection import aggregate_share_request, check_aggregate_share_request
from aggregator.protocol.helper_aggregation import helper_init
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.verified import Verified
from field import Vector
from tests.support.recorded import OURS, Run, runs
from tests.support.reports import columns

RUNS = runs()

each_run = pytest.mark.parametrize("run", RUNS, ids=str)


def leader_verified(run: Run) -> list[Verified]:
    """Verify all reports as the leader, and compare the requests that this makes."""
    found = []
    reports = run.reports
    for job in run.jobs:
        asked = decode(AggregationJobInitReq, job.request)
        ids = [init.report_share.report_metadata.report_id.value for init in asked.verify_inits]
        init = leader_init(
            run.task,
            run.verification_key,
            run.keypairs("leader"),
            columns(run.task, [reports[report_id] for report_id in ids]),
            run.time,
            extensions=asked.extensions,
        )
        assert init.rejected == []
        assert init.request is not None
        assert init.state is not None
        assert init.request == job.request
        verified, rejected = leader_finish(run.task, init.state, job.answer)
        assert rejected == []
        found.append(verified)
    return found


def helper_verified(run: Run) -> list[Verified]:
    """Verify all reports as the helper, and compare the answers that this makes."""
    found = []
    for job in run.jobs:
        request = read_job(job.request, report_sizes(run.task))
        init = helper_init(
            run.task, run.verification_key, run.keypairs("helper"), request, run.time
        )
        assert init.response({}) == job.answer
        found.append(init.verified)
    return found


def agg_share(run: Run, verified: list[Verified]) -> Vector:
    return run.task.prio3.merge(
        [bucket.agg_share for each in verified for bucket in each.bucket_shares()]
    )


def totals(verified: list[Verified]) -> BatchTotals:
    return sum(
        (bucket.totals for each in verified for bucket in each.bucket_shares()), BatchTotals()
    )


def test_every_role_and_both_batch_modes_were_played_by_somebody_else() -> None:
    for mode in (1, 2):
        played = {
            role
            for run in RUNS
            for role, who in run.roles.items()
            if who != OURS and run.task.configuration.batch_mode == mode
        }
        assert played == {"client", "leader", "helper", "collector"}


@each_run
def test_every_message_is_read_and_written_again_to_the_byte(run: Run) -> None:
    def check(kind: type[Message], data: bytes) -> None:
        assert encode(decode(kind, data)) == data

    for upload in run.uploads:
        check(UploadRequest, upload)
    for job, sent in zip(run.jobs, run.wire_jobs, strict=True):
        check(AggregationJobInitReq, job.request)
        check(AggregationJobResp, job.answer)
        framing = run.task.profile.framing
        assert framing.request(job.request) == sent.request
        assert framing.answer(job.answer) == sent.answer
    check(AggregateShareReq, run.aggregate_share.request)
    check(AggregateShare, run.aggregate_share.answer)
    check(CollectionJobReq, run.collection.request)
    check(CollectionJobResp, run.collection.answer)


@each_run
def test_both_aggregators_verify_every_report_and_say_what_was_said(run: Run) -> None:
    leader, helper = leader_verified(run), helper_verified(run)
    assert sum(len(each.accepted()) for each in leader) == run.facts["report_count"]
    shares = [agg_share(run, leader), agg_share(run, helper)]
    result = run.task.prio3.unshard(shares, totals(leader).report_count)
    assert ([result] if isinstance(result, int) else result) == run.values
    request = decode(AggregateShareReq, run.aggregate_share.request)
    batch = check_aggregate_share_request(run.task, request)
    assert aggregate_share_request(run.task, run.query, batch, totals(helper)) == request


@pytest.mark.parametrize("run", [run for run in RUNS if run.keypairs("collector")], ids=str)
def test_the_collector_opens_both_shares_and_has_the_same_result(run: Run) -> None:
    (keypair,) = run.keypairs("collector").values()
    response = decode(CollectionJobResp, run.collection.answer)
    assert response.report_count == run.facts["report_count"]
    helper = decode(AggregateShare, run.aggregate_share.answer).encrypted_aggregate_share
    assert response.helper_encrypted_agg_share == helper
    opened = open_agg_shares(run.task, keypair, run.query, response)
    sums = [agg_share(run, leader_verified(run)), agg_share(run, helper_verified(run))]
    encoded = run.task.prio3.encode_agg_share
    assert list(map(encoded, opened)) == list(map(encoded, sums))
    assert list(open_result(run.task, keypair, run.query, response).values) == run.values
