"""Commands whose standard streams are closed, full or left, and that are interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aggregator.protocol.task_file import task_to_toml
from tests.support.commands import service_text
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.tasks import make_task

PRIO = (sys.executable, "-m", "aggregator.cli")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    file = tmp_path / "task.toml"
    file.write_text(task_to_toml(make_task()))
    return file


def in_a_shell(
    command: str, task: Path, *, unbuffered: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S602 - our own command
        command,
        shell=True,
        executable="/bin/bash",
        env=os.environ
        | {"PRIO": " ".join(PRIO), "TASK": str(task), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("upload $TASK --csv - --column a <&-", "column 'a': not in standard input"),
        ("decode --message report - <&-", "0 bytes are not a valid report"),
        ("survey show - <&-", "-: version: missing"),
    ],
)
def test_a_closed_standard_input_is_an_empty_one(task: Path, command: str, said: str) -> None:
    done = in_a_shell(f"$PRIO {command}", task)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["task check $TASK", "plan error --epsilon 1 --circuit count"])
def test_a_full_output_is_named_and_one_that_nobody_reads_is_left(
    task: Path, command: str, unbuffered: str
) -> None:
    full = in_a_shell(f"$PRIO {command} > /dev/full", task, unbuffered=unbuffered)
    said = "prio: standard output: No space left on device\n"
    assert (full.returncode, full.stderr) == (2, said)
    pipe = f"$PRIO {command} | head -0; exit ${{PIPESTATUS[0]}}"
    left = in_a_shell(pipe, task, unbuffered=unbuffered)
    assert (left.returncode, left.stderr) == (1, "")


def test_no_file_takes_the_number_of_a_closed_stream(task: Path, tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "h"))
    done = in_a_shell(f"$PRIO hpke new --config {config} <&- >&- 2>&-", task)
    assert done.returncode == 0
    again = in_a_shell(f"$PRIO hpke list --config {config}", task)
    assert (again.returncode, again.stderr) == (0, "")


def test_an_interrupt_at_any_moment_leaves_no_traceback_and_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    errors = tmp_path / "errors"
    python, *program = PRIO
    noise = ("noise", "--scale", "100", "--count", "100000000", "--out", folder / "x")
    for fifths in range(0, 8, 2):
        with errors.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [python, "-X", "importtime", *program, *noise],
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        # Before the program imports its first library, the interpreter itself begins.
        wait_until(lambda: b" typer" in errors.read_bytes(), errors)
        time.sleep(fifths / 5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert b"Traceback" not in errors.read_bytes(), (fifths, errors.read_text()[-2000:])
        assert process.returncode in (130, -signal.SIGINT), fifths
        assert list(folder.iterdir()) == []


SWALLOWING = """
import signal, sys, time
from contextlib import nullcontext
from aggregator.cli import process, program

class Final:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@program.app.command("swallow")
def swallow():
    with {block}():
        Final()
        print("went on", flush=True)
        time.sleep(600)

sys.argv = ["prio", "swallow"]
program.run()
"""


@pytest.mark.parametrize("block", ["nullcontext", "process.ended_by_signals"])
def test_an_interrupt_that_a_finalizer_swallows_still_ends_the_command(block: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", SWALLOWING.format(block=block)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "went on\n")
    assert "Traceback" not in done.stderr
