"""The project about itself: what one file says of another is true."""

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from aggregator.dap.profile import Role
from aggregator.dap.resources import resources_of
from aggregator.service.helper.routes import HelperResources
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.runtime import Runtime
from tests.support.compose_files import ALONE, ARRANGEMENTS, SCALED, composed, networks
from tests.support.pair import HELPER_SETTINGS, LEADER_SETTINGS
from tests.support.reference import commands
from tests.support.settings import setting_names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCES = sorted(path for top in ("field", "aggregator") for path in (ROOT / top).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for top in ("docs", "examples") for path in (ROOT / top).rglob("*.md")),
]
LOCKS = (
    "requirements-runtime.lock",
    "requirements-aggregator.lock",
    "requirements-image.lock",
    "requirements.lock",
)

COMMANDS = dict(commands())


def test_every_command_can_take_its_settings_from_the_environment_alone() -> None:
    options = [
        option
        for command in COMMANDS.values()
        for option in command.params
        if option.name == "config"
    ]
    assert len(options) > 1
    assert not any(option.required for option in options)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_document_names_exists(document: Path) -> None:
    groups = {name.rsplit(" ", 1)[0] for name in COMMANDS} - {"prio"}
    for code in re.findall(r"`(prio [^`]*)`", document.read_text(encoding="utf-8")):
        words = code.split()
        named = " ".join(words[:3]) if " ".join(words[:2]) in groups else " ".join(words[:2])
        if named.endswith("…") or named in groups:
            continue
        first, *others = named.rsplit(" ", 1)[-1].split("|")
        for word in (first, *others):
            assert f"{named.rsplit(' ', 1)[0]} {word}" in COMMANDS, f"{document.name}: {code}"


def headings(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]*)(#[^)\s]*)?\)", document.read_text(encoding="utf-8"))
    for path, anchor in links:
        if "://" in path:
            continue
        there = document.parent / path if path else document
        assert there.exists(), path
        assert not anchor or anchor[1:] in headings(there), path + anchor


def test_every_document_that_a_comment_or_a_message_names_exists() -> None:
    named = re.compile(r"\bdocs/[\w/-]+\.md(?!\w)")
    files = [
        *SOURCES,
        *TESTS,
        *(path for top in ("deploy", "benchmarks") for path in (ROOT / top).rglob("*.*")),
        ROOT / "docker-compose.yml",
        ROOT / "Makefile",
    ]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in named.findall(path.read_text(encoding="utf-8", errors="replace"))
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_the_readmes_two_commands_are_targets_of_the_makefile() -> None:
    (block,) = [
        block.split()
        for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
        if "make" in block
    ]
    assert block == ["make", "demo", "make", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "check", "test", "lint", "bench", "fuzz"):
        assert re.search(rf"^{target}: (\$\((STAMP|RUNTIME)\)|lint)$", makefile, re.MULTILINE)


@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER])
def test_each_router_serves_the_resources_of_its_role_and_nothing_else(role: Role) -> None:
    runtime = Mock(spec=Runtime)  # no handler is called
    router = (
        LeaderResources(runtime, LEADER_SETTINGS).router()
        if role is Role.LEADER
        else HelperResources(runtime, HELPER_SETTINGS).router()
    )
    served = sorted(
        (method, str(vars(route)["path"]))
        for route in router.routes
        for method in vars(route)["methods"]
    )
    assert served == sorted(
        (method, each.template) for each in resources_of(role) for method in each.methods
    )


@pytest.mark.parametrize("files", ARRANGEMENTS, ids=" ".join)
def test_compose_files_name_only_settings_that_exist(files: tuple[str, ...]) -> None:
    services = composed(files)["services"].values()
    named = {name for each in services for name in each["environment"] if "PRIO_" in name}
    assert len(named) > 4
    assert {name.removeprefix("PRIO_").lower() for name in named} <= setting_names()


def test_a_newcomer_starts_one_service_of_each_party_with_a_file_to_copy() -> None:
    services = composed(ALONE)["services"]
    started = {name for name, each in services.items() if "profiles" not in each}
    assert started == {"leader", "helper", "collector"}
    assert len((ROOT / ALONE[0]).read_text(encoding="utf-8").splitlines()) < 60


def test_databases_publish_no_port_and_are_met_by_their_aggregator_alone() -> None:
    services = composed(SCALED)["services"]
    for party in ("leader", "helper"):
        database = services[f"{party}-postgres"]
        assert "ports" not in database
        assert set(networks(database)) == {f"{party}-store"}
        met = {name for name, each in services.items() if f"{party}-store" in each["networks"]}
        assert all(name.startswith(party) for name in met)


@pytest.mark.parametrize("files", ARRANGEMENTS, ids=" ".join)
def test_no_container_of_a_compose_file_has_more_rights_than_it_needs(
    files: tuple[str, ...],
) -> None:
    for name, service in composed(files)["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


@pytest.mark.parametrize("files", ARRANGEMENTS, ids=" ".join)
def test_no_two_parties_share_a_volume(files: tuple[str, ...]) -> None:
    owners: dict[str, set[str]] = {}
    for name, service in composed(files)["services"].items():
        for volume in service.get("volumes", []):
            if not volume.startswith("/"):
                owners.setdefault(volume.split(":")[0], set()).add(name.split("-")[0])
    assert len(owners) >= 9
    assert [volume for volume, parties in owners.items() if len(parties) > 1] == []


def test_the_demo_and_the_image_install_what_the_tests_ran_with_and_no_more() -> None:
    def pins(name: str) -> set[tuple[str, str]]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", text, re.MULTILINE))

    runtime, aggregator, image, everything = (pins(lock) for lock in LOCKS)
    assert runtime < aggregator < image < everything
    assert "pytest" not in dict(image)
    assert {"scipy", "polars", "matplotlib", "dp-accounting"} <= dict(image).keys()
    # What holds an aggregator's keys loads no library that draws, tabulates or counts for people.
    beside = dict(aggregator).keys() - dict(runtime).keys()
    assert {"psycopg", "opentelemetry-sdk"} <= beside
    heavy = {"dp-accounting", "fonttools", "matplotlib", "pandas", "pillow", "polars", "scipy"}
    assert not heavy & dict(aggregator).keys()


def test_the_locks_pin_hashes_and_name_no_package_host() -> None:
    for name in LOCKS:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text
        pins = re.findall(r"^\S+==[^\n]*(?:\n    [^\n]*)*", text, re.MULTILINE)
        assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


def test_the_name_of_dataclasses_field_is_never_taken() -> None:
    taken = re.compile(
        r"^\s*(?:import field\b|from dataclasses import (?:\([^)]*\bfield\b|[^(\n]*\bfield\b))",
        re.MULTILINE,
    )
    assert taken.search("from dataclasses import dataclass, field\n")
    assert taken.search("from dataclasses import (\n    dataclass,\n    field,\n)\n")
    found = [path for path in (*SOURCES, *TESTS) if taken.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_every_exception_to_a_rule_says_why() -> None:
    mark = re.compile(
        r"#\s*(?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|type: ignore\[[^]]*\]|pragma: no cover|noqa\b)"
        r"(?P<reason>[^\n]*)"
    )
    bare = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in (*SOURCES, *TESTS)
        for match in mark.finditer(path.read_text(encoding="utf-8"))
        if not re.search(r"\w", match["reason"]) and path != Path(__file__)
    ]
    assert bare == []
