"""`prio audit self-test` from the shell: what it prints, what it refuses, its exit status."""

import json

import pytest
import typer
from typer.testing import CliRunner, Result

from aggregator.cli.steward.audit import self_test
from aggregator.dp.mechanisms import Mechanism
from aggregator.steward.audit.report import FALSE_ALARM
from field import Vector
from tests.support.mechanisms import noisy_examples

app = typer.Typer()
app.command()(self_test)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--processes", "1"])


TRUNCATED = ["--mechanism", "TruncatedGeometric"]


@pytest.mark.parametrize("mechanism", noisy_examples(), ids=lambda each: each.name)
def test_every_mechanism_is_audited_by_its_own_parameters(mechanism: Mechanism) -> None:
    given = [word for name, each in mechanism.parameters().items() for word in (f"--{name}", each)]
    options = ["--mechanism", mechanism.name, *map(str, given)]
    result = run("--circuit", "histogram", *options, "--runs", "200", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["mechanism"] == mechanism.name
    assert answer["refuted"] is False


def test_a_right_mechanism_is_not_refuted() -> None:
    result = run("--circuit", "count", "--epsilon", "1/2", "--runs", "200", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["version"] == 1
    assert answer["type"] == "Prio3Count"
    assert answer["epsilon"] == "1/2"
    assert answer["runs"] == 200
    assert answer["confidence"] == 1 - FALSE_ALARM
    assert answer["refuted"] is False
    assert 0 <= answer["epsilon_lower_bound"] <= 0.5
    assert answer["epsilon_lower_bound"] < answer["largest_epsilon_in_reach"]


def test_a_wrong_mechanism_is_refuted_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_noise(agg_share: Vector, *_: object) -> Vector:
        return agg_share

    monkeypatch.setattr("aggregator.protocol.collection.add_noise", no_noise)
    result = run("--circuit", "histogram", "--epsilon", "1", "--runs", "200")
    assert result.exit_code == 1
    assert "REFUTED" in result.stdout
    assert "100 of 100 times with that data set" in result.stdout
    result = run("--circuit", "histogram", "--epsilon", "1", "--runs", "200", "--json")
    answer = json.loads(result.stdout)
    # Nothing could have been seen more often: this is as far as so many collections reach.
    assert answer["epsilon_lower_bound"] == pytest.approx(answer["largest_epsilon_in_reach"])


@pytest.mark.parametrize("option", ["--config", "--store-key-file", "--url"])
def test_the_self_test_takes_no_configuration_store_or_key(option: str) -> None:
    result = run("--circuit", "count", "--epsilon", "1", option, "leader.toml")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--circuit", "count", "--epsilon", "0"], "epsilon must be positive"),
        (["--circuit", "count"], "epsilon: missing; the mechanism PureDpDiscreteLaplace needs it"),
        (["--circuit", "count", "--epsilon", "1", "--delta", "1/900"], "has no such parameter"),
        (
            [*TRUNCATED, "--circuit", "count", "--epsilon", "1", "--delta", "1/900"],
            "is for Prio3Histogram",
        ),
        (["--circuit", "count", "--mechanism", "None"], "promises nothing that could be refuted"),
        (["--circuit", "count", "--mechanism", "Some"], "mechanism must be one of"),
        (["--circuit", "histogram", "--epsilon", "1", "--length", "1"], "nothing to audit"),
    ],
)
def test_bad_input_ends_with_status_2_and_says_why(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.slow
def test_processes_share_the_collections() -> None:
    result = CliRunner().invoke(
        app,
        ["--circuit", "count", "--epsilon", "1", "--runs", "1000", "--processes", "2", "--json"],
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"] == 1000
