"""How a command fails whose fault comes out of a task group, as a group of faults."""

import pytest

from aggregator.cli.faults import BAD_INPUT, PEER, reported
from aggregator.errors import ParameterError, PeerError


@pytest.mark.parametrize(
    ("fault", "status"),
    [(ParameterError("epsilon: is wrong"), BAD_INPUT), (PeerError("is away"), PEER)],
)
def test_a_fault_in_groups_is_one_line_and_a_status(
    capsys: pytest.CaptureFixture[str], fault: Exception, status: int
) -> None:
    with pytest.raises(SystemExit) as ended, reported():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [fault])])
    assert ended.value.code == status
    assert capsys.readouterr().err == f"prio: {fault}\n"


def test_a_group_with_a_fault_of_our_own_is_shown_whole() -> None:
    group = ExceptionGroup("both", [ParameterError("epsilon"), ZeroDivisionError()])
    with pytest.raises(ExceptionGroup) as shown, reported():
        raise group
    assert shown.value is group
