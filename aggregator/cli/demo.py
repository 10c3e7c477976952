"""`prio demo`: sends a real data set through a leader, a helper and a collector on this machine.

One operator holds all three parties' keys, as nobody does in a deployment: the demo shows the
machinery at work, and says that it protects nobody from whoever runs it.
"""

import csv
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from aggregator.cli.collector import token_of
from aggregator.cli.parties import open_aggregator, open_collector
from aggregator.cli.tasks import Setting, make_task
from aggregator.client import Client, MeasurementReader
from aggregator.collector.documents import Document
from aggregator.config import CollectorSettings, read_settings_of
from aggregator.dap.auth import bearer_header
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import LocalError
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task import Task
from aggregator.transport.client import open_client

DATA = Path(__file__).parent / "data" / "rand_health_insurance.csv"
BUCKETS = ("excellent", "good", "fair", "poor")
VISITS = ("doctor_visits", "other_visits", "psychotherapy_visits", "hospital_admissions")
LARGEST_VISITS = 15
EPSILON = "1"
TIME_PRECISION = 3600
START_SECONDS = 60.0
COLLECT_SECONDS = 90.0
STOP_SECONDS = 10.0

console = Console()


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question to everybody in the data set.

    Attributes:
        title: The heading of the answer.
        task: The task that answers it.
        columns: The CSV columns of a measurement.
        labels: The name of each coordinate of the answer.
        truth: The true sums, from the CSV.
    """

    title: str
    task: Task
    columns: Sequence[str]
    labels: Sequence[str]
    truth: Sequence[int]


def demo() -> None:
    """Run both aggregators and a collector here, and a real data set through them.

    Starts three services on free loopback ports with fresh stores, uploads 5,912 people's answers,
    collects a histogram and a vector sum, and prints each noised value beside the true one. Leaves
    nothing behind.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prio-demo-") as folder, ExitStack() as stack:
        configs, urls = _write_configs(Path(folder))
        questions = _questions(configs, urls)
        console.print("starting leader, helper and collector (one operator for all: a demo only)")
        stack.enter_context(_services(Path(folder), configs, urls))
        token = token_of(read_settings_of(CollectorSettings, configs["collector"]))
        for question in questions:
            reports = anyio.run(_upload, question)
            result = _collect(urls["collector"], token, question.task, reports)
            _print_answer(question, result, _verified(configs, question.task))
    console.print(
        "Guaranteed to each person in the data, if one of the two aggregators is honest: each "
        f"result would be as likely, within a factor of e^{EPSILON}, had that person answered "
        "anything else. "
        "One operator who runs both aggregators, as here, has no privacy from itself."
    )
    console.print(f"done in {time.monotonic() - started:.0f} seconds")


def _write_configs(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Write a service file for each party; return the files and the services' URLs."""
    configs: dict[str, Path] = {}
    urls: dict[str, str] = {}
    names = ("leader", "helper", "collector")
    for name, (port, health_port) in zip(names, _free_ports(len(names)), strict=True):
        urls[name] = f"http://127.0.0.1:{port}/"
        urls[f"{name} health"] = f"http://127.0.0.1:{health_port}/health"
        configs[name] = folder / f"{name}.toml"
        configs[name].write_text(
            f'role = "{name}"\n'
            f'database = "{name}.sqlite"\n'
            f'listen = "127.0.0.1:{port}"\n'
            f'health_listen = "127.0.0.1:{health_port}"\n'
            + ("linger_seconds = 0\ncollection_poll_seconds = 1\n" if name == "leader" else ""),
            encoding="utf-8",
        )
    return configs, urls


def _free_ports(pairs: int) -> list[tuple[int, int]]:
    """Return pairs of loopback ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * pairs)
        ]
        ports = [each.getsockname()[1] for each in sockets]
    return list(zip(ports[::2], ports[1::2], strict=True))


def _questions(configs: Mapping[str, Path], urls: Mapping[str, str]) -> list[DemoQuestion]:
    """Make both tasks and hand each party its file."""
    with DATA.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    health = Counter(row["health"] for row in rows)
    with open_collector(configs["collector"]) as desk:
        collector_config = desk.keypair().config
    common: dict[str, Setting] = {
        "leader": urls["leader"],
        "helper": urls["helper"],
        "time_precision": TIME_PRECISION,
        "min_batch_size": 1000,
        "max_reports": 1_000_000,
    }
    privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": EPSILON}
    histogram = make_task(
        collector_config,
        {"type": "Prio3Histogram", "length": len(BUCKETS)},
        privacy,
        task_info="how healthy people say they are",
        **common,
    )
    vector = make_task(
        collector_config,
        {
            "type": "Prio3SumVec",
            "length": len(VISITS),
            "max_measurement": LARGEST_VISITS,
        },
        privacy,
        task_info="how often people used care in a year",
        **common,
    )
    for task in (histogram, vector):
        _hand_out(task, configs)
    return [
        DemoQuestion(
            f"Self-rated health of {len(rows):,} people: a histogram",
            histogram,
            ["health"],
            BUCKETS,
            [health[bucket] for bucket in BUCKETS],
        ),
        DemoQuestion(
            f"Use of care by {len(rows):,} people in a year: a vector sum, each count at most "
            f"{LARGEST_VISITS}",
            vector,
            VISITS,
            VISITS,
            [sum(int(row[column]) for row in rows) for column in VISITS],
        ),
    ]


def _hand_out(task: Task, configs: Mapping[str, Path]) -> None:
    """Give each party its file of a task, as an operator would with `prio task add`."""
    given = provision(task, SystemEntropy())
    for role in (Role.LEADER, Role.HELPER):
        with open_aggregator(configs[role.name.lower()]) as desk:
            desk.add_task(given[role])
    with open_collector(configs["collector"]) as desk:
        desk.add_task(given[Role.COLLECTOR])


@contextmanager
def _services(folder: Path, configs: Mapping[str, Path], urls: Mapping[str, str]) -> Iterator[None]:
    """Run the three services, and stop them whatever happens."""
    commands = {
        "leader": ["leader", "serve", "--work"],
        "helper": ["helper", "serve"],
        "collector": ["collector", "serve"],
    }
    running: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_stop, running)
        for name, command in commands.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "aggregator.cli", *command, "--config", configs[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        for name, process in running.items():
            _wait_until_healthy(name, process, urls[f"{name} health"], folder / f"{name}.log")
        yield


def _wait_until_healthy(name: str, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(url, timeout=1, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise LocalError(f"the {name} did not start:\n{tail}")


def _stop(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for process in running.values():
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _upload(question: DemoQuestion) -> int:
    """Upload everybody's answer to a question; return how many were accepted."""
    reader = MeasurementReader(
        question.task.prio3.circuit, question.labels if question.labels is BUCKETS else ()
    )
    with DATA.open(encoding="utf-8", newline="") as file:
        measurements = reader.read_csv(file, question.columns)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("uploading", total=len(measurements))
        async with open_client() as http:
            summary = await Client(question.task, http).upload(
                measurements, progress=lambda count: progress.advance(bar, count)
            )
    for error, count in summary.refused.items():
        console.print(f"{count} reports refused: {error.draft_name}")
    return summary.accepted


def _collect(collector: str, token: str, task: Task, reports: int) -> Document:
    """Make the collector service collect everything that was uploaded; wait for the result."""
    now = int(time.time())
    end = (now // TIME_PRECISION + 1) * TIME_PRECISION
    # The upload may have begun in the hour before; nothing older is in these fresh stores.
    interval = {"start": end - 2 * TIME_PRECISION, "end": end}
    with console.status(f"verifying and adding up {reports:,} reports"):
        http = httpx.Client(headers={"authorization": bearer_header(token)}, trust_env=False)
        response = http.post(
            f"{collector}api/tasks/{task.task_id}/collections?now=true", json=interval
        )
        response.raise_for_status()
        url = collector.rstrip("/") + response.headers["Location"]
        deadline = time.monotonic() + COLLECT_SECONDS
        while time.monotonic() < deadline:
            collection: Document = http.get(url).raise_for_status().json()
            if collection["state"] == "finished" and isinstance(collection["result"], dict):
                return collection["result"]
            if collection["state"] == "failed":
                raise LocalError(f"the collection failed: {json.dumps(collection['problem'])}")
            time.sleep(0.2)
    raise LocalError(f"the collection was not finished in {COLLECT_SECONDS:.0f} seconds")


def _verified(configs: Mapping[str, Path], task: Task) -> dict[str, int]:
    """Return how many reports each aggregator verified and added up, according to its store."""
    counts = {}
    for name in ("leader", "helper"):
        with open_aggregator(configs[name]) as desk:
            counts[name] = desk.aggregated(task.task_id)
    return counts


def _print_answer(question: DemoQuestion, result: Document, verified: Mapping[str, int]) -> None:
    error, privacy, values = result["error"], result["privacy"], result["values"]
    if not (isinstance(error, dict) and isinstance(privacy, dict) and isinstance(values, list)):
        raise LocalError("the collector's result is not what it should be")
    width = int(error["half_width"])
    table = Table("", "true", "noised", "95 % interval", "holds it", title=question.title)
    for label, truth, value in zip(question.labels, question.truth, values, strict=True):
        inside = abs(value - truth) <= width
        table.add_row(
            label,
            f"{truth:,}",
            f"{value:,}",
            f"{value - width:,} to {value + width:,}",
            "yes" if inside else "no",
        )
    for column in table.columns[1:4]:
        column.justify = "right"
    console.print(table)
    console.print(
        f"ε = {privacy['epsilon']}; the leader verified {verified['leader']:,} reports, the helper "
        f"{verified['helper']:,}; each added its own noise. "
        "True values are from the CSV; no service ever had them. "
        "On average, at most one interval in twenty misses.\n"
    )
