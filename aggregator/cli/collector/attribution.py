"""`prio attribution`: makes tasks of what browsers attribute, and collects bundles of reports.

Source: W3C, "Attribution Level 1"; draft-thomson-ppm-dap-attribution.
"""

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import (
    AsJson,
    CollectorConfig,
    Config,
    NewFolder,
    OfProfile,
    TaskArgument,
    TaskCommand,
    Timeout,
)
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.cli.service.parties import CollectorParty
    from aggregator.collector.bundles import HandedIn
    from aggregator.collector.results.result import Result
    from aggregator.dap.messages import CollectionJobReq, Report
    from aggregator.protocol.task import Task

app = typer.Typer(
    no_args_is_help=True, help="Make and collect tasks of what browsers attribute to advertising."
)

_TIME_PRECISION, _MIN_BATCH_SIZE = 5, 20
_MAX_REPORTS = 1_000_000
"""Only the collector's own bound: each aggregator has that of its agreement."""


@app.command()
def new(
    out: NewFolder,
    leader: Annotated[str, typer.Option(help="The leader's URL, as browsers write it.")],
    helper: Annotated[str, typer.Option(help="The helper's URL, as browsers write it.")],
    collector_config: CollectorConfig,
    length: Annotated[int, typer.Option(min=1, help="The size of the histogram.")],
    max_value: Annotated[
        int, typer.Option(min=1, help="The most that the entries of one histogram add up to.")
    ],
    collector_identity: Annotated[
        str, typer.Option(help="The host that collects: the site's, or its intermediary's.")
    ],
    budget_source: Annotated[str, typer.Option(help="The host of the site of the conversion.")],
    epsilon: Annotated[
        str, typer.Option(help='The largest epsilon of a collection, exact: "1/2" or "0.5".')
    ],
    profile: OfProfile = "dap-18",
) -> None:
    """Make a task as browsers do: the same values give the same task.

    It comes in band, so there are no files for the aggregators. PRIO_COLLECTOR_TOKEN is the token
    that was agreed on with the leader.
    """
    from aggregator.cli.service.task_making import (
        collector_config_of,
        make_task,
        write_files_in_band,
    )

    bits = max_value.bit_length()
    task = make_task(
        collector_config_of(collector_config),
        {
            "type": "Prio3L1BoundSum",
            "length": length,
            "max_value": max_value,
            "chunk_length": round(math.sqrt((bits + 1) * length)),
        },
        {"mechanism": "PureDpDiscreteLaplace", "epsilon": epsilon, "bound": False},
        leader=leader,
        helper=helper,
        time_precision=_TIME_PRECISION,
        min_batch_size=_MIN_BATCH_SIZE,
        max_reports=_MAX_REPORTS,
        task_info="",
        batch_mode="collector_selected",
        profile=profile,
        attribution={"collector_identity": collector_identity, "budget_source": budget_source},
    )
    print(write_files_in_band(task, out).task_id)
    print(f"wrote task.toml (public) and collector.toml (secret) to {out}", file=sys.stderr)


@app.command(cls=TaskCommand)
def collect(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Encoded reports, one after the other in a file.",
            default_factory=list,
            show_default=False,
        ),
    ],
    task_id: TaskArgument,
    epsilon: Annotated[
        str,
        typer.Option(help='The epsilon of this collection, which each report has paid, as "1/2".'),
    ],
    config: Config = None,
    job: Annotated[
        str | None,
        typer.Option(help="Wait for the job that an interrupted call has named, without files."),
    ] = None,
    timeout: Timeout = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Hand in a bundle of reports and print their noised histogram with its error bars.

    The reports count in this bundle alone, unless it comes to nothing. The exit status is 3 if the
    leader refused the bundle, or its result was not ready in time.
    """
    import anyio

    from aggregator.cli.collector.tables import print_result
    from aggregator.cli.files import named
    from aggregator.cli.service.parties import no_task, open_collector, task_id_of
    from aggregator.collector.bundles import read_reports
    from aggregator.collector.documents import result_document
    from aggregator.collector.results import Batch
    from aggregator.collector.results.result import collection_request
    from aggregator.collector.store import get_collector_task
    from aggregator.dap.attribution import BUDGET_NAME, budget_of
    from aggregator.dp.rationals import parse_rational
    from aggregator.protocol.task_file import stored_task

    if bool(files) == (job is not None):
        raise ParameterError("FILE: give files with reports, or --job alone")
    reports: list[Report] = []
    for file in files:
        with named(file):
            reports += read_reports(file.read_bytes())
    wanted, budget = task_id_of(task_id), budget_of(parse_rational(epsilon, "epsilon"))
    with open_collector(config, may_make=False) as party:
        record = party.database.read_sync("task", lambda tx: get_collector_task(tx, wanted.value))
        if record is None:
            raise no_task(wanted)
        task = stored_task(record.definition)
        if not task.batching.collector_selects:
            raise ParameterError("task: only one of attribution takes bundles of reports")
        request = collection_request(task, {BUDGET_NAME: budget})
        at_leader = _AtLeader(party, task, record.token)
        handed_in, result = anyio.run(_collect, at_leader, request, reports, job, timeout)
    document = None if result is None else result_document(task, result)
    if result is not None and job is None and result.report_count > handed_in.accepted:
        print(
            f"prio: only {handed_in.accepted:,} of the reports are of these files: another bundle "
            "of the task was begun at the same time",
            file=sys.stderr,
        )
    if as_json:
        where, refused = handed_in.collection.location, dict(handed_in.refused)
        print(json.dumps({"version": 1, "job": where, "refused": refused, "result": document}))
    elif result is not None:
        print_result({"result": document}, Batch.of_result(task, result).quantities())
    if result is None:
        raise SystemExit(faults.PEER)


@dataclasses.dataclass(frozen=True, slots=True)
class _AtLeader:
    """Who asks, and for which task."""

    party: "CollectorParty"
    task: "Task"
    token: str = dataclasses.field(repr=False)


async def _collect(
    asking: _AtLeader,
    request: "CollectionJobReq",
    reports: "Sequence[Report]",
    job: str | None,
    seconds: float,
) -> "tuple[HandedIn, Result | None]":
    import anyio

    from aggregator.codec import encode
    from aggregator.collector.bundles import HandedIn, fill
    from aggregator.collector.collect import Collection, TaskCollector
    from aggregator.collector.keys import keypair_of
    from aggregator.service.transport.client import client_of
    from aggregator.written_times import duration

    keypair = await anyio.to_thread.run_sync(keypair_of, asking.party.database)
    async with client_of(asking.party.settings) as http:
        collector = TaskCollector(asking.task, keypair, asking.token, http)
        handed_in = HandedIn(Collection(encode(request), job or ""), 0, {})
        if job is None:
            collection, _ = await collector.start(request)
            # Before any report is bound to it: if we die, nobody else knows it.
            print(f"prio: --job {collection.location}", file=sys.stderr, flush=True)
            handed_in = await fill(collector, collection, reports)
            print(f"prio: handed in {len(reports):,} reports", file=sys.stderr)
        for error, count in sorted(handed_in.refused.items()):
            print(f"prio: the leader refused {count:,}: {error}", file=sys.stderr)
        with anyio.move_on_after(seconds):
            return handed_in, await collector.wait_for(handed_in.collection)
    print(f"prio: there was no result in {duration(seconds)}; --job waits on", file=sys.stderr)
    return handed_in, None
