"""SIGHUP of a service that has a terminal, and of one that is to outlive it."""

import os
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

READ = "settings read again"
IN_A_TERMINAL = (sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])")
PRIO = (sys.executable, "-m", "aggregator.cli")


def events(services: Processes) -> list[object]:
    return [line["event"] for line in services.log("helper")]


def ages(services: Processes) -> set[str]:
    """Return what `hpke_cache_seconds` is, asked over twenty connections."""
    url = f"{services.urls['helper']}hpke_config"
    answers = [httpx.get(url, timeout=PATIENCE_SECONDS) for _ in range(20)]
    return {answer.headers["cache-control"] for answer in answers}


def test_a_service_ends_with_its_terminal_and_not_by_the_signal_alone(tmp_path: Path) -> None:
    with Processes(tmp_path) as services:
        services.programs["helper"] = (*IN_A_TERMINAL, *PRIO)
        services.start("helper")
        (service,) = services.children("helper")
        os.kill(service, signal.SIGHUP)
        wait_until(lambda: READ in events(services))
        assert ages(services) == {"max-age=86400"}
        services.kill("helper")
        wait_until(lambda: not Path(f"/proc/{service}").exists())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_service_under_nohup_reads_its_settings_again_and_outlives_its_terminal(
    tmp_path: Path, processes: int
) -> None:
    with Processes(tmp_path) as services:
        # The terminal is there as long as somebody has it open.
        shell = f'exec nohup "$0" "$@" 3<&0 >> {services.log_path("helper")} 2>&1'
        prio = ("sh", "-c", shell, *PRIO)
        services.programs["helper"] = (*IN_A_TERMINAL, *prio)
        services.options["helper"] = (f"--processes={processes}",)
        services.start("helper")
        (service,) = services.children("helper")
        try:
            services.kill("helper")  # and with it the terminal, whose end is the same signal
            services.change("helper", hpke_cache_seconds=100)
            os.kill(service, signal.SIGHUP)
            wait_until(lambda: ages(services) == {"max-age=100"})
        finally:
            os.kill(service, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{service}").exists())
