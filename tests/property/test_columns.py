"""Columns say what the readers of single messages say, whatever bytes come."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import DecryptError, HpkeCiphertext, generate_keypair, open_, seal
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.hpke_suites import SUITES, Suite
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    ReportMetadata,
    ReportShare,
    ReportSizes,
    VerifyInit,
    VerifyRespContinue,
    VerifyRespReject,
)
from aggregator.dap.messages.byte_rows import strings
from aggregator.dap.messages.columns import ReportColumns, ShareColumns
from aggregator.dap.messages.job_columns import read_answers, read_job, write_answers, write_job
from aggregator.dap.profile import CODE_POINTS, REPORT_EXTENSION_SIGNATURE
from aggregator.dap.times import Time
from tests.support.entropy import SeededEntropy

PLAIN = ReportSizes(public_share=3, leader_payload=5, helper_payload=4, verify_payload=6)
SIGNED = PLAIN._replace(extension=7, extension_type=REPORT_EXTENSION_SIGNATURE)
PAID = PLAIN._replace(extension=4, extension_type=CODE_POINTS.privacy_budget)
ALL = st.sampled_from([PLAIN, SIGNED, PAID])
"""The sizes of reports without a public extension, with a signature, and with a budget."""
NARROW, WIDE = 32, 65  # keys of X25519 and of P-256
SPOILED = ("public_share", "enc", "payload", "extension", "bare", "message")


def ciphertext(fill: int, payload: int, enc: int) -> HpkeCiphertext:
    return HpkeCiphertext(fill % 256, bytes([fill % 251]) * enc, bytes([fill % 7]) * payload)


def report(
    sizes: ReportSizes, number: int, leader_enc: int = NARROW, helper_enc: int = NARROW
) -> Report:
    only = (Extension(sizes.extension_type, bytes([number]) * sizes.extension),)
    extensions = only if sizes.extension else ()
    return Report(
        ReportMetadata(ReportId(number.to_bytes(16, "big")), Time(2**63 + number), extensions),
        bytes([number]) * sizes.public_share,
        ciphertext(number, sizes.leader_payload, leader_enc),
        ciphertext(number + 1, sizes.helper_payload, helper_enc),
    )


def verify_init(sizes: ReportSizes, number: int, spoiled: str | None = None) -> VerifyInit:
    """Return a report of a job as its leader sends it, one of its fields of another size."""
    whole = report(sizes, number, helper_enc=WIDE if spoiled == "wide" else NARROW)
    share = ReportShare(
        whole.report_metadata, whole.public_share, whole.helper_encrypted_input_share
    )
    sealed = share.encrypted_input_share
    match spoiled:
        case "public_share":
            share = dataclasses.replace(share, public_share=b"")
        case "enc":
            share = dataclasses.replace(
                share, encrypted_input_share=dataclasses.replace(sealed, enc=b"?")
            )
        case "payload":
            share = dataclasses.replace(
                share, encrypted_input_share=dataclasses.replace(sealed, payload=b"?" * 9)
            )
        case "extension":
            metadata = dataclasses.replace(
                share.report_metadata, public_extensions=(Extension(1, b"x"),)
            )
            share = dataclasses.replace(share, report_metadata=metadata)
        case "bare":
            metadata = dataclasses.replace(share.report_metadata, public_extensions=())
            share = dataclasses.replace(share, report_metadata=metadata)
        case _:
            pass
    size = sizes.verify_payload + (spoiled == "message")
    return VerifyInit(share, bytes([number]) * size)


@given(ALL, st.lists(st.sampled_from([None, "wide", *SPOILED]), min_size=1, max_size=6))
def test_a_job_is_read_as_the_reader_of_single_reports_reads_it(
    sizes: ReportSizes,
    kinds: list[str | None],
) -> None:
    inits = tuple(verify_init(sizes, 1 + number, kind) for number, kind in enumerate(kinds))
    request = AggregationJobInitReq(3, b"param", (Extension(1, b"batch"),), inits)
    job = read_job(encode(request), sizes)
    assert (job.verification_key_id, job.agg_param) == (3, b"param")
    assert job.extensions == request.extensions
    assert job.ids == [each.report_share.report_metadata.report_id.value for each in inits]
    assert job.extended == {n for n, kind in enumerate(kinds) if kind == "extension"}
    bare = {n for n, kind in enumerate(kinds) if kind == "bare"}
    assert job.bare == (bare if sizes.extension else set())
    right = [None, "wide", "message", *([] if sizes.extension else ["bare"])]
    fitting = [n for n, kind in enumerate(kinds) if kind in right]
    assert job.places == fitting
    expected = [inits[place].report_share for place in fitting]
    shares = job.shares
    assert strings(shares.public_shares) == [each.public_share for each in expected]
    assert shares.times.tolist() == [each.report_metadata.time.units for each in expected]
    sealed = [each.encrypted_input_share for each in expected]
    assert shares.config_ids == [each.config_id for each in sealed]
    assert shares.encs == [each.enc for each in sealed]
    assert strings(shares.payloads) == [each.payload for each in sealed]
    blank = bytes(sizes.verify_payload)
    assert strings(job.messages) == [
        blank if kinds[place] == "message" else inits[place].payload for place in fitting
    ]
    if {*kinds} <= {None, "wide"}:
        head = job.verification_key_id, job.agg_param, job.extensions
        assert write_job(*head, shares, job.messages) == encode(request)


@given(ALL, st.integers(1, 5), st.data())
@settings(max_examples=300)
def test_a_job_with_a_bit_changed_is_read_or_refused_as_the_message_is(
    sizes: ReportSizes, count: int, data: st.DataObject
) -> None:
    inits = tuple(verify_init(sizes, 1 + number) for number in range(count))
    body = bytearray(encode(AggregationJobInitReq(3, b"", (), inits)))
    bit = data.draw(st.integers(0, 8 * len(body) - 1))
    body[bit // 8] ^= 1 << bit % 8
    try:
        whole = decode(AggregationJobInitReq, bytes(body))
    except DecodeError:
        # The reader by sizes skips what it does not look at: it may read more, but not otherwise.
        return
    job = read_job(bytes(body), sizes)
    ids = [each.report_share.report_metadata.report_id.value for each in whole.verify_inits]
    assert job.ids == ids
    if len(job.places) == len(ids) and job.messages.any(axis=1).all():
        head = job.verification_key_id, job.agg_param, job.extensions
        assert write_job(*head, job.shares, job.messages) == bytes(body)


ENCS = {
    2 * NARROW: [(NARROW, NARROW)],
    NARROW + WIDE: [(NARROW, WIDE), (WIDE, NARROW)],
    2 * WIDE: [(WIDE, WIDE)],
}
"""Which keys a report can have, by the bytes of both."""


@given(
    ALL,
    st.sampled_from([*ENCS]),
    st.lists(st.tuples(st.integers(0, 255), st.booleans(), st.integers(0, 1)), max_size=6),
)
def test_reports_are_the_columns_of_their_encodings_and_others_are_named(
    sizes: ReportSizes, keys: int, made: list[tuple[int, bool, int]]
) -> None:
    encs = ENCS[keys]
    reports = [report(sizes, number, *encs[which % len(encs)]) for number, _, which in made]
    fits = [each for _, each, _ in made]
    whole = [encode(each) for each in reports]
    width = sizes.report_of(*encs[0])
    spoiled = [
        body if is_whole else body[:24] + b"\1" + body[25:]
        for body, is_whole in zip(whole, fits, strict=True)
    ]
    found, others = ReportColumns.joined(b"".join(spoiled), width, sizes)
    assert {len(each) for each in whole} <= {width}
    assert others == [n for n, is_whole in enumerate(fits) if not is_whole]
    none, all_ = ReportColumns.joined(b"".join(whole) + bytes(len(whole)), width + 1, sizes)
    assert (len(none), none.ids, all_) == (0, [], [*range(len(whole))])
    kept = [each for each, is_whole in zip(reports, fits, strict=True) if is_whole]
    assert found.ids == [each.report_metadata.report_id.value for each in kept]
    for shares, sealed in (
        (found.leader_shares, [each.leader_encrypted_input_share for each in kept]),
        (found.helper_shares, [each.helper_encrypted_input_share for each in kept]),
    ):
        assert strings(shares.public_shares) == [each.public_share for each in kept]
        if sizes.extension and kept:
            data = [each.report_metadata.public_extensions[0].extension_data for each in kept]
            assert shares.signatures == data
            if sizes is PAID:
                assert shares.budgets.tolist() == [int.from_bytes(each, "big") for each in data]
        assert shares.config_ids == [each.config_id for each in sealed]
        assert shares.encs == [each.enc for each in sealed]
        assert strings(shares.payloads) == [each.payload for each in sealed]


@given(st.lists(st.none() | st.integers(1, 255), min_size=1, max_size=6))
def test_answers_are_the_bytes_of_the_message_and_read_back_if_none_is_rejected(
    errors: list[int | None],
) -> None:
    ids = [number.to_bytes(16, "big") for number in range(len(errors))]
    payloads = [bytes([number]) * 5 for number in range(len(errors))]
    answer = AggregationJobResp(
        tuple(
            VerifyRespContinue(ReportId(report_id), payload)
            if error is None
            else VerifyRespReject(ReportId(report_id), error)
            for report_id, payload, error in zip(ids, payloads, errors, strict=True)
        )
    )
    places = [place for place, error in enumerate(errors) if error is None]
    rejected = {place: error for place, error in enumerate(errors) if error is not None}
    rows = np.frombuffer(b"".join(payloads[place] for place in places), np.uint8).reshape(-1, 5)
    assert write_answers(ids, places, rows, rejected) == encode(answer)
    # One that has both a message and an error is refused.
    every = np.frombuffer(b"".join(payloads), np.uint8).reshape(-1, 5)
    assert write_answers(ids, [*range(len(ids))], every, rejected) == encode(answer)
    messages = read_answers(encode(answer), ids, 5)
    if rejected:
        assert messages is None
    else:
        assert messages is not None
        assert strings(messages) == payloads


@pytest.mark.parametrize("spoil", ["ids", "order", "length", "type", "size", "none"])
def test_answers_of_any_other_form_are_left_to_the_reader_of_messages(spoil: str) -> None:
    ids = [number.to_bytes(16, "big") for number in (1, 2)]
    rows = np.zeros((2, 5), np.uint8)
    body = write_answers(ids, [0, 1], rows, {})
    asked, size = [*ids], 5
    match spoil:
        case "ids":
            asked[1] = bytes(16)
        case "order":
            asked.reverse()
        case "length":
            body = body[:-1]
        case "type":
            body = body[:16] + b"\1" + body[17:]
        case "size":
            size = 4
        case _:
            asked = []
    assert read_answers(body, asked, size) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [*zip(SUITES.values(), [*SUITES.values()][::-1], strict=True)],
    ids=lambda suite: suite.name,
)
def test_many_ciphertexts_open_as_each_does_alone(first: Suite, second: Suite) -> None:
    keypairs = {
        1: generate_keypair(1, SeededEntropy(b"1"), first),
        2: generate_keypair(2, SeededEntropy(b"2"), second),
    }
    entropy = SeededEntropy(b"seal")
    sealed = [
        seal(keypairs[1 + n % 2].config, b"info", b"aad %d" % n, b"secret %d" % n, entropy)
        for n in range(8)
    ]
    sealed[1] = dataclasses.replace(sealed[1], payload=sealed[1].payload[:-1] + b"?")
    sealed[2] = dataclasses.replace(sealed[2], enc=bytes(32))  # a point of small order
    sealed[3] = dataclasses.replace(sealed[3], config_id=77)  # no key pair of ours
    sealed[4] = dataclasses.replace(sealed[4], payload=b"?")  # shorter than a tag
    sealed[5] = dataclasses.replace(sealed[5], config_id=1)  # the other key pair
    aads = [b"aad %d" % n for n in range(8)]

    def alone(row: int) -> bytes | None:
        try:
            return open_(keypairs[sealed[row].config_id], b"info", aads[row], sealed[row])
        except (DecryptError, KeyError):
            return None

    opened = open_many(
        keypairs,
        b"info",
        [each.config_id for each in sealed],
        [each.enc for each in sealed],
        [each.payload for each in sealed],
        aads,
    )
    assert opened == [alone(row) for row in range(8)]
    assert opened == [b"secret 0", None, None, None, None, None, b"secret 6", b"secret 7"]


def test_all_rows_in_another_order_are_taken_in_that_order() -> None:
    rows = np.arange(120, dtype=np.uint8).reshape(3, 40)
    shares = ShareColumns(rows, rows, 32)
    assert shares.take([2, 0, 1]).ids == [shares.ids[place] for place in (2, 0, 1)]
    assert shares.take([0, 1, 2]) is shares
