import sys

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app


def test_noise_is_timed_beside_opendp_in_the_same_run() -> None:
    pytest.importorskip("opendp", reason="OpenDP is a development dependency")
    result = CliRunner().invoke(app, ["noise", "--scale", "9/2", "--count", "2000"])
    assert result.exit_code == 0, result.output
    row = next(line for line in result.output.splitlines() if "9/2" in line)
    _, ours, rival, ratio = [float(cell.replace("9/2", "0")) for cell in row.split("│")[1:-1]]
    assert min(ours, rival) > 0
    assert ratio == pytest.approx(rival / ours, rel=0.05, abs=0.5)  # printed as a whole number


def test_without_opendp_our_own_time_is_still_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    result = CliRunner().invoke(app, ["noise", "--scale", "4", "--count", "1000"])
    assert result.exit_code == 0, result.output
    assert "not installed" in result.output
