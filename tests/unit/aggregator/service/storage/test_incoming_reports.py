"""Reports on their way into the store are the same as columns and as objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.service.storage.reports import incoming
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.incoming import IncomingReports

BUCKETS = (b"", b"one", b"two")


def request_of(first: int, buckets: list[bytes], width: int) -> list[StoredReport]:
    """Return the reports of a request, which have one width."""
    ids = [number.to_bytes(16, "big") for number in range(first, first + len(buckets))]
    return [
        StoredReport(each, bucket, place % 3, each + bytes([place % 251]) * width)
        for place, (each, bucket) in enumerate(zip(ids, buckets, strict=True))
    ]


def columns(reports: list[StoredReport]) -> IncomingReports:
    """Return a request's reports as they come, one after another in its body."""
    return IncomingReports(
        [each.report_id for each in reports],
        [each.bucket for each in reports],
        [each.day for each in reports],
        b"".join(each.body for each in reports),
        len(reports[0].body) if reports else 0,
    )


requests = st.lists(
    st.tuples(st.lists(st.sampled_from(BUCKETS), max_size=9), st.sampled_from([1, 5])), max_size=5
)


def made(drawn: list[tuple[list[bytes], int]]) -> list[list[StoredReport]]:
    return [request_of(1000 * n, buckets, width) for n, (buckets, width) in enumerate(drawn)]


@given(requests)
def test_columns_are_the_reports_that_they_were_made_of(
    drawn: list[tuple[list[bytes], int]],
) -> None:
    reports = made(drawn)
    joined = IncomingReports.joined([columns(each) for each in reports])
    objects = [report for each in reports for report in each]
    assert [*joined] == objects
    assert [*IncomingReports.of(objects)] == objects
    assert joined.size == sum(len(each.body) for each in objects)
    assert joined.heads(17) == [each.body[:17] for each in objects]
    assert joined[-1:] == objects[-1:]


@given(requests, st.integers(1, 7), st.integers(1, 120))
def test_pieces_are_all_reports_in_order_and_only_one_report_is_larger_than_a_piece(
    drawn: list[tuple[list[bytes], int]], most: int, most_bytes: int
) -> None:
    reports = made(drawn)
    objects = [report for each in reports for report in each]
    for whole in (
        IncomingReports.joined([columns(each) for each in reports]),
        IncomingReports.of(objects),
    ):
        pieces = [*whole.pieces(most, most_bytes)]
        assert [report for piece in pieces for report in piece] == objects
        assert all(len(piece) <= most for piece in pieces)
        assert all(piece.size <= most_bytes or len(piece) == 1 for piece in pieces)
        assert all(map(len, pieces)) == bool(objects)


@given(requests, st.sets(st.integers(0, 20)), st.integers(1, 4))
def test_groups_have_the_reports_of_one_bucket_and_width_in_order_but_those_left_out(
    drawn: list[tuple[list[bytes], int]], without: set[int], most: int
) -> None:
    reports = made(drawn)
    objects = [report for each in reports for report in each]
    kinds: dict[tuple[bytes, int], bytes] = {}
    for place, each in enumerate(objects):
        if place not in without:
            kind = each.bucket, len(each.body)
            kinds[kind] = kinds.get(kind, b"") + each.body
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incoming, "MOST_REPORTS", most)
        for whole in (
            IncomingReports.joined([columns(each) for each in reports]),
            IncomingReports.of(objects),
        ):
            found: dict[tuple[bytes, int], bytes] = {}
            for group in whole.packed(without):
                assert len(group.body) == group.size * group.width
                assert 0 < group.size <= most
                kind = group.bucket, group.width
                found[kind] = found.get(kind, b"") + group.body
            assert found == kinds


def test_a_request_that_becomes_a_group_is_not_copied() -> None:
    whole = columns(request_of(0, [b"one"] * 5, 9))
    (group,) = whole.packed()
    (again,) = IncomingReports.joined([whole]).packed()
    assert group.body is again.body


def test_no_report_is_an_object_on_its_way_unless_somebody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = columns(request_of(0, [b"one", b"two"] * 4, 9))
    monkeypatch.setattr(incoming, "StoredReport", lambda *_: pytest.fail("made an object"))
    for piece in whole.pieces(3, 10**6):
        assert [*piece.packed()]


def test_a_place_that_is_not_there_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        columns([])[0]
