"""A batch is what is uploaded below its collection job; its messages are no other mode's."""

import pytest

from aggregator.codec import Reader, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.ids import BatchId, encode_base64url
from aggregator.dap.messages import (
    BatchSelector,
    CollectionJobReq,
    CollectorSelectedQuery,
    CollectorSelectedSelector,
    LeaderSelectedQuery,
    LeaderSelectedSelector,
    Query,
)
from aggregator.dap.messages.collection import read_batch_selector
from aggregator.dap.problems import BatchInvalid, InvalidMessage, UnsupportedExtension
from aggregator.dap.profile import CODE_POINTS, JOB_EXTENSION_BATCH_ID
from aggregator.dap.times import Time
from aggregator.errors import ParameterError
from aggregator.protocol.collector_selected import CollectorSelected, new_batch
from aggregator.protocol.leader_selected import LeaderSelected
from tests.support.entropy import SeededEntropy
from tests.support.tasks import LAPLACE, make_task

ID = BatchId(bytes(range(32)))
MODE = CollectorSelected()


def test_a_request_is_the_mode_and_nothing_else() -> None:
    request = CollectionJobReq(MODE.query({}, 5))
    assert encode(request) == bytes([CODE_POINTS.batch_mode]) + bytes(2 + 4 + 2)
    assert decode(CollectionJobReq, encode(request)) == request
    with pytest.raises(BatchInvalid, match="uploaded below its collection job, and none can be"):
        MODE.query({"start": 0}, 5)


def test_a_batch_is_selected_by_its_id() -> None:
    batch = new_batch(SeededEntropy(b"batch"))
    selector = MODE.selector(batch)
    assert encode(selector) == bytes([CODE_POINTS.batch_mode, 0, 32]) + batch.first
    assert read_batch_selector(Reader(encode(selector))) == selector
    assert MODE.selected(selector, CollectorSelectedQuery()) == batch


def test_reports_fall_into_the_batch_that_the_job_names() -> None:
    job = MODE.job_extensions(ID.value)
    assert job == (Extension(JOB_EXTENSION_BATCH_ID, ID.value),)
    MODE.check_job(job)
    assert MODE.bucket(Time(7), job) == MODE.bucket(Time(8), job) == ID.value
    with pytest.raises(InvalidMessage, match="the job names no batch"):
        MODE.check_job(())
    with pytest.raises(InvalidMessage, match="must be 32 bytes, not 31"):
        MODE.check_job((Extension(JOB_EXTENSION_BATCH_ID, bytes(31)),))
    with pytest.raises(UnsupportedExtension, match="a collector_selected task has no other"):
        MODE.check_job((*job, Extension(9, b"")))


@pytest.mark.parametrize(
    ("mode", "query", "selector"),
    [
        (MODE, LeaderSelectedQuery(), CollectorSelectedSelector(ID)),
        (MODE, CollectorSelectedQuery(), LeaderSelectedSelector(ID)),
        (LeaderSelected(), CollectorSelectedQuery(), LeaderSelectedSelector(ID)),
        (LeaderSelected(), LeaderSelectedQuery(), CollectorSelectedSelector(ID)),
    ],
)
def test_what_one_of_two_modes_asks_the_other_does_not_answer(
    mode: LeaderSelected, query: Query, selector: BatchSelector
) -> None:
    with pytest.raises(InvalidMessage, match=f"batch mode is {mode.mode.name.lower()}"):
        mode.selected(selector, query)


def test_a_task_of_bundles_has_no_permits_and_no_messages_of_before() -> None:
    permits = {"domain": encode_base64url(bytes(32))}
    with pytest.raises(ParameterError, match="permits: are not for collector_selected"):
        make_task(permits=permits, privacy=LAPLACE, batch_mode="collector_selected")
    with pytest.raises(ParameterError, match="has no place for collector_selected"):
        make_task(profile="janus-2026-08-20", batch_mode="collector_selected")
