"""What long work shows: something that moves, on a terminal's standard error and nowhere else."""

import sys

import pytest

from aggregator.cli.spinner import spinning


def test_a_terminal_sees_what_is_done_and_pipes_see_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal, shown in (("1", True), ("0", False)):
        monkeypatch.setenv("TTY_COMPATIBLE", is_terminal)
        monkeypatch.setenv("TERM", "xterm")
        with spinning("counting sheep", 2) as advance:
            advance("counting goats")
            sys.stdout.write("one result\n")
        told = capsys.readouterr()
        assert told.out == "one result\n"
        assert ("counting goats" in told.err) is shown
        assert ("0:00:00" in told.err) is shown
