"""The package works with the lowest version of each dependency that it says it takes.

So an application that holds one back can have the client. Versions come from the index, into an
empty environment.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.locks import ROOT, of_extra

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info >= (3, 13), reason="the lowest versions have no wheels for this Python"
    ),
]

NO_ANSWER = re.compile("ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|name resolution")

# What only an extra brings.
OF_EXTRAS = {"aggregator.service.telemetry.otlp"}

IMPORT_ALL = """
import importlib, pkgutil, sys
for root in ("field", "aggregator"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, f"{root}."):
        parts = module.name.split(".")
        if "__main__" in parts or "migrations" in parts or module.name in sys.argv[1:]:
            continue
        importlib.import_module(module.name)
        print(module.name)
"""


def lowest() -> list[str]:
    """Return each dependency at the version that `pyproject.toml` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {
        one.name: one
        for one in (
            *map(Requirement, project["dependencies"]),
            *of_extra("service", extras),
            *of_extra("collector", extras),
        )
    }.values()
    for one in wanted:
        (bound,) = one.specifier
        assert bound.operator == ">=", f"{one} should name its lowest version, and no highest"
    return [
        f"{one.name}=={bound.version}" + (f"; {one.marker}" if one.marker else "")
        for one in wanted
        for bound in one.specifier
    ]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment of the lowest versions."""
    folder = tmp_path_factory.mktemp("oldest")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    asked = subprocess.run(  # noqa: S603  pip, told what to do by this test
        [*pip, "--only-binary", ":all:", *lowest()], capture_output=True, text=True, check=False
    )
    if asked.returncode and NO_ANSWER.search(asked.stderr):
        pytest.skip(f"the package index does not answer: {asked.stderr.splitlines()[-1]}")
    assert asked.returncode == 0, asked.stderr
    return python


def run(python: Path, folder: Path, *command: str) -> str:
    asked = subprocess.run(  # noqa: S603  the package, run from the checkout
        [python, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    return asked.stdout


def test_every_module_is_imported(python: Path, tmp_path: Path) -> None:
    said = run(python, tmp_path, "-c", IMPORT_ALL, *OF_EXTRAS).split()
    assert {"aggregator.client", "aggregator.service.web.app", "field.lanes.jit"} <= set(said)


def test_reports_are_uploaded_verified_summed_and_opened(python: Path, tmp_path: Path) -> None:
    """A leader, a helper and a collector, and clients that shard, seal and upload."""
    said = run(python, tmp_path, "-m", "aggregator.cli", "demo")
    assert "The leader verified 5,912 reports, the helper 5,912" in said
