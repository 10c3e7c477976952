"""The examples, run as they stand: their commands, their notebooks, and what they then show."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.tutorials import command_of
from tests.support.warm_start import Warm, run_warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, on ports of its own."""
    copy = tmp_path_factory.mktemp("examples") / "examples"
    shutil.copytree(ROOT / "examples", copy)
    for old, new in zip(("8001", "8002", "8003"), free_ports(3), strict=True):
        for path in (*copy.rglob("*.toml"), *copy.rglob("*.md")):
            path.write_text(path.read_text().replace(f":{old}", f":{new}"))
    return copy


@pytest.fixture(scope="module")
def hospital(folder: Path) -> Iterator[dict[str, str]]:
    """What each command of the hospital's README printed."""
    place = folder / "hospital"
    (block,) = re.findall(r"```sh\n(.*?)```", (place / "README.md").read_text(), re.DOTALL)
    lines = block.replace("\\\n", "").splitlines()
    services, printed = list[subprocess.Popen[bytes]](), dict[str, str]()
    try:
        for line in lines:
            command = command_of(line.removesuffix("&"))
            if line.endswith("&"):
                services.append(Warm(command, cwd=place))
            else:
                printed[line] = _run(command, place)
            if line.endswith("&") and len(services) == 2:
                _wait(place)
        yield printed
    finally:
        for service in services:
            service.terminate()
            service.wait(PATIENCE_SECONDS)


def _run(command: list[str], place: Path) -> str:
    done = run_warm(command, cwd=place, env=os.environ | {"PATH": PATH})
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def _wait(place: Path) -> None:
    """Wait until both aggregators take connections."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for name in ("leader", "helper"):
        (port,) = re.findall(r":(\d+)", (place / f"{name}.toml").read_text())
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, name
                time.sleep(0.1)
            else:
                break


def _shown(notebook: Path) -> tuple[list[str], int, str]:
    """Run a notebook; return the text of every output, the number of charts, and its code."""
    read = nbformat.read(notebook, as_version=4)
    NotebookClient(
        read,
        timeout=int(PATIENCE_SECONDS),
        # After four seconds, what a cell shows would be left out without a word.
        iopub_timeout=int(PATIENCE_SECONDS),
        startup_timeout=int(PATIENCE_SECONDS),
        resources={"metadata": {"path": notebook.parent}},
    ).execute()
    texts, charts, code = [], 0, []
    for cell in read.cells:
        if cell.cell_type != "code":
            continue
        code.append(cell.source)
        for output in cell.outputs:
            data = output.get("data", {})
            charts += "image/png" in data
            texts.append(data.get("text/html") or data.get("text/plain") or output.get("text", ""))
    return texts, charts, "\n".join(code)


def test_the_hospitals_commands_end_in_a_labelled_weekly_table(
    hospital: dict[str, str], folder: Path
) -> None:
    *_, uploaded, collected, _, changes = hospital.values()
    assert "3,000 rows in 4 windows, each one report" in uploaded
    assert "department: 3,000 answers, 0 missing" in uploaded
    assert re.search(r"(\d+) of \1 reports accepted", uploaded)
    shares = [line for line in collected.splitlines() if line.startswith("  share medicine ")]
    assert sum(len(re.findall(r" %  \([0-9.]+ to [0-9.]+\)", line)) for line in shares) == 4
    assert "  wait mean: " in changes
    assert "intervals: 95 %, all at once" in changes
    lines = (folder / "hospital" / "weekly.csv").read_text().splitlines()
    assert lines[0].startswith("window,question,by,group,shows,answered,label,value,low,high,unit")
    assert len(lines) == 1 + 4 * ((4 + 4 + 1) + 4 + (7 + 7 + 3 + 1) + (5 + 5 + 2 + 1))


def test_the_hospitals_notebook_shows_what_was_made_up(
    hospital: dict[str, str], folder: Path
) -> None:
    assert hospital
    shown, charts, _ = _shown(folder / "hospital.ipynb")
    windows, shares, *_, frame = shown
    assert windows.count(" to ") == 4
    assert charts == 1
    rows = _rows(shares)
    assert [row["label"] for row in rows] == ["medicine", "surgery", "children", "eyes"] * 4
    # Four in a hundred of 750 is many times the noise.
    assert all(41 < _number(row["value"]) < 49 for row in rows if row["label"] == "medicine")
    # Of 750 visits 341 against 176: many times the noise, too.
    assert any("medicine" in text and "is larger than" in text for text in shown)
    assert any("adding half widths" in text for text in shown)
    assert "window" in frame
    assert (folder / "weekly.parquet").exists()


def test_the_demos_notebook_shows_the_answers_of_5912_people(folder: Path) -> None:
    printed = _run(command_of("prio demo --keep demo"), folder)
    assert "The leader verified 5,912 reports, the helper 5,912" in printed
    (health, *_), charts, _ = _shown(folder / "demo.ipynb")
    counts = {row["label"]: row["value"] for row in _rows(health) if row["shows"] == "count"}
    truth = {"excellent": 3275, "good": 2088, "fair": 457, "poor": 92}
    # An interval of 95 % is ± 8; 40 has a probability below 10^-8.
    assert all(abs(_number(counts[name]) - value) <= 40 for name, value in truth.items())
    assert charts == 1


def test_a_notebook_takes_less_code_than_was_counted_before_there_were_surveys(
    folder: Path,
) -> None:
    for name in ("hospital", "demo"):
        cells = json.loads((folder / f"{name}.ipynb").read_text())["cells"]
        lines = [
            line
            for cell in cells
            if cell["cell_type"] == "code"
            for line in cell["source"]
            if line.strip()
        ]
        assert len(lines) < 59 / 2
        imported = [line for line in lines if "import" in line]
        assert all(
            line.split()[1] in ("aggregator.collector", "aggregator.results") for line in imported
        )


def _number(cell: str) -> float:
    """Return the number in a cell, without its unit."""
    return float(cell.split(maxsplit=1)[0].replace(",", ""))


def _rows(table: str) -> list[dict[str, str]]:
    """Return the rows of an HTML table by its heading."""
    names = re.findall(r"<th>(.*?)</th>", table)
    found = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", table)
    ]
    return [dict(zip(names, row, strict=True)) for row in found]
