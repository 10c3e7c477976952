"""What `pytest --quick` runs and leaves out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SOURCE = """
import socket, subprocess, sys
import numpy as np
import pytest
from field.lanes import LaneWidth, xor_words

def test_plain():
    words = np.full((1, 4), 6, np.uint64)
    xor_words(LaneWidth(4, False, is_interpreted=True), words, words.copy(), 1)
    assert not words.any()

def test_compiler():
    words = np.zeros((1, 4), np.uint64)
    try:
        xor_words(LaneWidth(4, False), words, words, 1)
    except BaseException:
        pass

def test_process():
    subprocess.run([sys.executable, "-c", ""])

def test_socket():
    socket.socket().bind(("127.0.0.1", 0))

def test_wrong():
    assert False

@pytest.mark.slow
def test_marked():
    assert False
"""


@pytest.mark.slow
def test_tests_that_need_more_are_left_out_and_wrong_ones_fail(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import *  # noqa: F403\n"
        "from tests.support import quick\n"
        "from pathlib import Path\n"
        "quick.TESTS = Path(__file__).parent\n"
    )
    (tmp_path / "test_some.py").write_text(SOURCE)
    (tmp_path / "integration").mkdir()
    (tmp_path / "integration" / "test_services.py").write_text("assert False")
    done = subprocess.run(  # noqa: S603  a fixed command
        [
            *(sys.executable, "-m", "pytest", "--quick", "-v"),
            *("-p", "anyio", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", str(tmp_path)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # it begins sooner
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = dict(re.findall(r"test_some\.py::(\w+) (PASSED|SKIPPED|FAILED)", done.stdout))
    assert outcomes == {
        "test_plain": "PASSED",
        "test_compiler": "SKIPPED",
        "test_process": "SKIPPED",
        "test_socket": "SKIPPED",
        "test_wrong": "FAILED",
    }, done.stdout
    assert "error" not in done.stdout, "a folder was read that is to be left out"
