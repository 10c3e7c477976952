"""Reports whose ids are new are let in all at once, or looked at one by one, with one outcome."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.dap.report_errors import ReportError
from aggregator.service.storage.reports.ids import Room, let_in

BUCKETS = [b"a", b"b", b"c"]


@given(
    st.lists(st.sampled_from(BUCKETS)),
    st.sets(st.sampled_from(BUCKETS), max_size=1),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_closed_buckets_and_full_batches_take_none_and_room_is_taken_by_what_counts(
    buckets: list[bytes], closed: set[bytes], shared: int, alone: int
) -> None:
    both, one = Room(shared), Room(alone)
    room = {b"a": both, b"b": both, b"c": one}
    errors = let_in(buckets, closed, room)
    left = {id(both): shared, id(one): alone}
    wanted: list[ReportError | None] = []
    for bucket in buckets:
        of_batch = id(room[bucket])
        if bucket in closed:
            wanted.append(ReportError.BATCH_COLLECTED)
        elif left[of_batch] <= 0:
            wanted.append(ReportError.REPORT_DROPPED)
        else:
            left[of_batch] -= 1
            wanted.append(None)
    assert errors == wanted
    assert (both.left, one.left) == (left[id(both)], left[id(one)])
