"""What other helpers said of bad reports and bad jobs, and what we say of the same bytes.

Nobody gains by the differences that are left: whatever one side refuses the other refuses too, but
for what dap-go does not look at yet.
"""

import pytest

from aggregator.codec import DecodeError, decode
from aggregator.dap.messages import AggregationJobResp
from aggregator.dap.messages.job_columns import read_job
from aggregator.dap.problems import (
    InvalidAggregationParameter,
    InvalidMessage,
    Problem,
    UnsupportedExtension,
)
from aggregator.protocol.helper_aggregation import helper_init
from aggregator.protocol.reports import report_sizes
from tests.support.recorded import Refusal, refusals, verdicts

REFUSALS = refusals()
EARLY = 9
INVALID_MESSAGE = 8
VERIFY_ERROR = 6
DECRYPT_ERROR = 5
UNKNOWN_CONFIG = 4

ABORTS = {
    each: each.type_uri.rsplit(":", 1)[-1]
    for each in (InvalidMessage, InvalidAggregationParameter, UnsupportedExtension)
}

SIZES = ("encapsulated key short", "public share long")
PING_PONG = ("message of unknown type", "message with a byte more", "message cut")
NOT_LOOKED_AT = {
    "private extension unknown": INVALID_MESSAGE,
    "public extension unknown": INVALID_MESSAGE,
    "extension public and private": INVALID_MESSAGE,
    "ten units early": EARLY,
    "two units early": EARLY,
}

DIFFERENCES: dict[tuple[str, str], tuple[object, object]] = {
    ("dap-go", "unknown HPKE configuration"): ((None, UNKNOWN_CONFIG), (None, DECRYPT_ERROR)),
    **{
        (peer, name): ((None, DECRYPT_ERROR), (None, INVALID_MESSAGE))
        for peer in ("Janus", "dap-go")
        for name in SIZES
    },
    **{("Janus", name): (ABORTS[InvalidMessage], (None, VERIFY_ERROR)) for name in PING_PONG},
    **{
        ("dap-go", name): ((None, INVALID_MESSAGE), (None, VERIFY_ERROR))
        for name in (*PING_PONG, "verifier share short", "finish instead of initialize")
    },
    **{("dap-go", name): ((None, None), (None, error)) for name, error in NOT_LOOKED_AT.items()},
    **{(peer, "no report"): ((), ABORTS[InvalidMessage]) for peer in ("Janus", "dap-go")},
    ("Janus", "aggregation parameter"): (
        ABORTS[InvalidMessage],
        ABORTS[InvalidAggregationParameter],
    ),
    ("Janus", "unknown verification key id"): ((None,), ABORTS[InvalidMessage]),
}
"""What the peer says and what we say, where they differ (docs/interoperability.md)."""


def own_verdict(refusal: Refusal) -> tuple[int | None, ...] | str:
    run = refusal.run
    try:
        request = read_job(refusal.request, report_sizes(run.task))
        init = helper_init(
            run.task, run.verification_key, run.keypairs("helper"), request, run.time
        )
    except DecodeError:
        return ABORTS[InvalidMessage]
    except Problem as problem:
        return ABORTS[type(problem)]
    return verdicts(decode(AggregationJobResp, init.response({})))


def test_every_difference_is_of_something_that_was_sent() -> None:
    sent = {(refusal.run.peer.rsplit("-", 1)[0], refusal.name) for refusal in REFUSALS}
    assert sent >= DIFFERENCES.keys()


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_we_refuse_what_they_refuse_and_differ_only_as_written_down(refusal: Refusal) -> None:
    peer = refusal.run.peer.rsplit("-", 1)[0]
    same = (refusal.verdict, refusal.verdict)
    expected = DIFFERENCES.get((peer, refusal.name), same)
    assert (refusal.verdict, own_verdict(refusal)) == expected
