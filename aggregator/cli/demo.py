"""`prio demo`: puts a survey of real people through a leader, a helper and a collector here.

One operator holds all three parties' keys, as nobody does in a deployment: the demo shows the
machinery at work, and says that it protects nobody from whoever runs it.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import anyio
import httpx
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from aggregator.cli.parties import open_aggregator, open_collector
from aggregator.cli.tasks import make_task
from aggregator.client import Client
from aggregator.collector import Collected, Collector
from aggregator.config import CollectorSettings, read_settings_of
from aggregator.dap.profile import Role
from aggregator.dp.rationals import format_rational
from aggregator.entropy import SystemEntropy
from aggregator.errors import LocalError
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task import Task
from aggregator.results import Noised
from aggregator.survey import (
    AnswerTable,
    Columns,
    Design,
    PlannedQuestion,
    plan,
    read_answers,
    survey_from_toml,
    table_in,
    task_tables,
)
from aggregator.transport.client import open_client
from aggregator.vdaf.circuits.measurements import Measurement

DATA = Path(__file__).parent / "data"
ANSWERS = DATA / "rand_health_insurance.csv"
SURVEY = survey_from_toml((DATA / "rand_health_insurance.toml").read_text(encoding="utf-8"))
WINDOW = timedelta(seconds=SURVEY.windows.seconds)
START_SECONDS = 60.0
COLLECT_WAIT = timedelta(seconds=90)
STOP_SECONDS = 10.0
COMMANDS = {
    "leader": ["leader", "serve", "--work"],
    "helper": ["helper", "serve"],
    "collector": ["collector", "serve"],
}

console = Console()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, with everybody's answers.

    Attributes:
        planned: The question and how it is asked.
        task: The task that asks it.
        measurements: The answers.
    """

    planned: PlannedQuestion
    task: Task
    measurements: Sequence[Measurement]

    @property
    def design(self) -> Design:
        """How an answer is measured."""
        return self.planned.best.design


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Leave the three parties' files and stores in this folder, which must not exist: "
            "for a notebook.",
        ),
    ] = None,
    stay: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Keep the services up afterwards and open the collector's page; elsewhere than on "
            "a desktop, say where it is.",
        ),
    ] = False,
) -> None:
    """Run both aggregators and a collector here, and a real data set through them.

    Starts a leader and a helper on free loopback ports with fresh stores, uploads 5,912 people's
    answers to two questions, collects them, and prints each noised value beside the true one.
    Leaves nothing behind unless it is asked to. With --open the services stay up, and the
    collector's with them, until they are interrupted.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prio-demo-")))
        else:
            folder = keep
            folder.mkdir(parents=True)
        configs, urls = _write_configs(folder)
        # A window that is over: one that runs would take no answers after it was collected.
        window = SURVEY.windows.last(datetime.now(UTC))
        asked = _ask(configs, urls, window)
        console.print("starting leader and helper (one operator for all: a demo only)")
        stack.enter_context(_services(folder, configs, urls, ("leader", "helper")))
        collector = stack.enter_context(Collector.open(configs["collector"]))
        for each in asked:
            reports = anyio.run(_upload, each, window)
            with console.status(f"verifying and adding up {reports:,} reports"):
                collected = collector.collect(each.task, window, WINDOW, wait=COLLECT_WAIT)
            _print_figures(each, collected, _verified(configs, each.task))
        _print_guarantee()
        if keep is not None:
            console.print(f'Collector.open("{keep / "collector.toml"}") finds the results again.')
        if stay:
            stack.enter_context(_services(folder, configs, urls, ("collector",)))
            settings = read_settings_of(CollectorSettings, configs["collector"])
            _stay_open(urls, settings.token_path)
    if not stay:
        console.print("`prio demo --open` shows the same as pages, with their charts.")
    console.print(f"done in {time.monotonic() - started:.0f} seconds")


def _print_guarantee() -> None:
    epsilon = format_rational(SURVEY.budget.epsilon or Fraction(0))
    console.print(
        "Guaranteed to each person in the data, if one of the two aggregators is honest: all "
        f"results together would be as likely, within a factor of e^{epsilon}, had that person "
        "answered anything else. "
        "One operator who runs both aggregators, as here, has no privacy from itself."
    )


def _stay_open(urls: Mapping[str, str], token: Path) -> None:
    """Say where to look, and wait to be interrupted or told to end."""
    if console.is_terminal and _has_desktop():
        webbrowser.open(urls["collector"])  # before signals are blocked, which it would inherit
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    lines = [
        f"The results as pages: {urls['collector']}",
        f"Their token is in {token}",
        f"What the leader is doing: {urls['leader health'].removesuffix('health')}",
        f"What the helper is doing: {urls['helper health'].removesuffix('health')}",
        "Ctrl-C ends all of it.",
    ]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    signal.sigwait(signals)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def _has_desktop() -> bool:
    """Return whether a browser that is opened gets a window of its own, and not this terminal."""
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


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
            f'store_key_file = "{name}.key"  # beside the store, where only a demo has it\n'
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


def _ask(configs: Mapping[str, Path], urls: Mapping[str, str], window: datetime) -> list[Asked]:
    """Make the survey's tasks, hand each party its files, and read the answers."""
    with open_collector(configs["collector"]) as desk:
        collector_config = desk.keypair().config
    table = table_in(ANSWERS)
    rows = ({**row, "time": window} for row in table.rows)
    timed = AnswerTable([*table.names, "time"], rows)
    questions = [asked.question for asked in SURVEY.questions]
    answers = read_answers(timed, questions, SURVEY.windows, Columns(time="time"))
    asked = []
    for planned, given in zip(plan(SURVEY), answers, strict=True):
        tables = task_tables(SURVEY, planned)
        task = make_task(
            collector_config,
            tables.vdaf,
            tables.privacy,
            leader=urls["leader"],
            helper=urls["helper"],
            **tables.settings,
        )
        _hand_out(task, configs)
        measurement = planned.best.design.measurement
        asked.append(Asked(planned, task, [measurement(each) for each in given.by_start[window]]))
    return asked


def _hand_out(task: Task, configs: Mapping[str, Path]) -> None:
    """Give each party its file of a task, as an operator would with `prio task add`."""
    given = provision(task, SystemEntropy())
    for role in (Role.LEADER, Role.HELPER):
        with open_aggregator(configs[role.name.lower()]) as desk:
            desk.add_task(given[role])
    with open_collector(configs["collector"]) as desk:
        desk.add_task(given[Role.COLLECTOR])


@contextmanager
def _services(
    folder: Path, configs: Mapping[str, Path], urls: Mapping[str, str], names: Sequence[str]
) -> Iterator[None]:
    """Run the services of some parties, and stop them whatever happens."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_stop, running)
        for name in names:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [
                    sys.executable,
                    "-m",
                    "aggregator.cli",
                    *COMMANDS[name],
                    "--config",
                    configs[name],
                ],
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


async def _upload(asked: Asked, window: datetime) -> int:
    """Upload everybody's answer to a question; return how many were accepted."""
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("uploading", total=len(asked.measurements))
        async with open_client() as http:
            summary = await Client(asked.task, http).upload(
                asked.measurements,
                time=window,
                progress=lambda count: progress.advance(bar, count),
            )
    for error, count in summary.refused.items():
        console.print(f"{count} reports refused: {error.draft_name}")
    return summary.accepted


def _verified(configs: Mapping[str, Path], task: Task) -> dict[str, int]:
    """Return how many reports each aggregator verified and added up, according to its store."""
    counts = {}
    for name in ("leader", "helper"):
        with open_aggregator(configs[name]) as desk:
            counts[name] = desk.aggregated(task.task_id)
    return counts


def _print_figures(asked: Asked, collected: Collected, verified: Mapping[str, int]) -> None:
    circuit, question = asked.task.prio3.circuit, asked.planned.question
    sums = circuit.truncate(circuit.encode(asked.measurements)).sum(axis=0)
    exact = [Noised.exact(value) for value in sums.to_ints()]
    truths = asked.design.figures(exact, len(asked.measurements))
    table = Table("", "true", "noised", "95 % interval", "holds it", title=question.text)
    for truth, row in zip(truths, collected.survey().rows, strict=True):
        value, interval = row.quantity.estimate, row.quantity.interval()
        assert truth.quantity.estimate is not None  # noqa: S101  exact sums have one
        inside = interval.low <= truth.quantity.estimate <= interval.high
        table.add_row(
            f"{row.shows} {row.quantity.label}",
            f"{float(truth.quantity.estimate):,.6g}",
            "" if value is None else f"{float(value):,.6g}",
            f"{float(interval.low):,.6g} to {float(interval.high):,.6g} {row.quantity.unit}",
            "yes" if inside else "no",
        )
    for column in table.columns[1:4]:
        column.justify = "right"
    console.print(table)
    console.print(
        f"The leader verified {verified['leader']:,} reports, the helper {verified['helper']:,}; "
        "each added its own noise. "
        "True values are from the CSV; no service ever had them. "
        "On average, at most one interval in twenty misses.\n"
    )
