from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from aggregator.cli.steward.noise import noise
from aggregator.errors import ParameterError

app = typer.Typer()
app.command()(noise)


def run(tmp_path: Path, *arguments: str) -> tuple[np.ndarray, str]:
    out = tmp_path / "draws.npy"
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return np.load(out, allow_pickle=True), result.output


def test_draws_are_saved_as_machine_words_and_the_output_says_so(tmp_path: Path) -> None:
    draws, output = run(tmp_path, "--scale", "51000/7", "--count", "1000")
    assert draws.dtype == np.int64
    assert draws.shape == (1000,)
    assert "1000 draws of discrete Laplace noise with t = 51000/7, dtype int64" in output
    again, _ = run(tmp_path, "--scale", "51000/7", "--count", "1000")
    assert draws.tolist() != again.tolist()


def test_draws_beyond_a_word_are_saved_whole_and_the_output_says_so(tmp_path: Path) -> None:
    draws, output = run(tmp_path, "--scale", str(2**70), "--count", "20")
    assert draws.dtype == np.object_
    assert max(abs(draw) for draw in draws) > 2**64
    assert "dtype object (Python integers; load with allow_pickle=True)" in output


@pytest.mark.parametrize(("option", "value", "k"), [("--bound", "3", 3), ("--delta", "1e-5", 11)])
def test_truncated_noise_stays_within_its_bound(
    tmp_path: Path, option: str, value: str, k: int
) -> None:
    kind = ("--kind", "truncated-geometric")
    draws, output = run(tmp_path, "--scale", "1", "--count", "5000", *kind, option, value)
    assert np.abs(draws).max() <= k
    assert f"k = {k}" in output


def test_the_scale_of_the_gaussian_is_sigma(tmp_path: Path) -> None:
    arguments = ("--scale", "5/2", "--count", "20000", "--kind", "discrete-gaussian")
    draws, output = run(tmp_path, *arguments)
    assert "sigma^2 = 25/4" in output
    assert 5.8 < draws.var() < 6.7  # 6.25, seven standard errors of 0.0625


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--scale", "0"), "scale must be positive"),
        (("--scale", "1/0"), "scale must have a denominator"),
        (("--scale", "one"), "scale must be a positive rational"),
        (("--scale", "1", "--bound", "3"), "bound: discrete-laplace noise is not truncated"),
        (("--scale", "1", "--kind", "truncated-geometric"), "needs either --bound or --delta"),
    ],
    ids=["zero", "no denominator", "no number", "needless bound", "missing bound"],
)
def test_wrong_parameters_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        run(tmp_path, "--count", "3", *arguments)
    assert list(tmp_path.iterdir()) == []
