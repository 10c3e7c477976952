"""`prio collect`: collects a batch from a shell."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import AsJson, Config, TaskArgument, Timeout, parse_time
from aggregator.collector.results.post_processing import Rule
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS

if TYPE_CHECKING:
    from aggregator.collector.documents import Document
    from aggregator.collector.results import Quantity


def collect(
    task_id: TaskArgument,
    start: Annotated[
        str | None,
        typer.Option(
            help="Start of the interval: ISO 8601, in UTC unless it names a zone, or seconds "
            "since 1970. If not given, the next batch of a task whose leader selects batches.",
            show_default=False,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            help="End of the interval, not included; written like --start.", show_default=False
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="In a task of attribution: the epsilon of this collection's noise, which each of "
            "its reports has to pay, in steps of 0.000001.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    buckets: Annotated[
        str,
        typer.Option(help="Labels of the values in the printed table, in order, joined by commas."),
    ] = "",
    rule: Annotated[
        Rule | None,
        typer.Option(
            "--post-process",
            help="Beside the noised values, also print them clamped to their range, or projected "
            "onto the possible histograms.",
        ),
    ] = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Collect an interval that is not over. Its later reports are refused."
        ),
    ] = False,
    timeout: Timeout = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Collect a batch and print the result with its error bars.

    The batch is an interval, or the leader's next batch, as the task says. The request and the
    result are kept in the collector's store: if interrupted, repeat the command, and it continues
    the same collection. The exit status is 3 if the leader refused or the batch was not ready in
    time.
    """
    import anyio

    from aggregator.cli.collector.tables import print_result
    from aggregator.collector.documents import problem_text
    from aggregator.dap.attribution import BUDGET_NAME, budget_of
    from aggregator.dp.rationals import parse_rational
    from aggregator.service.storage.engine.states import CollectionState
    from aggregator.written_times import duration

    times = {"start": parse_time(start, "start"), "end": parse_time(end, "end")}
    named = {name: time for name, time in times.items() if time is not None}
    if epsilon is not None:
        named[BUDGET_NAME] = budget_of(parse_rational(epsilon, "epsilon"))
    labels = buckets.split(",") if buckets else ()
    document, values = anyio.run(_collect, config, task_id, named, timeout, rule, now, labels)
    if as_json:
        print(json.dumps(document))
    elif document["state"] == CollectionState.FINISHED:
        print_result(document, values)
    if document["state"] in (CollectionState.FAILED, CollectionState.ABANDONED):
        if not as_json:
            print(f"prio: {problem_text(document['problem'])}", file=sys.stderr)
        raise SystemExit(faults.PEER)
    if document["state"] == CollectionState.PENDING:
        if not as_json:
            # The leader has only said that the batch is not ready; its operator can see why.
            reason = document["reason"] or "the leader's `prio job list` says why"
            why = f": {reason}; the same command goes on waiting"
            print(f"prio: the batch was not ready in {duration(timeout)}{why}", file=sys.stderr)
        raise SystemExit(faults.PEER)


async def _collect(
    config: Path | None,
    task_id: str,
    named: Mapping[str, int],
    seconds: float,
    rule: Rule | None,
    now: bool,
    labels: Sequence[str],
) -> "tuple[Document, Sequence[Quantity]]":
    """Ask for a collection; return it and its values when it has ended, or the time is up."""
    from rich.console import Console

    from aggregator.cli.service.parties import task_id_of
    from aggregator.collector import AsyncCollector
    from aggregator.collector.documents import with_post_processing
    from aggregator.collector.results import Batch
    from aggregator.collector.results.post_processing import post_process
    from aggregator.service.telemetry.compiling import said_of_compiling

    async with AsyncCollector.open(config) as collector:
        task = await collector.task(task_id_of(task_id))
        length = task.prio3.circuit.output_len
        if labels and (len(labels) != length or len(set(labels)) != length):
            raise ParameterError(
                f"buckets: must be {length} different labels, one for each value, not {len(labels)}"
            )
        if rule is not None:
            # Refuse a rule that cannot apply to any result before asking for one.
            post_process(rule, task.prio3.circuit, [0] * length, task.min_batch_size)
        console = Console(stderr=True)
        with (
            console.status("the batch is not ready yet")
            if console.is_terminal
            else nullcontext() as status
        ):

            def tell(reason: str | None) -> None:
                if status is not None:
                    status.update((reason or "the batch is not ready yet") + said_of_compiling())

            document = await collector.ask(
                task, named, wait=timedelta(seconds=seconds), now=now, tell=tell
            )
        is_there = document["result"] is not None
        values = Batch.of_document(task, document, labels).quantities() if is_there else []
        return with_post_processing(task, document, rule), values
