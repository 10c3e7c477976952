"""`prio demo`: runs a survey of real people through a leader, a helper and a collector here.

One operator holds all three parties' keys, which nobody does in a deployment: the demo shows how
everything works, and says that it protects nobody from its operator.
"""

import dataclasses
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from aggregator.dp.rationals import format_rational
from aggregator.entropy import SystemEntropy
from aggregator.steward.survey import survey_from_toml

if TYPE_CHECKING:
    from aggregator.cli.local.demo_page import Answered
    from aggregator.cli.local.folder import LocalFolder
    from aggregator.cli.local.services import Running
    from aggregator.collector import Collected, Collector
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Part, Sheet, Sums
    from aggregator.vdaf.circuits.measurements import Measurement

DATA = Path(__file__).parent / "data"
ANSWERS = DATA / "rand_health_insurance.csv"
SURVEY = survey_from_toml((DATA / "rand_health_insurance.toml").read_text(encoding="utf-8"))
WINDOW = timedelta(seconds=SURVEY.windows.seconds)
LOOK = timedelta(seconds=5)
"""How often the services are checked while the demo waits for a result."""
_GUARANTEE = (
    "Guaranteed to each person in the data, if one of the two aggregators is honest: all "
    "results together would be as likely, within a factor of "
    f"e^{format_rational(SURVEY.budget.epsilon or Fraction(0))}, had that person "
    "answered anything else. "
    "One operator who runs both aggregators, as here, has no privacy from itself."
)

console = Console()


@dataclass(frozen=True, slots=True)
class Asked:
    """The survey's task, with all answers: one report for each person."""

    sheet: "Sheet"
    task: "Task"
    measurements: "Sequence[Measurement]"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the three parties' files and stores in this folder, which must not "
            "exist yet, for use in a notebook.",
        ),
    ] = None,
    stay: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Keep the services running afterwards, and open the collector's page and "
            "one that shows the results beside the truth; without a desktop, print their "
            "addresses.",
        ),
    ] = False,
) -> None:
    """Run both aggregators and a collector here, and a real data set through them.

    Starts a leader and a helper on free loopback ports with fresh stores, uploads one report of
    each of 5,912 people with their answers to two questions, collects them, and shows each noised
    value beside the true one: in the terminal, and on a page of its own in the folder. Leaves
    nothing behind unless it is asked to. With --open the services stay up, and the collector's with
    them, until they are interrupted.
    """
    from aggregator.cli.local.folder import LocalFolder
    from aggregator.cli.local.services import running

    started = time.monotonic()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prio-demo-")))
        else:
            folder = keep
            folder.mkdir(parents=True)
        local = LocalFolder.made(folder)
        # Take a window that is over: a current window takes no answers once it is collected.
        window = SURVEY.windows.last(datetime.now(UTC))
        console.print("starting leader and helper (one operator for all: a demo only)")
        services = stack.enter_context(running([]))
        for program in local.programs(("leader", "helper")):
            services.start(program)
        # While the services start, load what takes longest, and the answers.

        from aggregator.collector import Collector

        asked = _ask(local, window)
        services.wait()
        collector = stack.enter_context(Collector.open(local.config("collector")))
        reports = _upload(asked, window)
        with console.status(f"verifying and adding up {reports:,} reports"):
            collected = _collect(collector, asked.task, window, services)
        shown = _answered(asked, collected, _verified(local, asked.task))
        for each in shown:
            _print_figures(each)
        console.print(_GUARANTEE)
        page = (folder / "demo.html").absolute()
        if keep is not None:
            console.print(f'Collector.open("{keep / "collector.toml"}") finds the results again.')
        if stay:
            for program in local.programs(("collector",)):
                services.start(program)
            services.wait()
            pages = [_with_pages(each, asked, place, local) for place, each in enumerate(shown)]
            _write_page(page, pages, local)
            _stay_open(page, local, services)
        if keep is not None:
            _write_page(page, shown)  # without links to services that have ended
            _say(f"The results beside the truth: {page}")
    if not stay:
        console.print("`prio demo --open` shows the same as pages, with their charts.")
    console.print(f"done in {time.monotonic() - started:.0f} seconds")


def _write_page(
    file: Path, shown: "Sequence[Answered]", local: "LocalFolder | None" = None
) -> None:
    """Write the page of results beside the truth, with links to the services that stay up."""
    from aggregator.cli.local.demo_page import comparison_page
    from aggregator.cli.local.pages import pages_of

    about = (
        f"Answers of people in the {SURVEY.title}, put through a leader, a helper and a collector "
        "on this machine. The true values are from the CSV: no service ever had them, so the "
        f"collector's own pages show none. {_GUARANTEE}"
    )
    note = (
        "Links lead to the services, which run as long as the demo does. The collector asks for "
        f"the token in {local.token if local else ''}; the leader and the helper ask for none."
    )
    links = [] if local is None else pages_of(local)
    title = "What was released, beside the truth"
    file.write_text(comparison_page(title, about, shown, links, note), encoding="utf-8")


def _with_pages(shown: "Answered", asked: Asked, place: int, local: "LocalFolder") -> "Answered":
    """Return a question with the addresses of its pages at the collector."""
    home = f"{local.url('collector')}questions/{asked.task.task_id}"
    pages = [
        (f"{home}?part={place}", "the result"),
        (f"{home}/about?part={place}", "about this number"),
        (f"{home}/batches", "batches"),
    ]
    return dataclasses.replace(shown, pages=pages)


def _stay_open(page: Path, local: "LocalFolder", services: "Running") -> None:
    """Print where to look, and wait until the user ends it or a service dies."""
    from aggregator.cli.local.pages import open_in_browser

    open_in_browser(page.as_uri(), local.url("collector"))
    _say(
        f"The results beside the truth: {page}",
        f"The collector's pages: {local.url('collector')}",
        f"Their token is in {local.token.absolute()}",
        f"What the leader is doing: {local.status_url('leader')}",
        f"What the helper is doing: {local.status_url('helper')}",
        "Ctrl-C ends all of it.",
    )
    with suppress(KeyboardInterrupt):
        services.watch()


def _say(*lines: str) -> None:
    """Print lines without wrapping them."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _ask(local: "LocalFolder", window: datetime) -> Asked:
    """Make the survey's task, give each party its file, and read the answers."""
    from aggregator.cli.local.tasks import hand_out
    from aggregator.cli.service.parties import open_collector
    from aggregator.cli.service.task_making import make_task
    from aggregator.client.table_files.formats import table_in
    from aggregator.client.table_files.table import Table
    from aggregator.collector.keys import keypair_of
    from aggregator.protocol.provisioning import provision
    from aggregator.steward.survey import Columns, plan, read_answers, task_tables

    with open_collector(local.config("collector")) as party:
        collector_config = keypair_of(party.database).config
    table = table_in(ANSWERS)
    rows = ([*cells, window] for _, cells in table.read(table.names))
    timed = Table.of_rows([*table.names, "time"], rows)
    questions = [asked.question for asked in SURVEY.questions]
    answers = read_answers(timed, questions, SURVEY.windows, Columns(time="time"))
    planned = plan(SURVEY)
    tables = task_tables(SURVEY.model_copy(update={"first": window}), planned)
    task = make_task(
        collector_config,
        tables.vdaf,
        tables.privacy,
        leader=local.url("leader"),
        helper=local.url("helper"),
        **tables.settings,
    )
    hand_out(local, provision(task, SystemEntropy()))
    sheet = planned.sheet
    return Asked(sheet, task, [sheet.measurement(each) for each in answers.by_start[window]])


def _upload(asked: Asked, window: datetime) -> int:
    """Upload all answers; return how many reports were accepted."""
    from rich.progress import Progress

    from aggregator.client import Client

    with Progress(console=console, transient=True) as progress, Client(asked.task) as client:
        bar = progress.add_task("uploading", total=len(asked.measurements))
        summary = client.upload(
            asked.measurements, time=window, progress=lambda count: progress.advance(bar, count)
        )
    for reason, count in summary.refused.items():
        console.print(f"{count} reports refused: {reason}")
    return summary.accepted


def _verified(local: "LocalFolder", task: "Task") -> dict[str, int]:
    """Return how many reports each aggregator verified and added up, according to its store."""
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.service.storage.reports.counters import AGGREGATED, Stage, report_counts

    counts = {}
    for name in ("leader", "helper"):
        with open_aggregator(local.config(name)) as party:
            counted = party.database.read_sync(
                "count reports",
                lambda tx: report_counts(tx, task.task_id.value, Stage.AGGREGATION),
            )
        counts[name] = counted.get(AGGREGATED, 0)
    return counts


def _collect(
    collector: "Collector", task: "Task", window: datetime, services: "Running"
) -> "Collected":
    """Collect a window, however long it takes, unless a service dies."""
    from aggregator.collector.collect import CollectionTimeout

    while True:
        try:
            return collector.collect(task, window, WINDOW, wait=LOOK)
        except CollectionTimeout:
            services.check()


def _answered(
    asked: Asked, collected: "Collected", verified: Mapping[str, int]
) -> "list[Answered]":
    """Return the released figures of each question, each beside its true value."""
    from aggregator.collector.results import Noised

    circuit, sheet = asked.task.prio3.circuit, asked.sheet
    summed = circuit.truncate(circuit.encode(asked.measurements)).sum(axis=0)
    exact = [Noised.exact(value) for value in summed.to_ints()]
    released, true = sheet.sums_of(collected.batch()), sheet.sums(exact, len(asked.measurements))
    return [_of_part(part, released, true, collected, verified) for part in sheet.parts]


def _of_part(
    part: "Part",
    released: "Sums",
    true: "Sums",
    collected: "Collected",
    verified: Mapping[str, int],
) -> "Answered":
    """Return the released figures of one question."""
    from aggregator.cli.local.demo_page import Answered, Beside
    from aggregator.service.web.pages.charts import Mark

    figures = []
    for figure, beside in zip(part.figures(released), part.figures(true), strict=True):
        quantity, interval = figure.quantity, figure.quantity.interval()
        truth = beside.quantity.estimate
        assert truth is not None  # noqa: S101  exact sums have a truth
        value = None if quantity.estimate is None else float(quantity.estimate)
        mark = Mark(quantity.label, value, float(interval.low), float(interval.high))
        is_held = interval.low <= truth <= interval.high
        figures.append(Beside(figure.shows, quantity.unit, mark, float(truth), is_held))
    counted = (
        f"The leader verified {verified['leader']:,} reports, the helper {verified['helper']:,}; "
        "each added its own noise."
    )
    return Answered(part.question.text, counted, figures, collected.promise, collected.conditions)


def _print_figures(answered: "Answered") -> None:
    from rich.table import Table

    from aggregator.collector.pages.numbers import beside, said
    from aggregator.dp.utility import PERCENT

    table = Table("", "true", "noised", f"{PERCENT} interval", "holds it", title=answered.title)
    for each in answered.figures:
        value, low, high = said(each.mark)
        table.add_row(
            each.name,
            beside(each.mark, each.truth),
            value,
            f"{low} to {high} {each.unit}".strip(),
            each.verdict,
        )
    for column in table.columns[1:4]:
        column.justify = "right"
    console.print(table)
    console.print(
        f"{answered.counted} True values are from the CSV; no service ever had them. "
        "On average, at most one interval in twenty misses.\n"
    )
