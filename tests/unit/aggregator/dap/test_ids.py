import pytest

from aggregator.codec import DecodeError
from aggregator.dap.ids import (
    AggregateShareId,
    AggregationJobId,
    BatchId,
    CollectionJobId,
    Identifier,
    ReportId,
    TaskId,
    decode_base64url,
    encode_base64url,
)
from aggregator.errors import ParameterError
from tests.support.entropy import ScriptedEntropy

# DAP, "HTTP Usage", gives these two.
TASK_ID = "f0163447364ccf1bc0e3affcca6873c9c381f64acdf9020662f83f46c07219e7"
TASK_TEXT = "8BY0RzZMzxvA46_8ymhzycOB9krN-QIGYvg_RsByGec"


def test_an_id_is_written_as_the_draft_writes_it() -> None:
    task_id = TaskId(bytes.fromhex(TASK_ID))
    assert str(task_id) == TASK_TEXT
    assert TaskId.parse(TASK_TEXT) == task_id
    job_id = AggregationJobId.parse("lc7aUeGpdSNosNlh-UZhKA")
    assert job_id.value.hex() == "95ceda51e1a9752368b0d961f9466128"


@pytest.mark.parametrize(
    "text",
    [
        TASK_TEXT + "=",  # padding
        TASK_TEXT[:-1],  # impossible length
        TASK_TEXT[:-1] + "d",  # bits behind the last byte
        TASK_TEXT.replace("_", "/"),  # the other alphabet
        TASK_TEXT[:-1] + "é",
        TASK_TEXT + "\n",
        " " + TASK_TEXT[1:],
    ],
)
def test_text_that_is_not_canonical_base64url_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="base64url"):
        TaskId.parse(text)


def test_an_id_of_another_size_is_refused() -> None:
    with pytest.raises(DecodeError, match="TaskId must be 32 bytes long, not 31"):
        TaskId.parse(encode_base64url(bytes(31)))
    with pytest.raises(ParameterError, match="ReportId must be 16 bytes long, not 17"):
        ReportId(bytes(17))


@pytest.mark.parametrize("size", range(5))
def test_base64url_of_every_remainder_round_trips(size: int) -> None:
    data = bytes(range(250, 250 + size))
    assert decode_base64url(encode_base64url(data)) == data


def test_ids_of_different_kinds_are_never_equal() -> None:
    kinds: list[type[Identifier]] = [
        ReportId,
        AggregationJobId,
        CollectionJobId,
        AggregateShareId,
    ]
    assert len({kind(bytes(16)) for kind in kinds}) == 4
    wide: list[type[Identifier]] = [TaskId, BatchId]
    assert len({kind(bytes(32)) for kind in wide}) == 2


def test_a_fresh_id_takes_its_size_from_the_entropy() -> None:
    assert BatchId.random(ScriptedEntropy(b"b" * 32)) == BatchId(b"b" * 32)
    assert ReportId.random(ScriptedEntropy(b"r" * 16)) == ReportId(b"r" * 16)
