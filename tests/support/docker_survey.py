"""A survey through the services of a Docker project, as docs/operations/docker.md does it."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx

from tests.support.docker import Project
from tests.support.patience import PATIENCE_SECONDS

HOUR = 3600
BUCKETS = ("excellent", "good", "fair", "poor")
ANSWERS = [BUCKETS[index * index * index % 4] for index in range(600)]


def provision(
    project: Project, folder: Path, services: Mapping[str, str], mechanism: Sequence[str] = ()
) -> str:
    """Make a task and add it for each party, in a service of that party; return its id."""
    config = project.prio(services["collector"], "collector", "config").strip()
    made = project.client(
        folder,
        *("task", "new", "--out", "/survey/task"),
        *("--leader", "http://leader:8001/", "--helper", "http://helper:8002/"),
        *("--collector-config", config, "--vdaf", "Prio3Histogram", "--length", "4"),
        *(mechanism or ("--epsilon", "1")),
        *("--min-batch-size", "100", "--max-reports", "100000"),
    )
    for party, service in services.items():
        file = (folder / "task" / f"{party}.toml").read_text()
        project.prio(service, "task", "add", "-", stdin=file)
    return made.strip()


def upload(project: Project, folder: Path, answers: Sequence[str], start: int) -> None:
    """Upload answers of the hour that begins at `start`; all are accepted."""
    table = folder / "answers.csv"
    table.write_text("\n".join(["health", *answers]) + "\n")
    said = project.client(
        folder,
        *("upload", "/survey/task/task.toml", "--csv", "/survey/answers.csv", "--column", "health"),
        *("--buckets", ",".join(BUCKETS), "--time", str(start)),
    )
    assert f"{len(answers)} of {len(answers)} reports accepted" in said


class Collecting:
    """The collector's JSON API, through the port that its service publishes."""

    def __init__(self, project: Project, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{self._address}/api/tasks", timeout=PATIENCE_SECONDS).status_code == 401
        token = project.compose("exec", "-T", "collector", "cat", "/data/token").strip()
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, task_id: str, start: int) -> str:
        """Ask for the hour that begins at `start`; return where its result will be."""
        interval = {"start": start, "end": start + HOUR}
        asked = self._http.post(f"{self._address}/api/tasks/{task_id}/collections", json=interval)
        return str(asked.raise_for_status().headers["location"])

    def result(self, location: str) -> dict[str, object]:
        """Wait for a result."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            collection = self._http.get(self._address + location).raise_for_status().json()
            if collection["state"] != "pending":
                assert collection["state"] == "finished", collection
                result: dict[str, object] = collection["result"]
                return result
            time.sleep(0.5)
        raise AssertionError("the collection was not finished in time")
