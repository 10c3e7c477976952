"""Compose files as the engine reads them, as far as ours need it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

Read = dict[str, Any]
"""What a file says: services, networks and volumes."""

ALONE = ("docker-compose.yml",)
OBSERVED = ("docker-compose.yml", "deploy/compose/observe.yml")
SCALED = ("deploy/compose/postgres.yml",)
ARRANGEMENTS = (ALONE, OBSERVED, SCALED)
"""The files that are given together; paths in them count from the folder of the first."""


def composed(files: tuple[str, ...]) -> Read:
    """Return what files say together, each one's services over those before it."""
    folder = (ROOT / files[0]).parent
    whole: Read = {"services": {}, "networks": {}, "volumes": {}}
    for file in files:
        read = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
        for name, service in read["services"].items():
            before = whole["services"].get(name, {})
            whole["services"][name] = _over(_over(before, _extended(folder, service)), service)
        for kind in ("networks", "volumes"):
            whole[kind] |= read.get(kind, {})
    return whole


def networks(service: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the networks of a service, each with the names that it has there."""
    return {name: (more or {}).get("aliases", []) for name, more in service["networks"].items()}


def _extended(folder: Path, service: Read) -> Read:
    if "extends" not in service:
        return {}
    path = folder / service["extends"]["file"]
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    extended: Read = read["services"][service["extends"]["service"]]
    extended["volumes"] = [
        str(path.parent / each) if each.startswith(".") else each for each in extended["volumes"]
    ]
    return extended


def _over(before: Read, service: Read) -> Read:
    """Lay a service over another: what both have as tables is joined."""
    merged = before | {name: value for name, value in service.items() if name != "extends"}
    for name in ("networks", "environment"):
        tables = [each[name] for each in (before, service) if name in each]
        merged[name] = {}
        for table in tables:
            merged[name] |= table if isinstance(table, dict) else dict.fromkeys(table)
    return merged
