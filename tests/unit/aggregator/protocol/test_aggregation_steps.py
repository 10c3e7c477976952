"""One aggregation job between two parties, in memory, with every way a report can fail."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pytest
from typing_extensions import override

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeKeypair, generate_keypair, input_share_info, seal
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    PlaintextInputShare,
    Report,
    ReportShare,
    VerifyResp,
    VerifyRespContinue,
    VerifyRespFinish,
    VerifyRespReject,
    input_share_aad,
)
from aggregator.dap.messages.job_columns import read_job
from aggregator.dap.problems import InvalidAggregationParameter
from aggregator.dap.profile import DAP_18, Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.errors import ParameterError
from aggregator.protocol import opening
from aggregator.protocol.aggregation import (
    IncompatibleResponse,
    LeaderInit,
    LeaderState,
    ReportsLost,
    VerificationKey,
    leader_finish,
    leader_init,
    leader_resume,
)
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.helper_aggregation import HelperInit, helper_init
from aggregator.protocol.reports import (
    HELPER_MAX_AGE_SECONDS,
    PreparedReport,
    Rejected,
    prepare_reports,
    report_sizes,
    seal_report,
)
from aggregator.protocol.task import Task
from aggregator.vdaf.aggregation_parameter import AggregationParameter
from aggregator.vdaf.prio3 import Prio3
from tests.support.entropy import SeededEntropy
from tests.support.reports import columns
from tests.support.tasks import TIME_PRECISION, make_task

NOW = 1_700_000_050
UNITS = NOW // TIME_PRECISION
KEY = VerificationKey(0, bytes(range(32)))
LEADER = generate_keypair(1, SeededEntropy(b"leader"))
HELPER = generate_keypair(2, SeededEntropy(b"helper"))
LEADER_KEYS = {1: LEADER}
HELPER_KEYS = {2: HELPER}


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task(interval={"start": UNITS - 5, "duration": 10})


def prepared(task: Task, measurements: Sequence[int], units: int = UNITS) -> list[PreparedReport]:
    entropy = SeededEntropy(b"client %d" % units)
    return prepare_reports(task, measurements, Time(units), entropy)


def sealed(
    task: Task,
    report: PreparedReport,
    leader: HpkeKeypair = LEADER,
    helper: HpkeKeypair = HELPER,
) -> Report:
    return seal_report(task, report, leader.config, helper.config, SeededEntropy(b"seal"))


def reports_of(task: Task, measurements: Sequence[int], units: int = UNITS) -> list[Report]:
    return [sealed(task, report) for report in prepared(task, measurements, units)]


def ids_of(reports: Sequence[Report]) -> list[object]:
    return [report.report_metadata.report_id for report in reports]


def lead(task: Task, reports: Sequence[Report], now: int = NOW) -> LeaderInit:
    return leader_init(task, KEY, LEADER_KEYS, columns(task, reports), now)


def begun(task: Task, reports: Sequence[Report]) -> tuple[bytes, LeaderState]:
    init = lead(task, reports)
    assert init.request is not None
    assert init.state is not None
    return init.request, init.state


def request_of(task: Task, reports: Sequence[Report]) -> AggregationJobInitReq:
    return decode(AggregationJobInitReq, begun(task, reports)[0])


def help_(
    task: Task,
    request: bytes | AggregationJobInitReq,
    now: int = NOW,
    keys: Mapping[int, HpkeKeypair] = HELPER_KEYS,
) -> HelperInit:
    body = request if isinstance(request, bytes) else encode(request)
    return helper_init(task, KEY, keys, read_job(body, report_sizes(task)), now)


def answers(response: bytes) -> tuple[VerifyResp, ...]:
    return decode(AggregationJobResp, response).verify_resps


def sums(task: Task, leader: object, helper: object) -> list[int]:
    merged = task.prio3.merge([leader, helper])  # type: ignore[list-item]  # two vectors
    return [int(value) for value in merged.to_ints()]


def test_both_parties_end_with_shares_of_the_same_sums_in_the_same_buckets(task: Task) -> None:
    reports = reports_of(task, [0, 1, 1]) + reports_of(task, [3, 3], UNITS - 1)
    request, state = begun(task, reports)
    helper = help_(task, request)
    verified, rejected = leader_finish(task, state, helper.response({}))
    assert rejected == []
    for mine, theirs, expected, count in zip(
        verified.bucket_shares(),
        helper.verified.bucket_shares(),
        ([0, 0, 0, 2], [1, 2, 0, 0]),
        (2, 3),
        strict=True,
    ):
        assert mine.bucket == theirs.bucket
        assert sums(task, mine.agg_share, theirs.agg_share) == expected
        assert mine.totals == theirs.totals
        assert mine.totals.report_count == count
        of_bucket = {each for each, bucket in verified.accepted() if bucket == mine.bucket}
        assert mine.totals == BatchTotals.of(
            *zip(
                *(
                    (each, time)
                    for each, time in zip(verified.ids, verified.times.tolist(), strict=True)
                    if each in of_bucket
                ),
                strict=True,
            )
        )


def test_the_request_and_the_response_survive_the_wire(task: Task) -> None:
    request, _ = begun(task, reports_of(task, [0, 1]))
    assert encode(decode(AggregationJobInitReq, request)) == request
    response = help_(task, request).response({})
    assert encode(decode(AggregationJobResp, response)) == response


def test_a_resumed_leader_finishes_as_if_it_had_never_died(task: Task) -> None:
    reports = reports_of(task, [0, 1, 2])
    share = bytes(len(reports[1].public_share))
    bad = dataclasses.replace(reports[1], public_share=share)
    request, state = begun(task, [reports[0], bad, reports[2]])
    response = help_(task, request).response({})
    before, _ = leader_finish(task, state, response)
    resumed = leader_resume(task, KEY, LEADER_KEYS, request, columns(task, reports))
    after, _ = leader_finish(task, resumed, response)
    assert after.bucket_shares() == before.bucket_shares()


def test_a_resumed_leader_that_lost_what_the_helper_counted_says_so(task: Task) -> None:
    reports = reports_of(task, [0, 1, 2])
    request, _ = begun(task, reports)
    response = help_(task, request).response({})
    without_a_report = leader_resume(task, KEY, LEADER_KEYS, request, columns(task, reports[1:]))
    without_keys = leader_resume(task, KEY, {}, request, columns(task, reports))
    for resumed, lost in ((without_a_report, "^1 of"), (without_keys, "^3 of")):
        with pytest.raises(ReportsLost, match=lost):
            leader_finish(task, resumed, response)


def test_a_resumed_leader_goes_on_without_lost_reports_that_the_helper_rejected(
    task: Task,
) -> None:
    reports = reports_of(task, [0, 1, 2, 3])
    request, state = begun(task, reports)
    refused = dict.fromkeys(state.ids[1:3], ReportError.REPORT_REPLAYED)
    response = help_(task, request).response(refused)
    before, _ = leader_finish(task, state, response)
    for left in ([0, 3], [0, 2, 3]):
        some = columns(task, [reports[place] for place in left])
        resumed = leader_resume(task, KEY, LEADER_KEYS, request, some)
        after, rejected = leader_finish(task, resumed, response)
        assert after.bucket_shares() == before.bucket_shares()
        assert {each.report_id.value for each in rejected} == {*state.ids[1:3]}
        assert {each.error for each in rejected} == {ReportError.REPORT_REPLAYED}


@pytest.mark.parametrize("at_once", [1, 1000, opening.AT_ONCE])
def test_the_leader_rejects_what_it_cannot_open_and_sends_the_rest(
    task: Task, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """However many of them it opens at once."""
    monkeypatch.setattr(opening, "AT_ONCE", at_once)
    reports = reports_of(task, [0, 1, 2, 3])
    foreign = generate_keypair(1, SeededEntropy(b"another leader"))
    bad = prepared(task, [0, 1, 2, 3])
    reports[0] = sealed(task, bad[0], leader=foreign)
    reports[2] = sealed(task, bad[2], leader=foreign)
    init = lead(task, reports)
    assert init.rejected == [
        Rejected(reports[0].report_metadata.report_id, ReportError.HPKE_DECRYPT_ERROR),
        Rejected(reports[2].report_metadata.report_id, ReportError.HPKE_DECRYPT_ERROR),
    ]
    assert init.request is not None
    request = decode(AggregationJobInitReq, init.request)
    sent = [v.report_share.report_metadata.report_id for v in request.verify_inits]
    assert sent == [ids_of(reports)[1], ids_of(reports)[3]]
    assert init.state is not None
    helper = help_(task, init.request)
    verified, _ = leader_finish(task, init.state, helper.response({}))
    shares = [each.bucket_shares()[0].agg_share for each in (verified, helper.verified)]
    assert sums(task, *shares) == [0, 1, 0, 1]


def test_the_leader_leaves_out_what_it_lacks_a_key_for_and_does_not_reject_it(task: Task) -> None:
    """It had the key when the report was uploaded, so the key may come back."""
    lost = generate_keypair(77, SeededEntropy(b"a key that is away"))
    ready = prepared(task, [0, 1, 2])
    reports = [sealed(task, each) for each in ready]
    reports[1] = sealed(task, ready[1], leader=lost)
    init = lead(task, reports)
    assert init.rejected == []
    assert init.keyless == {reports[1].report_metadata.report_id: 77}
    assert init.request is not None
    request = decode(AggregationJobInitReq, init.request)
    sent = [v.report_share.report_metadata.report_id for v in request.verify_inits]
    assert sent == [ids_of(reports)[0], ids_of(reports)[2]]
    alone = lead(task, [reports[1]])
    assert (alone.request, alone.rejected, alone.keyless) == (None, [], init.keyless)
    keys = {**LEADER_KEYS, 77: lost}
    again = leader_init(task, KEY, keys, columns(task, reports), NOW)
    assert (again.rejected, again.keyless) == ([], {})
    assert len(decode(AggregationJobInitReq, again.request or b"").verify_inits) == len(reports)


def test_the_task_decides_first_whether_a_report_without_a_key_counts(task: Task) -> None:
    lost = generate_keypair(77, SeededEntropy(b"a key that is away"))
    (ready,) = prepared(task, [0], UNITS - 6)
    init = lead(task, [sealed(task, ready, leader=lost)])
    assert [failed.error for failed in init.rejected] == [ReportError.TASK_NOT_STARTED]
    assert init.keyless == {}


def test_the_helper_rejects_what_it_has_no_key_for_since_nobody_has_checked_its_id(
    task: Task,
) -> None:
    request, _ = begun(task, reports_of(task, [0, 1]))
    helper = help_(task, request, keys={})
    unknown = task.profile.at_aggregation.get(
        ReportError.HPKE_UNKNOWN_CONFIG_ID, ReportError.HPKE_UNKNOWN_CONFIG_ID
    )
    assert helper.errors == dict.fromkeys(range(2), unknown)


@pytest.mark.parametrize(
    ("units", "now", "error"),
    [
        (UNITS - 6, NOW, ReportError.TASK_NOT_STARTED),
        (UNITS + 5, NOW, ReportError.TASK_EXPIRED),
        (UNITS + 4, NOW, ReportError.REPORT_TOO_EARLY),
    ],
)
def test_both_parties_reject_an_untimely_report(
    task: Task, units: int, now: int, error: ReportError
) -> None:
    (report,) = reports_of(task, [0], units)
    init = lead(task, [report], now)
    assert init.request is None
    assert [failed.error for failed in init.rejected] == [error]
    request = AggregationJobInitReq(
        0, b"", (), request_of(task, reports_of(task, [0])).verify_inits
    )
    share = dataclasses.replace(
        request.verify_inits[0].report_share, report_metadata=report.report_metadata
    )
    late = dataclasses.replace(request.verify_inits[0], report_share=share)
    helper = help_(task, dataclasses.replace(request, verify_inits=(late,)), now)
    assert helper.ids == [report.report_metadata.report_id.value]
    assert helper.errors == {0: error}


def test_a_report_may_be_ahead_of_the_clock_by_the_skew_and_no_more(task: Task) -> None:
    (report,) = reports_of(task, [0], UNITS + 1)
    first_second, stored = (UNITS + 1) * TIME_PRECISION, columns(task, [report])
    assert leader_init(task, KEY, LEADER_KEYS, stored, first_second - 60, 60).request
    assert not leader_init(task, KEY, LEADER_KEYS, stored, first_second - 61, 60).request


def test_the_leader_rejects_no_report_for_its_age_which_was_checked_at_upload() -> None:
    """Its clock may be ahead for one job. At the helper, age is a limit of its own."""
    task = make_task()
    reports = reports_of(task, [0, 1])
    years_ahead = NOW + 2 * HELPER_MAX_AGE_SECONDS
    init = lead(task, reports, years_ahead)
    assert not init.rejected
    assert init.request == lead(task, reports).request
    assert help_(task, request_of(task, reports)).errors == {}
    dropped = dict.fromkeys(range(2), ReportError.REPORT_DROPPED)
    assert help_(task, request_of(task, reports), years_ahead).errors == dropped


def test_a_plaintext_with_a_report_extension_is_an_invalid_message(task: Task) -> None:
    (report,), size = prepared(task, [0]), len(Extension(0x4242, b"").extension_data) + 4
    # Of the size that a share has without an extension: others are refused before they are opened.
    plaintext = PlaintextInputShare((Extension(0x4242, b""),), report.leader_input_share[:-size])
    aad = input_share_aad(task.input_share_aad_prefix, report.metadata, report.public_share)
    info = input_share_info(DAP_18.tag, Role.LEADER)
    share = seal(LEADER.config, info, aad, encode(plaintext), SeededEntropy(b"seal"))
    whole = dataclasses.replace(sealed(task, report), leader_encrypted_input_share=share)
    init = lead(task, [whole])
    assert [failed.error for failed in init.rejected] == [ReportError.INVALID_MESSAGE]


def test_an_input_share_that_does_not_decode_is_an_invalid_message(task: Task) -> None:
    report, good = prepared(task, [0, 1])
    share = b"\xff" * 16 + report.leader_input_share[16:]  # a residue that is not below p
    bad = dataclasses.replace(report, leader_input_share=share)
    init = lead(task, [sealed(task, bad), sealed(task, good)])
    assert [failed.error for failed in init.rejected] == [ReportError.INVALID_MESSAGE]
    assert init.request is not None
    assert len(decode(AggregationJobInitReq, init.request).verify_inits) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda share: dataclasses.replace(share, public_share=share.public_share[:-1]),
        lambda share: dataclasses.replace(
            share,
            encrypted_input_share=dataclasses.replace(
                share.encrypted_input_share, payload=share.encrypted_input_share.payload + b"?"
            ),
        ),
        lambda share: dataclasses.replace(
            share,
            encrypted_input_share=dataclasses.replace(share.encrypted_input_share, enc=b"?" * 33),
        ),
        lambda share: dataclasses.replace(
            share,
            report_metadata=dataclasses.replace(
                share.report_metadata, public_extensions=(Extension(0x4242, b""),)
            ),
        ),
    ],
    ids=["public share", "payload", "encapsulated key", "extension"],
)
def test_a_report_of_other_sizes_is_an_invalid_message_at_the_helper_alone(
    task: Task, spoil: Callable[[ReportShare], ReportShare]
) -> None:
    request = request_of(task, reports_of(task, [0, 1, 2]))
    first, odd, last = request.verify_inits
    odd = dataclasses.replace(odd, report_share=spoil(odd.report_share))
    helper = help_(task, dataclasses.replace(request, verify_inits=(first, odd, last)))
    assert helper.errors == {1: ReportError.INVALID_MESSAGE}
    good = (first.report_share, last.report_share)
    assert helper.verified.ids == [each.report_metadata.report_id.value for each in good]


@pytest.mark.parametrize(
    ("profile", "errors"),
    [
        ("dap-18", [ReportError.INVALID_MESSAGE] * 4),
        (
            "dap-19",
            [
                ReportError.UNSUPPORTED_EXTENSION,
                ReportError.INVALID_MESSAGE,
                ReportError.HPKE_DECRYPT_ERROR,
                ReportError.HPKE_UNKNOWN_CONFIG_ID,
            ],
        ),
    ],
)
def test_a_helper_says_of_a_share_with_a_private_extension_what_its_draft_says(
    profile: str, errors: list[ReportError]
) -> None:
    task = make_task(profile=profile)
    reports = prepared(task, [0, 1, 2, 3])
    extensions = [(Extension(0x4242, b"?"),), (), (), ()]
    inits = []
    for place, (report, init) in enumerate(
        zip(reports, request_of(task, reports_of(task, [0, 1, 2, 3])).verify_inits, strict=True)
    ):
        plaintext = PlaintextInputShare(extensions[place], report.helper_input_share + b"longer")
        aad = input_share_aad(task.input_share_aad_prefix, report.metadata, report.public_share)
        info = input_share_info(task.profile.tag, Role.HELPER)
        share = seal(HELPER.config, info, aad, encode(plaintext), SeededEntropy(b"seal"))
        if place == 2:
            share = dataclasses.replace(share, payload=share.payload + b"?")
        if place == 3:
            share = dataclasses.replace(share, config_id=9)
        whole = dataclasses.replace(init.report_share, encrypted_input_share=share)
        inits.append(dataclasses.replace(init, report_share=whole))
    helper = help_(task, AggregationJobInitReq(0, b"", (), tuple(inits)))
    assert [helper.errors[place] for place in range(4)] == errors
    assert not helper.verified.ids


def test_a_leaders_message_of_another_size_rejects_the_report_alone(task: Task) -> None:
    request = request_of(task, reports_of(task, [0, 1, 2]))
    first, odd, last = request.verify_inits
    for payload in (odd.payload[:-1], odd.payload + b"?", b"?"):
        other = dataclasses.replace(odd, payload=payload)
        helper = help_(task, dataclasses.replace(request, verify_inits=(first, other, last)))
        assert helper.errors == {1: ReportError.VDAF_VERIFY_ERROR}


def test_the_helper_rejects_a_false_proof_and_the_leader_follows(task: Task) -> None:
    liar, honest = prepared(task, [0, 1])
    share = bytearray(liar.leader_input_share)
    share[0] ^= 1
    bad = sealed(task, dataclasses.replace(liar, leader_input_share=bytes(share)))
    request, state = begun(task, [bad, sealed(task, honest)])
    helper = help_(task, request)
    verified, rejected = leader_finish(task, state, helper.response({}))
    assert rejected == [Rejected(liar.metadata.report_id, ReportError.VDAF_VERIFY_ERROR)]
    for each in (verified, helper.verified):
        assert [report_id for report_id, _ in each.accepted()] == [honest.metadata.report_id.value]


def test_a_helper_that_can_open_nothing_answers_for_every_report(task: Task) -> None:
    request, _ = begun(task, reports_of(task, [0, 1]))
    helper = help_(task, request, keys={})
    resps = answers(helper.response({}))
    assert [resp.report_id.value for resp in resps] == helper.ids
    assert all(
        resp == VerifyRespReject(resp.report_id, DAP_18.code(ReportError.HPKE_DECRYPT_ERROR))
        for resp in resps
    )
    assert helper.verified.bucket_shares() == []


def test_a_report_that_the_store_refuses_is_in_the_answer_and_not_in_the_buckets(
    task: Task,
) -> None:
    reports = reports_of(task, [0, 1, 2])
    request, state = begun(task, reports)
    helper = help_(task, request)
    replayed = reports[1].report_metadata.report_id
    refused = {replayed.value: ReportError.REPORT_REPLAYED}
    response = helper.response(refused)
    assert answers(response)[1] == VerifyRespReject(
        replayed, DAP_18.code(ReportError.REPORT_REPLAYED)
    )
    verified, rejected = leader_finish(task, state, response)
    assert rejected == [Rejected(replayed, ReportError.REPORT_REPLAYED)]
    (mine,), (theirs,) = verified.bucket_shares(), helper.verified.bucket_shares(refused)
    assert sums(task, mine.agg_share, theirs.agg_share) == [1, 0, 1, 0]


def test_an_answer_about_other_reports_or_in_another_order_is_incompatible(task: Task) -> None:
    request, state = begun(task, reports_of(task, [0, 1]))
    first, second = answers(help_(task, request).response({}))
    for resps in (
        (second, first),
        (first,),
        (first, second, second),
        (),
        (first, VerifyRespFinish(second.report_id)),
    ):
        with pytest.raises(IncompatibleResponse):
            leader_finish(task, state, encode(AggregationJobResp(resps)))


def test_an_answer_with_any_bit_changed_on_the_way_is_asked_for_again(task: Task) -> None:
    request, state = begun(task, reports_of(task, [0, 1]))
    answer = help_(task, request).response({})

    def read(data: bytes) -> None:
        leader_finish(task, state, data)

    read(answer)
    for bit in range(0, 8 * len(answer), 3):
        changed = bytearray(answer)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((DecodeError, IncompatibleResponse)):
            read(bytes(changed))


def test_a_helpers_wrong_verifier_message_rejects_no_report(task: Task) -> None:
    """The helper has counted it, so the sums would differ: a person decides."""
    request, state = begun(task, reports_of(task, [0, 1]))
    first, second = answers(help_(task, request).response({}))
    assert isinstance(first, VerifyRespContinue)
    wrong = VerifyRespContinue(first.report_id, first.payload[:-1] + b"?")
    with pytest.raises(IncompatibleResponse, match="that the helper accepted fails here"):
        leader_finish(task, state, encode(AggregationJobResp((wrong, second))))


def test_nothing_secret_is_shown(task: Task) -> None:
    (report,) = prepared(task, [0])
    init = lead(task, [sealed(task, report)])
    shown = repr((report, init.state, KEY))
    for secret in (report.leader_input_share, report.helper_input_share, KEY.key):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


@dataclasses.dataclass(frozen=True)  # no slots: see `Parameters`
class Parametrized(Prio3):
    """A VDAF that takes one aggregation parameter, and no other."""

    asked: list[AggregationParameter] = dataclasses.field(default_factory=list, compare=False)

    @override
    def aggregating(self, agg_param: AggregationParameter) -> Self:
        self.asked.append(agg_param)
        if agg_param.encoded != b"prefixes":
            raise ParameterError("not a list of prefixes")
        return self


def test_a_vdaf_that_takes_a_parameter_gets_it_at_every_step_and_from_the_wire(task: Task) -> None:
    fields = {field.name: getattr(task.prio3, field.name) for field in dataclasses.fields(Prio3)}
    vdaf = Parametrized(**fields)
    task = dataclasses.replace(task, prio3=vdaf)
    parameter = AggregationParameter(b"prefixes")
    reports = columns(task, reports_of(task, [0, 1]))
    init = leader_init(task, KEY, LEADER_KEYS, reports, NOW, agg_param=parameter)
    assert init.request is not None
    assert init.state is not None
    helper = help_(task, init.request)
    verified, _ = leader_finish(task, init.state, helper.response({}))
    resumed = leader_resume(task, KEY, LEADER_KEYS, init.request, reports)
    again, _ = leader_finish(task, resumed, helper.response({}))
    (mine,), (theirs,) = verified.bucket_shares(), helper.verified.bucket_shares()
    assert again.bucket_shares() == [mine]
    assert sums(task, mine.agg_share, theirs.agg_share) == [1, 1, 0, 0]
    assert set(vdaf.asked) == {parameter}
    with pytest.raises(InvalidAggregationParameter, match="not a list of prefixes"):
        help_(
            task,
            dataclasses.replace(decode(AggregationJobInitReq, init.request), agg_param=b"other"),
        )


def test_prio3_refuses_a_parameter(task: Task) -> None:
    request = dataclasses.replace(request_of(task, reports_of(task, [0])), agg_param=b"some")
    with pytest.raises(InvalidAggregationParameter, match="Prio3 takes no aggregation parameter"):
        help_(task, request)
