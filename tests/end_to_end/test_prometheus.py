"""Prometheus with the configuration of deploy/, run against the health listeners of a pair.

Only what it asks is replaced, by the listeners' addresses: in deploy/compose the engine's DNS
has them. What the dashboard asks of it is asked here, too.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--epsilon", "1", "--min-batch-size", "3"),
    *("--max-reports", "100"),
)
DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._http = httpx.Client(base_url=address, timeout=PATIENCE_SECONDS)
        self._process = process
        self._log = log

    def ask(self, path: str, **query: str) -> Any:  # noqa: ANN401  JSON
        answer = self._http.get(f"/api/v1/{path}", params=query)
        assert answer.status_code in {200, 503}, answer.text
        return answer.raise_for_status().json()["data"]  # 503 while it starts

    def close(self) -> None:
        self._http.close()
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            try:
                if is_reached():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)


OF_CERTIFICATES = {"prio_certificate_expires_timestamp_seconds"}
"""What only a service that speaks TLS itself has: `test_certificates` reads it from one."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no Prometheus is installed: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "1s"
    (port,) = free_ports(1)
    with Processes(folder) as processes:
        _, task = processes.make_task("task", *TASK)
        processes.start(*COMMANDS)
        processes.prio("upload", task, "1", "0", "1")
        for job in config["scrape_configs"]:
            listener = processes.health_url(job["job_name"]).removeprefix("http://")
            assert job.pop("dns_sd_configs")
            job["static_configs"] = [{"targets": [listener]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        shutil.copy(ALERTS, folder)
        log = folder / "prometheus.log"
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603  our own command
                [
                    program,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        running = Prometheus(f"http://127.0.0.1:{port}", process, log)
        try:
            yield running
        finally:
            running.close()


def test_each_party_is_a_job_that_is_up_and_ready(prometheus: Prometheus) -> None:
    def health() -> dict[str, str]:
        targets = prometheus.ask("targets", state="active")["activeTargets"]
        return {each["labels"]["job"]: each["health"] for each in targets}

    prometheus.wait(lambda: health() == dict.fromkeys(COMMANDS, "up"))
    ready = prometheus.ask("query", query="prio_ready")["result"]
    assert {each["metric"]["job"]: each["value"][1] for each in ready} == dict.fromkeys(
        COMMANDS, "1"
    )


def test_whatever_the_dashboard_asks_is_answered(prometheus: Prometheus) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "prio.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) > 20
    prometheus.wait(lambda: bool(prometheus.ask("query", query="rate(prio_ready[1m])")["result"]))
    for expression in asked:
        query = expression.replace("$__rate_interval", "1m").replace("$job", ".+")
        assert "$" not in query
        found = prometheus.ask("query", query=query)["result"]
        if "rate(" in query or "> 0" in query:
            continue  # of work that nobody gives this pair
        jobs = {each["metric"].get("job") for each in found}
        assert jobs, query
        assert jobs <= {*COMMANDS, None}, query
    (variable,) = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]  # or the test fails
    values = prometheus.ask(f"label/{label}/values", **{"match[]": metric})
    assert values == sorted(COMMANDS)


def test_alerts_use_metrics_that_exist_and_none_fires_for_a_healthy_pair(
    prometheus: Prometheus,
) -> None:
    def rules() -> list[dict[str, Any]]:
        return [each for group in prometheus.ask("rules")["groups"] for each in group["rules"]]

    prometheus.wait(lambda: {each["health"] for each in rules()} == {"ok"})
    assert len(rules()) == ALERTS.read_text().count("- alert: ")
    assert {each["name"]: each["alerts"] for each in rules() if each["alerts"]} == {}
    named = {name for each in rules() for name in re.findall(r"\bprio_[a-z_]+", each["query"])}
    assert len(named) > 8
    named -= OF_CERTIFICATES
    prometheus.wait(lambda: all(prometheus.ask("query", query=each)["result"] for each in named))
