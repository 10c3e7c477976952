"""What a package exports late is there, whatever its modules are called."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import aggregator

ROOT = Path(aggregator.__file__).parents[1]
PACKAGES = [
    re.sub(r"/__init__\.py$|\.py$", "", path.relative_to(ROOT).as_posix()).replace("/", ".")
    for path in sorted(Path(aggregator.__file__).parent.rglob("*.py"))
    if "from aggregator.lazy_exports import" in path.read_text("utf-8")
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_can_be_loaded(package: str) -> None:
    module = import_module(package)
    assert [name for name in module.__all__ if getattr(module, name) is None] == []
