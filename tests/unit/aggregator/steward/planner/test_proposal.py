"""A proposal: every figure is that of `prio plan` and `prio survey check`, for each kind."""

import json
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from aggregator.cli.steward import plan as plan_command
from aggregator.cli.steward import survey as survey_command
from aggregator.dp.composition import Releases, bounds, smallest_valid
from aggregator.errors import ParameterError
from aggregator.steward.planner.form import NOISES, Draft
from aggregator.steward.planner.proposal import Proposal, propose
from aggregator.steward.planner.survey_question import KINDS
from aggregator.steward.planning.advise import STRENGTHS
from aggregator.steward.planning.output import to_json

TODAY = date(2026, 11, 25)
SAME_AS_ADVISE = ("multiple",)
"""Kinds whose least precise figure is one released sum, of which `prio plan advise` speaks. Counts
of which all that answer have one are made of several, and so are shares, means and a tree's."""


def proposed(**fields: str) -> Proposal:
    return propose(Draft.of(fields, TODAY))


def printed(app: typer.Typer, *arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def circuit_options(proposal: Proposal) -> list[str]:
    return ["--circuit", "sections", "--sections", " ".join(proposal.plan.sheet.texts)]


def _options(values: Mapping[str, object]) -> list[str]:
    return [
        part
        for name, value in values.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_that_prio_plan_prints(kind: str, mechanism: str) -> None:
    proposal = proposed(kind=kind, mechanism=mechanism)
    document = json.loads(to_json(proposal.document()))
    circuit = circuit_options(proposal)
    strength = dict(list(proposal.mechanism.parameters().items()))
    first = proposal.mechanism.base.parameter_names[0]
    advised = printed(
        plan_command.app, "advise", "--reports", "1800", *circuit, "--releases", "13",
        "--mechanism", proposal.mechanism.name, f"--{first}", str(strength[first]),
        "--delta", "0.000001", "--population", "the people who are asked",
    )  # fmt: skip
    assert {"version": 1, **document["advise"]} == advised
    error = printed(
        plan_command.app, "error", *circuit, "--mechanism", proposal.mechanism.name,
        *_options(strength), "--reports", "1800",
    )  # fmt: skip
    assert {"version": 1, **document["error"]} == error


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_way_to_ask_is_the_one_that_prio_survey_check_prints_of_the_saved_file(
    kind: str, mechanism: str, tmp_path: Path
) -> None:
    proposal = proposed(kind=kind, mechanism=mechanism)
    file = tmp_path / "survey.toml"
    file.write_text(proposal.text, encoding="utf-8")
    document = printed(survey_command.app, "check", str(file))
    parts, privacy = document["parts"], document["privacy"]
    assert isinstance(parts, list)
    assert isinstance(privacy, dict)
    (part,) = parts
    assert part["ways"][0]["design"] == proposal.design.name
    assert part["ways"][0]["error"] == float(proposal.planned.error)
    assert privacy["mechanism"] == proposal.mechanism.name


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["1", "3", "20"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_strength_is_the_least_at_which_prio_survey_check_promises_the_wanted_error(
    kind: str, wanted: str, tmp_path: Path
) -> None:
    proposal = proposed(kind=kind, error=wanted)
    below = max(each for each in STRENGTHS if each < proposal.strength)
    promised = []
    for strength in (below, proposal.strength):
        file = tmp_path / "survey.toml"
        file.write_text(proposal.draft.survey_toml(strength), encoding="utf-8")
        parts = printed(survey_command.app, "check", str(file))["parts"]
        assert isinstance(parts, list)
        promised.append(Fraction(str(parts[0]["ways"][0]["part_of_range"])))
    # The search cuts an interval around what is typical; what is promised is a median of draws.
    assert promised[0] > Fraction(wanted) / 100 * Fraction(99, 100)
    assert promised[1] == pytest.approx(proposal.part)
    assert proposal.part <= Fraction(wanted) / 100


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["1", "3", "20"])
@pytest.mark.parametrize("kind", SAME_AS_ADVISE)
def test_the_strength_is_the_one_that_prio_plan_advises_for_the_wanted_error(
    kind: str, wanted: str
) -> None:
    proposal = proposed(kind=kind, error=wanted)
    advised = printed(
        plan_command.app, "advise", "--reports", "1800", *circuit_options(proposal),
        "--error", f"{wanted}%", "--releases", "13",
    )  # fmt: skip
    assert Fraction(str(advised["epsilon"])) == proposal.strength
    assert proposal.part <= Fraction(wanted) / 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_falls_and_has_the_chosen_point_on_it(kind: str) -> None:
    proposal = proposed(kind=kind, goal="strength", strength="0.5")
    assert (Fraction(1, 2), proposal.part) in proposal.curve
    strengths, parts = zip(*proposal.curve, strict=True)
    assert list(strengths) == sorted(strengths)
    assert list(parts) == sorted(parts, reverse=True)
    assert proposal.follows == ("error", f"{float(100 * proposal.part):.3g}")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NOISES)
def test_the_budget_fills_as_the_ledger_counts(mechanism: str) -> None:
    proposal = proposed(mechanism=mechanism, window="week", windows="52")
    delta = proposal.draft.delta

    def releases(count: int) -> list[Releases]:
        return [Releases(proposal.mechanism, proposal.circuit, count)]

    assert [count for count, _ in proposal.steps] == list(range(1, 53))
    for count, epsilon in proposal.steps[::17]:
        least = smallest_valid(bounds(releases(count), delta, plan=releases(52)))
        assert least is not None
        # Of Gaussian noise the ledger has no sum, so it says the whole plan's from the first on.
        assert epsilon == least.epsilon or (mechanism == "DiscreteGaussian" and count < 52)
        assert least.epsilon is not None
        assert epsilon <= least.epsilon


def test_an_error_that_nothing_reaches_is_refused_with_what_would_help() -> None:
    with pytest.raises(ParameterError, match=r"error: no strength up to 20 has an error of 1 %"):
        proposed(kind="vector", people="1", error="1")
