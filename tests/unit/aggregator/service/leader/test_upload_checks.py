"""Large uploads are checked as arrays, and whatever is in them as if each report came alone."""

import dataclasses
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.codec import DecodeError, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.hpke_suites import AEADS, P256, Suite
from aggregator.dap.messages import Report
from aggregator.dap.problems import MessageTooLarge
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.reports import Timely
from aggregator.service.leader import upload_checks
from aggregator.service.leader.upload_checks import Below, CheckedUpload, Moment, check_reports
from aggregator.service.runtime import UploadTerms
from tests.support.entropy import SeededEntropy
from tests.support.reports import make_reports
from tests.support.tasks import ATTRIBUTION, TIME_PRECISION, make_task

NOW = 1_700_000_050
SKEW, AGE = 300, 86_400
UNITS = NOW // TIME_PRECISION
TASK = make_task(interval={"start": UNITS - 2000, "duration": 4000})
ENTROPY = SeededEntropy(b"client")
CONFIGS = [generate_keypair(each, ENTROPY).config for each in (1, 2)]
TERMS = UploadTerms(
    TASK, is_ended=False, most_releases=None, others={}, config_ids=frozenset({1, 9}), version=0
)


COUNT = 6


@cache
def good() -> list[Report]:
    return make_reports(TASK, *CONFIGS, [1] * COUNT, TASK.time(NOW), ENTROPY)


def changed(report: Report, how: str) -> bytes:
    """Return a report of which something is unusual."""
    metadata, sealed = report.report_metadata, report.leader_encrypted_input_share
    units = metadata.time.units
    match how:
        case "unknown key":
            other = dataclasses.replace(sealed, config_id=3)
            report = dataclasses.replace(report, leader_encrypted_input_share=other)
        case "its second key":
            other = dataclasses.replace(sealed, config_id=9)
            report = dataclasses.replace(report, leader_encrypted_input_share=other)
        case "extension":
            with_one = dataclasses.replace(metadata, public_extensions=(Extension(7, b""),))
            report = dataclasses.replace(report, report_metadata=with_one)
        case "P-256":
            key = generate_keypair(1, ENTROPY, Suite(P256, AEADS[0])).config
            (report,) = make_reports(TASK, key, CONFIGS[1], [1], metadata.time, ENTROPY)
        case "short":
            other = dataclasses.replace(sealed, payload=sealed.payload[:-1])
            report = dataclasses.replace(report, leader_encrypted_input_share=other)
        case "another unit" | "early" | "old" | "before the task":
            ahead = {"another unit": -3, "early": 9, "old": -900, "before the task": -2500}[how]
            later = dataclasses.replace(metadata, time=Time(units + ahead))
            report = dataclasses.replace(report, report_metadata=later)
    encoded = encode(report)
    return {"cut": encoded[:-1], "more": encoded + b"\0", "zeros": bytes(len(encoded))}.get(
        how, encoded
    )


HOWS = [
    *("as it was", "unknown key", "its second key", "extension", "P-256", "short", "another unit"),
    *("early", "old", "before the task", "cut", "more", "zeros", "again"),
]


def checked(body: bytes, least: int, terms: UploadTerms = TERMS) -> CheckedUpload | str:
    """Return what is found in a body, checked as arrays if it has more bytes than `least`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload_checks, "SHORT_BODY", least)
        try:
            found = check_reports(Moment(terms, Timely(NOW, SKEW, AGE), 0), body)
        except (DecodeError, MessageTooLarge) as error:
            return str(error)
    return found


def alike(found: CheckedUpload | str) -> object:
    """Return what was found, with each report as an object, to compare it."""
    return found if isinstance(found, str) else (found.ids, found.errors, [*found.stored])


@given(st.lists(st.sampled_from(HOWS) | st.just("as it was"), max_size=COUNT))
def test_a_body_is_found_to_be_what_its_reports_are_one_by_one(
    hows: list[str],
) -> None:
    body = b"".join(
        changed(good()[0 if how == "again" else place], how) for place, how in enumerate(hows)
    )
    assert alike(checked(body, 0)) == alike(checked(body, 10**9))


@pytest.mark.parametrize("how", HOWS)
def test_a_report_checked_in_place_is_found_to_be_what_its_reader_says(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    body = changed(good()[0], how)
    in_place = checked(body, 10**9)
    monkeypatch.setattr(upload_checks, "usual_report", lambda *_: None)
    assert alike(in_place) == alike(checked(body, 10**9))


def test_a_usual_report_alone_is_checked_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_checks, "_reports", lambda *_: pytest.fail("read as an object"))
    found = checked(encode(good()[0]), 10**9)
    assert isinstance(found, CheckedUpload)
    assert (found.errors, [each.body for each in found.stored]) == ([None], [encode(good()[0])])


def test_a_moment_remembers_only_so_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_checks, "_MOST_TIMES", 3)
    moment = Moment(TERMS, Timely(NOW, SKEW, AGE), 0)
    units = TASK.time(NOW).units
    told = [moment.place(units + number) for number in range(-5, 5)]
    assert [moment.place(units + number) for number in range(-5, 5)] == told
    assert len(moment._of_time) == 3


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("unknown key", ReportError.HPKE_UNKNOWN_CONFIG_ID),
        ("extension", ReportError.UNSUPPORTED_EXTENSION),
        ("short", ReportError.INVALID_MESSAGE),
        ("early", ReportError.REPORT_TOO_EARLY),
        ("old", ReportError.REPORT_DROPPED),
        ("before the task", ReportError.TASK_NOT_STARTED),
    ],
)
def test_one_report_that_is_refused_takes_no_other_with_it(how: str, why: ReportError) -> None:
    body = b"".join([encode(good()[0]), changed(good()[1], how), encode(good()[2])])
    found = checked(body, 0)
    assert isinstance(found, CheckedUpload)
    assert [found.errors[0], found.errors[2]] == [None, None]
    assert found.errors[1] is TASK.profile.at_upload.get(why, why)
    assert [each.body for each in found.stored] == [encode(good()[0]), encode(good()[2])]


def test_reports_of_several_units_have_their_own_buckets() -> None:
    body = b"".join([encode(good()[0]), changed(good()[1], "another unit")])
    found = checked(body, 0)
    assert isinstance(found, CheckedUpload)
    assert len({each.bucket for each in found.stored}) == 2


def test_usual_reports_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"".join(encode(report) for report in good())
    monkeypatch.setattr(upload_checks, "_reports", lambda *_: pytest.fail("read one by one"))
    found = checked(body, 0)
    assert isinstance(found, CheckedUpload)
    assert b"".join(each.body for each in found.stored) == body


@pytest.mark.parametrize("least", [0, 10**9])
def test_a_request_of_more_reports_than_one_may_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(upload_checks, "MAX_REPORTS", 5)
    assert "5 reports" in str(checked(b"".join(encode(report) for report in good()), least))


PAID = make_task(attribution=ATTRIBUTION)
HALF = 500_000


def checked_at(body: bytes, least_budget: int, *, as_arrays: bool) -> CheckedUpload:
    terms, below = dataclasses.replace(TERMS, task=PAID), Below(least_budget=least_budget)
    moment = Moment(terms, Timely(NOW, SKEW, AGE), 0, below)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload_checks, "SHORT_BODY", 0 if as_arrays else 10**9)
        return check_reports(moment, body)


@pytest.mark.parametrize("as_arrays", [False, True])
def test_reports_with_a_budget_are_read_as_fast_as_those_of_other_tasks(
    monkeypatch: pytest.MonkeyPatch, *, as_arrays: bool
) -> None:
    monkeypatch.setattr(upload_checks, "_reports", lambda *_: pytest.fail("read as objects"))
    count = COUNT if as_arrays else 1
    sent = make_reports(PAID, *CONFIGS, [1] * count, PAID.time(NOW), ENTROPY, budget=HALF)
    found = checked_at(b"".join(map(encode, sent)), HALF, as_arrays=as_arrays)
    assert len(found.stored) == count


@pytest.mark.parametrize("as_arrays", [False, True])
@pytest.mark.parametrize("count", [1, COUNT])
def test_a_report_below_the_least_budget_is_found_however_it_is_read(
    count: int, *, as_arrays: bool
) -> None:
    sent = make_reports(PAID, *CONFIGS, [1] * count, PAID.time(NOW), ENTROPY, budget=HALF)
    poor = make_reports(PAID, *CONFIGS, [1], PAID.time(NOW), ENTROPY, budget=HALF - 1)
    body = b"".join(map(encode, [*sent[1:], *poor]))
    for least, error in ((HALF - 1, None), (HALF, ReportError.BUDGET_TOO_SMALL)):
        found = checked_at(body, least, as_arrays=as_arrays)
        assert [*found.errors] == [None] * (count - 1) + [error]
