"""The layers that the architecture draws are those that the linter holds."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def drawn() -> list[set[str]]:
    """Return the packages of each layer in docs/architecture.md, from the top down."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawing = text.partition("## Layers")[2].split("```")[1].partition("═")[0]
    names = [re.split(r" {2,}", line)[0] for line in drawing.strip().splitlines()]
    return [set(re.split(r" [|:] ", name)) for name in names if not name.startswith("─")]


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def enforced() -> list[set[str]]:
    """Return the packages of each layer in pyproject.toml; parentheses there mean optional."""
    (layers,) = (
        contract["layers"]
        for contract in contracts()
        if contract.get("containers") == ["aggregator"]
    )
    return [set(re.split(r" [|:] ", re.sub(r"[()]", "", layer))) for layer in layers]


def test_the_layers_drawn_are_those_enforced() -> None:
    assert drawn() == enforced()
    assert all(
        (ROOT / "aggregator" / name).exists() or (ROOT / "aggregator" / f"{name}.py").exists()
        for layer in drawn()
        for name in layer
    )


def test_nothing_of_a_collector_but_its_results_is_open_to_a_stewards_tools() -> None:
    (closed,) = (
        {name.removeprefix("aggregator.collector.") for name in contract["forbidden_modules"]}
        for contract in contracts()
        if contract.get("source_modules") == ["aggregator.steward"]
    )
    there = {path.stem for path in (ROOT / "aggregator" / "collector").glob("[!_]*")}
    assert there - closed == {"results"}


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_whatever_is_named_as_a_place_is_there(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    places = set(re.findall(r"`((?:aggregator|field|tests|benchmarks|deploy)/[\w./-]*)`", text))
    assert len(places) > 10
    assert sorted(place for place in places if not (ROOT / place).exists()) == []


def test_a_file_that_is_named_by_the_end_of_its_path_is_there() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "aggregator").rglob("*.py")]
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert len(named) > 20
    lost = [
        name
        for name in named
        if not (ROOT / name).exists() and not any(f"/{file}".endswith(f"/{name}") for file in files)
    ]
    assert lost == []
