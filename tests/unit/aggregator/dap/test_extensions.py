import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.extensions import (
    Extension,
    MisorderedCollectionExtensions,
    find,
    is_increasing,
    unrecognized,
)
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    AggregationJobInitReq,
    CollectionJobReq,
    LeaderSelectedQuery,
    PlaintextInputShare,
    ReportMetadata,
)
from aggregator.dap.problems import InvalidExtension, InvalidMessage, as_problem
from aggregator.dap.times import Time

A, B, C = Extension(1, b"a"), Extension(2, b"b"), Extension(3, b"c")


def test_types_must_strictly_increase() -> None:
    assert is_increasing(())
    assert is_increasing((A, B, C))
    assert not is_increasing((B, A))
    assert not is_increasing((A, A))


def test_the_first_of_a_type_is_found() -> None:
    assert find((A, B), 2) == b"b"
    assert find((A, B), 3) is None


def test_unrecognized_types_are_listed_in_order() -> None:
    assert unrecognized((A, B, C), {2}) == (1, 3)


@pytest.mark.parametrize("misordered", [(B, A), (A, A)])
def test_a_misordered_aggregation_job_is_an_invalid_message(
    misordered: tuple[Extension, ...],
) -> None:
    data = encode(AggregationJobInitReq(0, b"", misordered, ()))
    with pytest.raises(DecodeError, match="must strictly increase") as raised:
        decode(AggregationJobInitReq, data)
    assert as_problem(raised.value).type_uri == InvalidMessage.type_uri


@pytest.mark.parametrize("misordered", [(B, A), (A, A)])
def test_a_misordered_collection_job_is_an_invalid_extension(
    misordered: tuple[Extension, ...],
) -> None:
    data = encode(CollectionJobReq(LeaderSelectedQuery(), b"", misordered))
    with pytest.raises(MisorderedCollectionExtensions, match="must strictly increase") as raised:
        decode(CollectionJobReq, data)
    assert as_problem(raised.value).type_uri == InvalidExtension.type_uri


def test_a_misordered_report_is_read_so_that_it_can_be_rejected_by_itself() -> None:
    metadata = ReportMetadata(ReportId(bytes(16)), Time(0), (B, A))
    assert decode(ReportMetadata, encode(metadata)) == metadata
    share = PlaintextInputShare((A, A), b"share")
    assert decode(PlaintextInputShare, encode(share)) == share
