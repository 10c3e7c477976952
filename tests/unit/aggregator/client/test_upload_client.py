import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest

from aggregator.client import Client, UploadError, upload
from aggregator.codec import decode, encode
from aggregator.dap.hpke import (
    HpkeConfigList,
    HpkeKeypair,
    generate_keypair,
    input_share_info,
    open_,
)
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    Report,
    ReportUploadStatus,
    UploadErrors,
    UploadRequest,
    input_share_aad,
)
from aggregator.dap.problems import UnrecognizedTask
from aggregator.dap.profile import DAP_18, Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable
from aggregator.service.transport.peer import Peer
from aggregator.service.web.app import FULL_DISK_SECONDS
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import make_task

NOW = 1_700_000_050
TASK = make_task()

Answer = Callable[[tuple[Report, ...]], httpx.Response]


class Aggregators:
    """Both aggregators as a client sees them: configurations, and the leader's answers in turn."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.uploads: list[tuple[Report, ...]] = []
        self.rotations = 0
        self.fetches = 0

    def keypair(self, role: Role) -> HpkeKeypair:
        return generate_keypair(self.rotations, SeededEntropy(bytes([role, self.rotations])))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/hpke_config":
            self.fetches += 1
            role = Role.LEADER if request.url.host.startswith("leader") else Role.HELPER
            return carrying(HpkeConfigList((self.keypair(role).config,)))
        reports = decode(UploadRequest, request.content).reports
        self.uploads.append(reports)
        return self.answers.pop(0)(reports)

    def client(self, entropy: Entropy | None = None) -> Client:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Client(TASK, http, entropy or SeededEntropy(b"client"), ManualClock(NOW))


def carrying(message: HpkeConfigList | UploadErrors) -> httpx.Response:
    return httpx.Response(
        200, content=encode(message), headers={"content-type": media_type(message.message)}
    )


def refusing(error: ReportError, *indices: int) -> Answer:
    def answer(reports: tuple[Report, ...]) -> httpx.Response:
        return carrying(
            UploadErrors(
                tuple(
                    ReportUploadStatus(reports[index].report_metadata.report_id, DAP_18.code(error))
                    for index in indices
                )
            )
        )

    return answer


def accepting(_reports: tuple[Report, ...]) -> httpx.Response:
    return httpx.Response(200)


def leader_share(report: Report, keypair: HpkeKeypair) -> bytes:
    aad = input_share_aad(TASK.input_share_aad_prefix, report.report_metadata, report.public_share)
    return open_(
        keypair, input_share_info(DAP_18.tag, Role.LEADER), aad, report.leader_encrypted_input_share
    )


async def test_measurements_are_uploaded_in_requests_of_the_size_asked_for() -> None:
    aggregators = Aggregators(accepting, accepting, accepting)
    settled: list[int] = []
    summary = await aggregators.client().upload(
        [0, 1, 2, 3, 0], reports_per_request=2, progress=settled.append
    )
    assert (summary.accepted, summary.total, dict(summary.refused)) == (5, 5, {})
    assert settled == [2, 2, 1]
    assert [len(reports) for reports in aggregators.uploads] == [2, 2, 1]
    ids = {report.report_metadata.report_id for batch in aggregators.uploads for report in batch}
    assert len(ids) == 5


@pytest.mark.parametrize(
    "moment", [NOW - 1000, NOW - 1000 + 0.75, datetime.fromtimestamp(NOW - 1000, UTC)], ids=repr
)
async def test_a_time_may_be_whole_seconds_or_not_or_a_datetime(moment: float | datetime) -> None:
    aggregators = Aggregators(accepting)
    await aggregators.client().upload([1], time=moment)
    ((report,),) = aggregators.uploads
    assert report.report_metadata.time == TASK.time(NOW - 1000)


async def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(ParameterError, match="time: needs a time zone"):
        await Aggregators().client().upload([1], time=datetime(2026, 1, 1))  # noqa: DTZ001  that is it


async def test_refused_reports_are_counted_by_reason_and_others_names_are_ignored() -> None:
    def answer(reports: tuple[Report, ...]) -> httpx.Response:
        stranger = ReportUploadStatus(
            ReportId(bytes(16)), DAP_18.code(ReportError.REPORT_TOO_EARLY)
        )
        own = ReportUploadStatus(
            reports[1].report_metadata.report_id, DAP_18.code(ReportError.REPORT_DROPPED)
        )
        return carrying(UploadErrors((stranger, own)))

    summary = await Aggregators(answer).client().upload([0, 1, 2])
    assert summary.accepted == 2
    assert summary.refused == {ReportError.REPORT_DROPPED: 1}


@pytest.mark.parametrize("error", DAP_18.codes)
async def test_what_the_leader_has_already_is_accepted_and_nothing_else_that_it_names(
    error: ReportError,
) -> None:
    """As an application's outbox has it: a lost answer made the client send it again."""
    answers = [refusing(error, 0), refusing(error, 0)]  # one after sealing again
    summary = await Aggregators(*answers).client().upload([1, 1])
    is_counted = error is ReportError.REPORT_REPLAYED
    assert summary.accepted == (2 if is_counted else 1)
    assert summary.refused == ({} if is_counted else {error: 1})


async def test_a_report_that_is_refused_for_an_unknown_reason_is_refused() -> None:
    def answer(reports: tuple[Report, ...]) -> httpx.Response:
        refused = ReportUploadStatus(reports[1].report_metadata.report_id, 200)
        return carrying(UploadErrors((refused,)))

    summary = await Aggregators(answer).client().upload([0, 1, 2])
    assert summary.accepted == 2
    assert sum(summary.refused.values()) == 1


async def test_on_outdated_config_the_same_report_is_sealed_again_never_a_second_one() -> None:
    aggregators = Aggregators(accepting)
    before = aggregators.keypair(Role.LEADER)

    def outdated(reports: tuple[Report, ...]) -> httpx.Response:
        aggregators.rotations += 1
        return refusing(ReportError.OUTDATED_CONFIG, 0, 2)(reports)

    aggregators.answers.insert(0, outdated)
    summary = await aggregators.client().upload([1, 2, 3])
    after = aggregators.keypair(Role.LEADER)
    first, second = aggregators.uploads
    assert (summary.accepted, dict(summary.refused)) == (3, {})
    assert [report.report_metadata for report in second] == [
        first[0].report_metadata,
        first[2].report_metadata,
    ]
    for old, new in ((first[0], second[0]), (first[2], second[1])):
        assert new.public_share == old.public_share
        assert new.leader_encrypted_input_share.config_id == after.config.id != before.config.id
        assert leader_share(new, after) == leader_share(old, before)


async def test_a_configuration_that_stays_outdated_is_not_tried_for_ever() -> None:
    aggregators = Aggregators(*[refusing(ReportError.OUTDATED_CONFIG, 0)] * 2)
    summary = await aggregators.client().upload([1])
    assert summary.refused == {ReportError.OUTDATED_CONFIG: 1}
    assert len(aggregators.uploads) == 2


async def test_the_next_request_is_sealed_while_one_is_sent() -> None:
    entropy = SeededEntropy(b"client")
    drawn = []

    def slow(_reports: tuple[Report, ...]) -> httpx.Response:
        # Every report draws its id, its randomness and a key for each aggregator.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while entropy.calls < 2 * 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        drawn.append(entropy.calls)
        return httpx.Response(200)

    aggregators = Aggregators(slow, accepting, accepting)
    await aggregators.client(entropy).upload([1, 2, 3], reports_per_request=1)
    # One ahead and no more, however slow the leader is.
    assert drawn == [2 * 4]


async def test_what_was_sealed_ahead_under_an_outdated_configuration_is_sealed_again() -> None:
    aggregators = Aggregators(accepting, refusing(ReportError.OUTDATED_CONFIG, 0), accepting)

    def outdated(reports: tuple[Report, ...]) -> httpx.Response:
        aggregators.rotations += 1
        return refusing(ReportError.OUTDATED_CONFIG, 0)(reports)

    aggregators.answers.insert(0, outdated)
    summary = await aggregators.client().upload([1, 2], reports_per_request=1)
    assert (summary.accepted, dict(summary.refused)) == (2, {})
    # Both configurations at the beginning, and once again.
    assert aggregators.fetches == 4


def page(status: int) -> Answer:
    # As long as one status of a refused report.
    return lambda _reports: httpx.Response(status, text="<html>Wait</html>")


def cut(_reports: tuple[Report, ...]) -> httpx.Response:
    whole = refusing(ReportError.REPORT_DROPPED, 0)(_reports)
    return httpx.Response(200, content=whole.content[:9], headers=whole.headers)


async def test_the_page_of_a_proxy_is_no_acceptance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "UPLOAD_ATTEMPTS", 2)
    with pytest.raises(PeerUnreachable, match="message=upload-errors"):
        await Aggregators(page(200), page(200)).client().upload([1])
    with pytest.raises(UploadError, match="list of refused reports"):
        await Aggregators(cut, cut).client().upload([1])
    with pytest.raises(PeerUnreachable, match="status 404 without a problem document"):
        await Aggregators(page(404), page(404)).client().upload([1])


@pytest.mark.parametrize(
    "first", [page(404), page(403), page(200), cut], ids=["404", "403", "200", "cut"]
)
async def test_an_upload_goes_on_after_the_page_of_a_proxy_or_half_an_answer(
    first: Answer,
) -> None:
    """The same reports, whose ids count once: those that follow are not lost with the process."""
    aggregators = Aggregators(first, refusing(ReportError.REPORT_DROPPED, 0), accepting)
    summary = await aggregators.client().upload([1, 1, 1], reports_per_request=2)
    assert (summary.accepted, summary.total) == (2, 3)
    one, again, _rest = aggregators.uploads
    assert one == again


async def test_an_upload_outlasts_a_full_disk_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader asks for a minute's rest, but who gives up midway cannot send the rest."""

    def full(_reports: tuple[Report, ...]) -> httpx.Response:
        return httpx.Response(503, headers={"Retry-After": str(FULL_DISK_SECONDS)})

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(upload, "Peer", partial(Peer, sleep=sleep))
    aggregators = Aggregators(accepting, *[full] * 6, accepting)
    summary = await aggregators.client().upload([1, 2], reports_per_request=1)
    assert summary.accepted == 2
    assert sum(waits) >= 30


async def test_a_refusal_of_the_leader_itself_ends_an_upload_at_once() -> None:
    def refused(_reports: tuple[Report, ...]) -> httpx.Response:
        headers = {"content-type": "application/problem+json"}
        return httpx.Response(404, json={"type": UnrecognizedTask.type_uri}, headers=headers)

    def too_large(_reports: tuple[Report, ...]) -> httpx.Response:
        return httpx.Response(413, text="<html>too large</html>")

    for answer in (refused, too_large):
        with pytest.raises(PeerRefused):
            await Aggregators(answer).client().upload([1])
