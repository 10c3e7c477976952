"""Node, for tests of the JavaScript module."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import ROOT

MODULE = ROOT / "aggregator" / "client" / "browser"
SCRIPTS = ROOT / "tests" / "browser_module"
OLDEST_NODE = 20


def node() -> Path:
    """Return the path of a Node that is new enough; skip without one."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("no node is installed: the JavaScript module is not run")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603  the node that is installed
    found = re.match(r"v(\d+)", said)
    if found is None or int(found[1]) < OLDEST_NODE:
        pytest.skip(f"node {said.strip()} is too old, {OLDEST_NODE} is needed")
    return Path(path)


def run_tests(script: str, **environment: str) -> None:
    """Run a script of tests; fail with what it said."""
    done = subprocess.run(  # noqa: S603  our own script
        [node(), "--test", SCRIPTS / script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout[-2000:]
