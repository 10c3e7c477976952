"""Figures and names that docs/privacy.md states are those of the code."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import aggregator
from aggregator.dap.profile import TASK_EXTENSION_PRIVACY
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.planning.refutation import epsilon_bound
from aggregator.vdaf.circuits import Histogram
from field import FIELD64

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


def test_stated_numbers_are_right() -> None:
    assert f"0x{TASK_EXTENSION_PRIVACY:X}" in TEXT
    assert FIELD64.modulus > 2**63
    q = math.exp(-1 / 2)
    assert f"{math.log((1 + q**17) / (q + q**16)):.5f}" == "0.49965"
    assert "0.49965" in TEXT


def test_stretching_the_scale_of_truncated_noise_would_break_it_as_stated() -> None:
    one = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))
    k = one.bound(Histogram(length=2, chunk_length=1))
    q = math.exp(-1 / 20)
    masses = [q ** abs(x) for x in range(-k, k + 1)]
    edge = sum(masses[-10:]) / sum(masses)
    assert f"{edge:.2f}" == "0.16"
    assert f"{1 - (1 - edge) ** 2:.2f}" == "0.29"
    assert "δ = 0.29" in TEXT


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
