"""Reports of attribution say what they may cost: who reads it, and who refuses too little."""

import dataclasses

import pytest

from aggregator.codec import Reader, decode, encode
from aggregator.dap.extensions import Extension, Extensions
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    UploadedReport,
    VerifyRespContinue,
    job_columns,
)
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.messages.job_columns import read_job
from aggregator.dap.messages.sized import read_usual
from aggregator.dap.profile import CODE_POINTS, PROFILES, Profile
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError
from aggregator.protocol.aggregation import VerificationKey, leader_finish, leader_init
from aggregator.protocol.helper_aggregation import helper_init
from aggregator.protocol.reports import (
    Timely,
    check_upload,
    is_none_refused,
    prepare_reports,
    report_sizes,
)
from aggregator.protocol.task import Task
from tests.support.entropy import SeededEntropy
from tests.support.reports import columns, make_reports
from tests.support.tasks import ATTRIBUTION, LAPLACE, make_task

NOW = 1_700_000_050
TASK = make_task(privacy=LAPLACE, attribution=ATTRIBUTION)
PLAIN = make_task(privacy=LAPLACE)
KEY = VerificationKey(0, bytes(range(32)))
KEYS = [generate_keypair(number, SeededEntropy(b"%d" % number)) for number in (1, 2)]
SIZES = report_sizes(TASK)
HALF = 500_000
OTHERS: list[tuple[Extensions, ReportError]] = [
    ((), ReportError.BUDGET_MISSING),
    ((Extension(CODE_POINTS.privacy_budget, bytes(4)),), ReportError.BUDGET_TOO_SMALL),
    ((Extension(CODE_POINTS.privacy_budget, bytes(3)),), ReportError.INVALID_MESSAGE),
    ((Extension(CODE_POINTS.privacy_budget, bytes(5)),), ReportError.INVALID_MESSAGE),
    ((Extension(0xFFF0, b"\0\0\0\1"),), ReportError.INVALID_MESSAGE),
    (
        (
            Extension(CODE_POINTS.privacy_budget, b"\0\0\0\1"),
            Extension(CODE_POINTS.privacy_budget + 1, b""),
        ),
        ReportError.INVALID_MESSAGE,
    ),
]
"""Public extensions that a report of the task may not have, and what is said of it in draft 18."""


def reports(budget: int, count: int = 3, seed: bytes = b"client") -> list[Report]:
    configs = [each.config for each in KEYS]
    entropy = SeededEntropy(seed)
    time = TASK.time(NOW)
    return make_reports(TASK, *configs, [3] * count, time, entropy, budget=budget)


def with_extensions(report: Report, extensions: Extensions) -> Report:
    metadata = dataclasses.replace(report.report_metadata, public_extensions=extensions)
    return dataclasses.replace(report, report_metadata=metadata)


def refusal(report: Report, least: int = 1) -> ReportError | None:
    uploaded = UploadedReport.read(Reader(encode(report)), SIZES)
    return check_upload(TASK, uploaded, {1}, Timely(NOW), least)


def test_a_reports_budget_is_eight_bytes_of_its_head_and_the_fast_readers_see_it() -> None:
    found = reports(HALF)
    body = b"".join(map(encode, found))
    assert encode(found[0])[24:34] == bytes.fromhex("0008ff6200040007a120")
    assert SIZES.head == report_sizes(PLAIN).head + 8
    uploaded = ReportColumns.uploaded(body, SIZES)
    assert uploaded is not None
    assert uploaded.leader_shares.budgets.tolist() == [HALF] * 3
    assert read_usual(encode(found[0]), SIZES) is not None


def test_a_task_without_attribution_has_the_sizes_that_it_had() -> None:
    sizes = report_sizes(PLAIN)
    assert (sizes.extension, sizes.extensions_head) == (0, b"\0\0")
    (report,) = make_reports(
        PLAIN, *(each.config for each in KEYS), [1], PLAIN.time(NOW), SeededEntropy(b"client")
    )
    paid = with_extensions(report, reports(HALF, 1)[0].report_metadata.public_extensions)
    uploaded = UploadedReport.read(Reader(encode(paid)), sizes)
    assert check_upload(PLAIN, uploaded, {1}, Timely(NOW)) is ReportError.INVALID_MESSAGE


@pytest.mark.parametrize("least", [1, HALF - 1, HALF, HALF + 1, 2**32 - 1])
def test_an_upload_is_refused_below_the_least_budget_however_it_is_read(least: int) -> None:
    found = reports(HALF)
    is_refused = least > HALF
    expected = ReportError.BUDGET_TOO_SMALL if is_refused else None
    assert [refusal(each, least) for each in found] == [expected] * 3
    uploaded = ReportColumns.uploaded(b"".join(map(encode, found)), SIZES)
    assert uploaded is not None
    assert is_none_refused(TASK, uploaded, {1}, Timely(NOW), least) is not is_refused


@pytest.mark.parametrize(("extensions", "expected"), OTHERS)
def test_whatever_is_no_budget_is_refused_at_upload(
    extensions: Extensions, expected: ReportError
) -> None:
    assert refusal(with_extensions(reports(HALF, 1)[0], extensions)) is expected


@pytest.mark.parametrize(("extensions", "expected"), OTHERS)
def test_a_helper_refuses_what_is_no_budget_whatever_its_leader_sends(
    extensions: Extensions, expected: ReportError
) -> None:
    sent = reports(HALF)
    init = leader_init(TASK, KEY, {1: KEYS[0]}, columns(TASK, sent), NOW)
    assert init.request is not None
    job = decode(AggregationJobInitReq, init.request)
    first, *others = job.verify_inits
    metadata = dataclasses.replace(first.report_share.report_metadata, public_extensions=extensions)
    share = dataclasses.replace(first.report_share, report_metadata=metadata)
    changed = (dataclasses.replace(first, report_share=share), *others)
    body = encode(dataclasses.replace(job, verify_inits=changed))
    found = helper_init(TASK, KEY, {2: KEYS[1]}, read_job(body, SIZES), NOW)
    assert found.errors == {0: expected}
    refused, *rest = decode(AggregationJobResp, found.response({})).verify_resps
    assert refused.report_error == TASK.profile.code(expected)
    assert all(isinstance(each, VerifyRespContinue) for each in rest)


def test_a_job_with_budgets_is_read_as_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_columns, "_read_one_by_one", lambda *_: pytest.fail("as objects"))
    init = leader_init(TASK, KEY, {1: KEYS[0]}, columns(TASK, reports(HALF)), NOW)
    assert init.request is not None
    assert read_job(init.request, SIZES).shares.budgets.tolist() == [HALF] * 3


def test_a_budget_that_is_changed_on_the_way_opens_nothing() -> None:
    """It is bound: nobody between browser and aggregators can raise it."""
    sent = reports(HALF)
    raised = reports(2 * HALF)[0].report_metadata.public_extensions
    init = leader_init(
        TASK, KEY, {1: KEYS[0]}, columns(TASK, [with_extensions(sent[0], raised)]), NOW
    )
    assert [each.error for each in init.rejected] == [ReportError.HPKE_DECRYPT_ERROR]


def test_both_parties_know_the_least_budget_of_what_they_added() -> None:
    sent = [*reports(HALF, 2), *reports(7, 1, b"poor"), *reports(2**32 - 1, 1, b"rich")]
    init = leader_init(TASK, KEY, {1: KEYS[0]}, columns(TASK, sent), NOW)
    assert init.request is not None
    assert init.state is not None
    helper = helper_init(TASK, KEY, {2: KEYS[1]}, read_job(init.request, SIZES), NOW)
    poor = sent[2].report_metadata.report_id.value
    verified, _ = leader_finish(TASK, init.state, helper.response({}))
    for each in (verified, helper.verified):
        assert [of.totals.least_budget for of in each.bucket_shares()] == [7]
        assert [of.totals.least_budget for of in each.bucket_shares({poor})] == [HALF]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_draft_is_told_that_a_report_without_its_budget_is_dropped(profile: Profile) -> None:
    for error in (ReportError.BUDGET_MISSING, ReportError.BUDGET_TOO_SMALL):
        assert profile.code(error) == profile.code(ReportError.REPORT_DROPPED)
        assert error.draft_name.startswith("privacy_budget_")


@pytest.mark.parametrize(
    ("task", "budget"), [(TASK, None), (PLAIN, HALF), (TASK, 0), (TASK, 2**32)]
)
def test_a_report_is_made_with_a_budget_exactly_where_one_is_needed(
    task: Task, budget: int | None
) -> None:
    with pytest.raises(ParameterError, match=r"^privacy_budget: "):
        prepare_reports(task, [1], task.time(NOW), SeededEntropy(b"client"), budget=budget)
