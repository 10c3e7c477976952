"""Each wing installed by itself, from the wheel and with its extra, as a party would; and run.

Leader and helper have the extra `service`, the collector has `collector`, who uploads has none, a
steward has `steward`. What the wheel requires with an extra is taken from this environment, which
has the versions of the lock: each file is a link to it, so nothing is unpacked or compiled again.
"""

import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PathDistribution, distribution
from importlib.util import cache_from_source
from pathlib import Path
from zipfile import Path as ZipPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aggregator.protocol.task_file import tasks_to_json
from tests.support.locks import NAME, ROOT
from tests.support.processes import COMMANDS, Processes
from tests.support.surveys import VISITS, department, task_of

pytestmark = pytest.mark.slow

WINGS = ("", "service", "collector", "steward")
HOUR = 3600

LOOK = """
import sys
from importlib.util import find_spec
print(*(int(find_spec(each) is not None) for each in sys.argv[1:]))
"""

ONE_FIGURE = """
import sys
from aggregator.cli import main
from aggregator.papers import figures_risk, figures_selection
figures_risk.PICTURES = {}
figures_selection.PICTURES = {"thesis-3.4": figures_selection.PICTURES["thesis-3.4"]}
sys.argv[0] = "prio"
main()
"""
"""`prio`, with one of the figures that it draws: all of them take ten seconds."""

NEW_TASK = (
    *("--vdaf", "Prio3Histogram", "--length", "3", "--epsilon", "1"),
    *("--min-batch-size", "4", "--max-reports", "1000"),
)


def pip(*arguments: str | Path) -> None:
    asked = subprocess.run(  # noqa: S603  pip, told what to do by this test
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr


def required(wheel: Distribution, extra: str) -> dict[str, Distribution]:
    """What a wheel requires with an extra, directly or not, as it is in this environment."""
    found: dict[str, Distribution] = {NAME: wheel}
    done: set[tuple[str, str]] = set()
    waiting = [(NAME, ""), (NAME, extra)]
    while waiting:
        asked = waiting.pop()
        if asked in done:
            continue
        done.add(asked)
        who, extra = asked
        for each in map(Requirement, found[who].requires or []):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                name = canonicalize_name(each.name)
                if name not in found:
                    found[name] = distribution(name)
                if name != NAME:
                    assert each.specifier.contains(found[name].version), (who, str(each))
                waiting += [(name, one) for one in ("", *each.extras)]
    del found[NAME]
    return found


def link(package: Distribution, home: Path) -> None:
    """Put a package of this environment into another one, with what is compiled of it."""
    here, there = (
        Path(sysconfig.get_path("purelib", vars=of)) for of in (None, {"base": str(home)})
    )
    for file in package.files or []:
        if ".." in file.parts:  # a program or a page of a manual, which no wing runs
            continue
        source = here / file
        for each in (source, Path(cache_from_source(str(source)))):
            target = there / each.relative_to(here)
            if each.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(each)


@pytest.fixture(scope="module")
def wings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder with the programs of each wing's environment."""
    folder = tmp_path_factory.mktemp("wings")
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    (said,) = (each for each in ZipPath(wheel).iterdir() if each.name.endswith(".dist-info"))
    found = {}
    for wing in WINGS:
        home = folder / (wing or "bare")
        venv.create(home, symlinks=True, with_pip=False)
        pip(
            *("--python", home / "bin/python", "install", "--quiet", "--no-compile"),
            *("--no-index", "--no-deps", wheel),
        )
        for package in required(PathDistribution(said), wing).values():
            link(package, home)
        found[wing] = home / "bin"
    return found


def run(wing: Path, *arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(  # noqa: S603  the program of a wing
        [wing / "prio", *arguments], cwd=wing, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def run_python(wing: Path, code: str, *arguments: str | Path) -> str:
    """Run a program of ours in an environment."""
    done = subprocess.run(  # noqa: S603  an interpreter of ours
        [wing / "python", "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (code, done.stdout, done.stderr)
    return done.stdout


def has(wing: Path, *libraries: str) -> list[bool]:
    """Whether an environment has some libraries."""
    return [word == "1" for word in run_python(wing, LOOK, *libraries).split()]


def test_a_wing_has_what_it_needs_and_not_what_others_need(wings: dict[str, Path]) -> None:
    libraries = ("numba", "sqlalchemy", "fastapi", "matplotlib", "polars", "scipy")
    assert {wing: has(home, *libraries) for wing, home in wings.items()} == {
        "": [False] * 6,
        "service": [True, True, True, False, False, False],
        "collector": [False, True, True, False, False, False],
        "steward": [True, True, True, True, False, False],
    }


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("leader", "serve"), "service"),
        (("collect", "A" * 43), "collector"),
        (("demo",), "service,collector"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_a_wing_has_not_is_named_with_its_extra(
    wings: dict[str, Path], command: Sequence[str], extra: str
) -> None:
    assert f"pip install 'prio-aggregator[{extra}]'" in run(wings[""], *command, status=2)


@pytest.fixture
def services(wings: dict[str, Path], tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as made:
        for party in COMMANDS:
            wing = "collector" if party == "collector" else "service"
            made.programs[party] = (str(wings[wing] / "prio"),)
        yield made
        for party in COMMANDS:
            assert made.stop(party) == 0


def test_a_batch_goes_from_clients_to_a_result_through_parties_of_one_wing_each(
    wings: dict[str, Path], services: Processes
) -> None:
    task_id, task_file = services.make_task("task", *NEW_TASK)
    # What the parties did in the process of this test they can do by themselves.
    for party in COMMANDS:
        wing = wings["collector" if party == "collector" else "service"]
        file = task_file.with_name(f"{party}.toml")
        added = run(wing, "task", "add", "--config", services.configs[party], file)
        assert added.strip() == task_id
    services.start(*COMMANDS)
    for party in COMMANDS:
        wing = wings["collector" if party == "collector" else "service"]
        run(wing, "status", "--config", services.configs[party])
    hour = int(time.time()) // HOUR * HOUR - HOUR
    said = run(wings[""], "upload", task_file, "0", "0", "1", "2", "2", "2", "--time", str(hour))
    assert "6 of 6 reports accepted" in said
    config = services.configs["collector"]
    collect = ("collect", "--config", config, task_id)
    said = run(wings["collector"], *collect, "--start", str(hour), "--end", str(hour + HOUR))
    assert "6 reports" in said
    assert "aggregated" in run(
        wings["service"], "task", "show", "--config", services.configs["leader"], task_id
    )


def test_who_only_uploads_reads_a_survey_without_a_wing(wings: dict[str, Path]) -> None:
    survey = ROOT / "examples" / "hospital" / "survey.toml"
    assert "error" in run(wings[""], "survey", "check", survey)
    said = run(wings[""], "survey", "results", "--config", "nowhere.toml", status=2)
    assert "prio: " in said
    assert "Traceback" not in said


def test_an_application_takes_answers_to_a_survey_without_a_wing(
    wings: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "task.json"
    file.write_text(tasks_to_json([task_of(VISITS + department())]), encoding="utf-8")
    code = (
        "import sys; from aggregator.client import SurveyClient\n"
        "survey = SurveyClient(sys.argv[1]); survey.put({'department': 'surgery'}, person='1')\n"
        "print(survey.answered('1').state)"
    )
    assert run_python(wings[""], code, file).strip() == "waiting"


def test_a_steward_plans_and_audits_alone(wings: dict[str, Path], tmp_path: Path) -> None:
    steward = wings["steward"]
    assert "95" in run(
        steward, "plan", "error", "--circuit", "histogram", "--length", "3", "--epsilon", "1"
    )
    said = run(
        steward, "audit", "self-test", "--circuit", "count", "--epsilon", "1", "--runs", "2000"
    )
    assert "not refuted, which proves nothing" in said
    run_python(steward, ONE_FIGURE, "plan", "figures", "--out", tmp_path / "figures")
    assert {each.suffix for each in (tmp_path / "figures").iterdir()} == {".svg", ".png"}
