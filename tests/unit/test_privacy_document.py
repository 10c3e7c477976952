"""Figures and names that docs/privacy.md states are those of the code."""

import math
import re
from pathlib import Path

import pytest

import aggregator
from aggregator.dap.profile import TASK_EXTENSION_PRIVACY
from aggregator.dp.policy import MECHANISMS
from aggregator.steward.audit.refutation import epsilon_bound

ROOT = Path(aggregator.__file__).parents[1]
TEXT = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")


def test_every_file_that_is_named_exists() -> None:
    paths = re.findall(r"`(tests/[^`]+\.py)`", TEXT) + [
        f"docs/{target}" for target in re.findall(r"\]\(([^)#]+)\)", TEXT)
    ]
    assert len(paths) >= 8
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_function_and_module_that_is_named_exists() -> None:
    dotted = set(re.findall(r"`((?:dp|protocol|field)\.[a-z_.]+)`", TEXT))
    assert {"protocol.collection.release", "dp.release.check_no_wrap"} <= dotted
    for name in dotted:
        parts = name.split(".")
        base = ROOT if parts[0] == "field" else ROOT / "aggregator"
        candidates = [base.joinpath(*parts), base.joinpath(*parts[:-1])]
        sources = [
            source
            for candidate in candidates
            for source in (candidate.with_suffix(".py"), candidate / "__init__.py")
            if source.exists()
        ]
        assert sources, name
        assert any(
            source.stem == parts[-1]
            or source.parent.name == parts[-1]
            or re.search(rf"\b{parts[-1]}\b", source.read_text(encoding="utf-8"))
            for source in sources
        ), name


def test_mechanisms_go_by_the_names_that_are_stated() -> None:
    for kind in MECHANISMS.values():
        assert f"`{kind.name}`" in TEXT


def test_the_task_extension_has_the_number_that_is_stated() -> None:
    assert f"0x{TASK_EXTENSION_PRIVACY:X}" in TEXT


@pytest.mark.parametrize(
    ("coordinates", "collections", "stated"),
    [(1, 10_000, "0.83"), (2, 10_000, "0.71"), (1, 100_000, "0.95"), (2, 100_000, "0.91")],
)
def test_bounds_of_right_mechanisms_are_about_those_that_are_stated(
    coordinates: int, collections: int, stated: str
) -> None:
    q = math.exp(-1 / coordinates)
    runs = collections // 2
    hits = (
        round(runs / (1 + q) ** coordinates),
        round(runs * (q / (1 + q)) ** coordinates),
    )
    events = 8 * 2 * coordinates
    assert f"{epsilon_bound(hits, (runs, runs), 1e-6 / events):.2f}" == stated
    assert stated in TEXT
