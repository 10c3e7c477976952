"""Jobs that a test sends to a helper as a leader would, and what it says of their reports."""

from aggregator.codec import decode
from aggregator.dap.messages import AggregationJobInitReq, AggregationJobResp, VerifyRespReject
from aggregator.dap.profile import DAP_18, Profile
from aggregator.dap.report_errors import AnyReportError
from tests.support.pair import LEADER_TOKEN, Answer, Pair


async def send_job(pair: Pair, body: bytes) -> Answer:
    """Send an encoded request to a pair's helper."""
    url, message = pair.url_of("aggregation_jobs"), AggregationJobInitReq.message
    return await pair.send("POST", url, message, body, LEADER_TOKEN)


def errors_of(answer: bytes, profile: Profile = DAP_18) -> list[AnyReportError | None]:
    """Return why each report of a job is rejected; None of those that are not."""
    return [
        profile.report_error(each.report_error) if isinstance(each, VerifyRespReject) else None
        for each in decode(AggregationJobResp, answer).verify_resps
    ]
