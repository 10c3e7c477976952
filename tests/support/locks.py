"""What a lock file leaves out, on every Python and platform that it is for.

A lock is right where it names exactly what its roots ask for, directly or not, each at a version
that satisfies all who ask, with the hash of a wheel that can be installed there. What packages ask
for is in the metadata of their wheels, of which `locked_wheels.json` keeps what matters:
`python -m tests.support.locked_wheels` writes it.
"""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from packaging.dependency_groups import resolve_dependency_groups
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[2]
WHEELS = Path(__file__).with_name("locked_wheels.json")

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
NAME = "prio-aggregator"

# The oldest C library and macOS that wheels are looked for.
GLIBC = 28
MACOS = (14, 0)


@dataclass(frozen=True)
class Lock:
    """A lock file, and what it is for: the package with extras, and one dependency group."""

    name: str
    extras: tuple[str, ...]
    group: str

    @property
    def path(self) -> Path:
        return ROOT / self.name


LOCKS = (
    Lock("requirements-runtime.lock", ("service", "collector"), "build"),
    Lock("requirements-aggregator.lock", ("service", "objects", "postgresql", "traces"), "build"),
    Lock("requirements-image.lock", ("all",), "build"),
    Lock("requirements.lock", ("all",), "dev"),
)


@dataclass(frozen=True)
class Place:
    """A Python on a platform."""

    python: str
    system: str
    machine: str

    def __str__(self) -> str:
        return f"Python {self.python} on {self.system} {self.machine}"

    def markers(self) -> dict[str, str]:
        linux = self.system == "Linux"
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.1",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": self.system,
            "platform_version": "",
            "python_full_version": f"{self.python}.1",
            "python_version": self.python,
            "sys_platform": "linux" if linux else "darwin",
            "extra": "",
        }

    def tags(self) -> list[Tag]:
        """Tags of wheels that can be installed here, the best first."""
        version = tuple(map(int, self.python.split(".")))
        if self.system == "Darwin":
            platforms = list(mac_platforms(MACOS, self.machine))
        else:
            platforms = [f"manylinux_2_{minor}_{self.machine}" for minor in range(GLIBC, 4, -1)]
            platforms[GLIBC - 16 : GLIBC - 16] = [f"manylinux2014_{self.machine}"]
            if self.machine == "x86_64":
                platforms += [f"manylinux{name}_{self.machine}" for name in ("2010", "1")]
            platforms += [f"linux_{self.machine}"]
        return [
            *cpython_tags(version, platforms=platforms),
            *compatible_tags(version, f"cp{version[0]}{version[1]}", platforms),
        ]


PLACES = tuple(
    Place(python, system, machine)
    for python in PYTHONS
    for system, machine in (
        ("Linux", "x86_64"),
        ("Linux", "aarch64"),
        ("Darwin", "arm64"),
        ("Darwin", "x86_64"),
    )
)


@dataclass(frozen=True)
class Pin:
    """One package of a lock."""

    name: str
    version: str
    marker: Marker | None
    hashes: frozenset[str]

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    def holds(self, place: Place) -> bool:
        return self.marker is None or self.marker.evaluate(place.markers())


def read(text: str) -> list[Pin]:
    """The pins of a lock's text."""
    pins = []
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        parsed = Requirement(requirement)
        (version,) = parsed.specifier
        assert version.operator == "=="
        pins.append(
            Pin(canonicalize_name(parsed.name), version.version, parsed.marker, frozenset(hashes))
        )
    return pins


@dataclass(frozen=True)
class Package:
    """What a pinned version says of itself in the metadata of its wheels."""

    python: str
    requires: tuple[str, ...]
    wheels: Mapping[str, str]  # the hash of each, by its name


@cache
def packages() -> dict[str, Package]:
    """The kept metadata of every package of every lock, by `name==version`."""
    kept = json.loads(WHEELS.read_text(encoding="utf-8"))
    return {
        name: Package(each["python"], tuple(each["requires"]), each["wheels"])
        for name, each in kept.items()
    }


def best_wheel(names: Mapping[str, str], place: Place) -> str | None:
    """The wheel that an installer takes in a place."""
    ranks = _ranks(place)
    fitting = [
        (min(ranks[tag] for tag in tags), name)
        for name in names
        if (tags := _tags(name) & ranks.keys())
    ]
    return min(fitting)[1] if fitting else None


@cache
def _ranks(place: Place) -> dict[Tag, int]:
    return {tag: rank for rank, tag in enumerate(place.tags())}


@cache
def _tags(wheel: str) -> frozenset[Tag]:
    return parse_wheel_filename(wheel)[3]


def roots(lock: Lock, project: Mapping[str, object] | None = None) -> list[Requirement]:
    """What a lock is for."""
    document = project or tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table, groups = document["project"], document["dependency-groups"]
    return [
        *map(Requirement, table["dependencies"]),
        *(one for extra in lock.extras for one in of_extra(extra, table["optional-dependencies"])),
        *map(Requirement, resolve_dependency_groups(groups, lock.group)),
    ]


def of_extra(name: str, extras: Mapping[str, list[str]]) -> Iterator[Requirement]:
    """What an extra of the package brings, with those extras that it names."""
    for requirement in map(Requirement, extras[name]):
        if requirement.name == NAME:
            for other in sorted(requirement.extras):
                yield from of_extra(other, extras)
        else:
            yield requirement


def faults(
    pins: list[Pin], wanted: list[Requirement], known: Mapping[str, Package], place: Place
) -> Iterator[str]:
    """What is wrong with a lock in one place; nothing, if it installs without a resolver."""
    here = [pin for pin in pins if pin.holds(place)]
    by_name = {pin.name: pin for pin in here}
    if len(by_name) < len(here):
        yield f"{place}: a package is pinned twice"
    reached: set[str] = set()
    yield from _missing(by_name, wanted, known, place, reached)
    for pin in here:
        if pin.name not in reached:
            yield f"{place}: {pin} is required by nothing"
        if not _pythons(known[str(pin)].python).contains(f"{place.python}.1"):
            yield f"{place}: {pin} is not for this Python"
        hashed = {n: h for n, h in known[str(pin)].wheels.items() if h in pin.hashes}
        if best_wheel(hashed, place) is None:
            yield f"{place}: {pin} has no wheel whose hash is locked"


def _missing(
    pins: Mapping[str, Pin],
    wanted: list[Requirement],
    known: Mapping[str, Package],
    place: Place,
    reached: set[str],
) -> Iterator[str]:
    done: dict[str, set[str]] = defaultdict(set)
    waiting = [("the project", requirement, "") for requirement in wanted]
    while waiting:
        who, requirement, extra = waiting.pop()
        markers = place.markers() | {"extra": extra}
        if requirement.marker is not None and not requirement.marker.evaluate(markers):
            continue
        name = canonicalize_name(requirement.name)
        if name not in pins:
            yield f"{place}: {name} is missing, which {who} requires"
            continue
        pin = pins[name]
        reached.add(name)
        if not requirement.specifier.contains(pin.version, prereleases=True):
            yield f"{place}: {pin}, but {who} requires {requirement}"
        for each in {"", *requirement.extras} - done[name]:
            done[name].add(each)
            asked = map(_requirement, known[str(pin)].requires)
            waiting += [(str(pin), one, each) for one in asked]


@cache
def _pythons(text: str) -> SpecifierSet:
    return SpecifierSet(text)


@cache
def _requirement(text: str) -> Requirement:
    return Requirement(text)


def without_hashes(pin: Pin, names: re.Pattern[str]) -> Pin:
    """A pin that forgot the hashes of some of its wheels."""
    kept = packages().get(str(pin))  # of a pin for Windows nothing is kept
    wheels = kept.wheels if kept else {}
    return replace(pin, hashes=pin.hashes - {wheels[name] for name in wheels if names.search(name)})
