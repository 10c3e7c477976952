"""The locks name all that an installation needs, so that it needs no resolver."""

import re
import tomllib
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from tests.support.locks import (
    LOCKS,
    PLACES,
    PYTHONS,
    ROOT,
    Lock,
    Place,
    faults,
    packages,
    read,
    roots,
    without_hashes,
)

RUNTIME, _, IMAGE, EVERYTHING = LOCKS

# What has no wheel for a Mac with an Intel processor, for which the locks are not.
NOT_FOR_INTEL_MACS = {"cryptography", "llvmlite", "numba"}


def intel_mac(place: Place) -> bool:
    return (place.system, place.machine) == ("Darwin", "x86_64")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_is_complete_on_every_python_and_platform_and_names_no_more(
    lock: Lock, python: str
) -> None:
    pins, wanted = read(lock.path.read_text(encoding="utf-8")), roots(lock)
    places = [place for place in PLACES if place.python == python and not intel_mac(place)]
    assert len(places) == 3
    assert [fault for place in places for fault in faults(pins, wanted, packages(), place)] == []


def test_the_readme_the_classifiers_and_the_record_name_the_pythons_of_the_locks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [each.rpartition(" :: ")[2] for each in project["classifiers"] if ":: 3." in each]
    assert named == [*PYTHONS]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    for document in ("README.md", "CHANGELOG.md", "docs/adr/0008-a-lock-file-of-hashes.md"):
        text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
        assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in text, document


def test_what_has_no_wheel_for_intel_macs_is_known() -> None:
    pins, wanted = read(EVERYTHING.path.read_text(encoding="utf-8")), roots(EVERYTHING)
    (place,) = (place for place in PLACES if intel_mac(place) and place.python == "3.14")
    versions = {pin.name: pin for pin in pins}
    assert sorted(faults(pins, wanted, packages(), place)) == [
        f"{place}: {versions[name]} has no wheel whose hash is locked"
        for name in sorted(NOT_FOR_INTEL_MACS)
    ]


@pytest.mark.parametrize(
    ("missing", "who", "where"),
    [
        ("markupsafe", "mako==", {"Linux", "Darwin"}),
        ("psycopg-binary", "psycopg==", {"Linux", "Darwin"}),  # only by the extra of a requirement
        ("appnope", "ipykernel==", {"Darwin"}),  # only by a marker
        ("atheris", "the project", {"Linux"}),
        ("coverage", "pytest-cov==", {"Linux", "Darwin"}),  # what a newer version of stopped pip
    ],
)
def test_a_lock_that_misses_a_requirement_is_found_out(
    missing: str, who: str, where: set[str]
) -> None:
    pins = read(EVERYTHING.path.read_text(encoding="utf-8"))
    left = [pin for pin in pins if pin.name != missing]
    assert len(left) < len(pins)
    found = {
        place.system: list(faults(left, roots(EVERYTHING), packages(), place))
        for place in PLACES
        if place.python == "3.14" and place.machine in {"x86_64", "arm64"} and not intel_mac(place)
    }
    for system, said in found.items():
        named = [fault for fault in said if f" {missing} is missing, which {who}" in fault]
        assert bool(named) == (system in where), said


def test_a_lock_without_an_extra_is_found_out() -> None:
    place = PLACES[0]
    pins = read(RUNTIME.path.read_text(encoding="utf-8"))
    said = list(faults(pins, roots(IMAGE), packages(), place))
    for name in ("dp-accounting", "matplotlib", "polars", "psycopg", "scipy"):
        assert f"{place}: {name} is missing, which the project requires" in said


def test_a_lock_that_misses_the_wheels_of_a_new_python_is_found_out() -> None:
    pins = read(RUNTIME.path.read_text(encoding="utf-8"))
    old = [without_hashes(pin, re.compile("-cp314-")) for pin in pins]
    for place in PLACES:
        said = list(faults(old, roots(RUNTIME), packages(), place))
        if not intel_mac(place):
            assert any("numba" in fault for fault in said) == (place.python == "3.14"), said


def test_a_version_that_another_package_refuses_is_found_out() -> None:
    place = PLACES[0]
    pins = read(RUNTIME.path.read_text(encoding="utf-8"))
    wanted = roots(RUNTIME)
    (numpy,) = (pin for pin in pins if pin.name == "numpy" and pin.holds(place))
    wanted.append(type(wanted[0])(f"numpy>{numpy.version}"))
    assert list(faults(pins, wanted, packages(), place)) == [
        f"{place}: {numpy}, but the project requires numpy>{numpy.version}"
    ]


def test_what_is_kept_of_the_wheels_is_what_the_installed_packages_say() -> None:
    here = {
        str(pin)
        for pin in read(EVERYTHING.path.read_text(encoding="utf-8"))
        if pin.marker is None or pin.marker.evaluate()
    }
    compared = {name: sorted(distribution(name.partition("==")[0]).requires or []) for name in here}
    assert compared == {name: sorted(packages()[name].requires) for name in here}


def test_every_extra_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (named,) = (Requirement(text).extras for text in extras["all"])
    assert named == extras.keys() - {"all"}
