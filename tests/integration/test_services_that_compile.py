"""A service whose kernels are being compiled says so when asked, and so does `prio status`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1"),
    *("--min-batch-size", "50", "--max-reports", "100000"),
)
Records = Sequence[Mapping[str, object]]


def test_health_and_status_say_what_is_compiled_and_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels))  # of the service and of what it starts
    with Processes(tmp_path) as processes:
        processes.make_task("count", *TASK)
        config = processes.configs["helper"]

        def said_by_status(status: int = 0) -> Records:
            done = processes.prio("status", "--json", "--config", config, status=status)
            said: Records = json.loads(done.stdout)["compiling"]
            return said

        assert said_by_status(status=1) == []  # the helper does not run yet
        processes.start("helper")
        url = processes.health_url("helper")

        def said_by_service() -> Records:
            said: Records = httpx.get(
                f"{url}/health", trust_env=False, timeout=PATIENCE_SECONDS
            ).json()["compiling"]
            return said

        wait_until(said_by_service, processes.log_path("helper"))
        (record,) = said_by_service()
        assert (record["vdaf"], record["problem"]) == ("Prio3Count", None)
        page = httpx.get(
            url, headers={"accept": "text/html"}, trust_env=False, timeout=PATIENCE_SECONDS
        ).text
        assert "Prio3Count" in page
        # The process that compiles says so when it begins, which is a little later.
        wait_until(said_by_status)
        (record,) = said_by_status()
        assert record["vdaf"] == "Prio3Count"
        printed = processes.prio("status", "--config", config).stdout
        assert "compiling    kernels of Prio3Count, since " in printed
        # It begins to answer before kernels are there.
        assert said_by_service()
