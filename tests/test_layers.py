"""The layers that the architecture draws are those that the linter holds."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def drawn() -> list[set[str]]:
    """Return the packages of each layer in docs/architecture.md, from the top down."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawing = text.partition("## Layers")[2].split("```")[1].partition("═")[0]
    names = [re.split(r" {2,}", line)[0] for line in drawing.strip().splitlines()]
    return [set(name.split(" | ")) for name in names if not name.startswith("─")]


def enforced() -> list[set[str]]:
    """Return the packages of each layer in pyproject.toml; parentheses there mean optional."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["aggregator"]
    )
    return [set(re.sub(r"[()]", "", layer).split(" | ")) for layer in layers]


def test_the_layers_drawn_are_those_enforced() -> None:
    assert drawn() == enforced()
    assert all(
        (ROOT / "aggregator" / name).exists() or (ROOT / "aggregator" / f"{name}.py").exists()
        for layer in drawn()
        for name in layer
    )
