"""`prio plan serve` says where its page is, and has it there for this machine only."""

import signal
import subprocess
import sys

import httpx

from aggregator.steward.planner import PATH
from tests.support.look import Page
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.warm_start import run_warm


def test_the_planner_is_where_it_says_until_it_is_told_to_stop() -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "aggregator.cli", "plan", "serve", "--port", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
    try:
        assert running.stdout is not None
        said = running.stdout.readline()
        address = f"http://127.0.0.1:{port}{PATH}"
        assert address in said
        with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as browser:
            answer = browser.get(address)
            assert "For the board" in Page(answer.text).all("main")[0].text
            assert browser.get(address, headers={"host": "planner.example"}).status_code == 421
            home = f"http://127.0.0.1:{port}/"
            assert browser.get(home).headers["location"] == PATH
            assert browser.get(home, headers={"host": "planner.example"}).status_code == 421
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0


def test_a_port_that_is_none_is_refused() -> None:
    command = [sys.executable, "-m", "aggregator.cli", "plan", "serve", "--port", "0"]
    done = run_warm(command)
    assert (done.returncode, done.stderr) == (2, "prio: port must be from 1 to 65535, not 0\n")
