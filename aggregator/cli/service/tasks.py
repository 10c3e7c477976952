"""`prio task`: make, add, import, list, show, keep and end tasks."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import (
    AsJson,
    CollectorConfig,
    Config,
    InsecureHttp,
    NewFolder,
    OfProfile,
    TaskArgument,
    TaskCommand,
    WhichTask,
)
from aggregator.cli.service import tokens
from aggregator.cli.service.task_import import import_
from aggregator.cli.service.task_in_band import bring
from aggregator.cli.types import CIRCUITS, Parameters, takes_parameters, type_of
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from aggregator.service.config import MAX_SECONDS
from aggregator.untrusted_text import escaped
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.cli.service.parties import Party
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.task import Task

app = typer.Typer(no_args_is_help=True, help="Make, add, import, list, show, keep and end tasks.")
app.add_typer(tokens.app, name="token")

MAX_DAYS = MAX_SECONDS // DAY


@app.command()
@takes_parameters
def new(
    out: NewFolder,
    vdaf: Annotated[str, typer.Option(help=f"Type of measurement: {CIRCUITS}.")],
    leader: Annotated[str, typer.Option(help="The leader's URL.")],
    helper: Annotated[str, typer.Option(help="The helper's URL.")],
    collector_config: CollectorConfig,
    min_batch_size: Annotated[
        int, typer.Option(help="The fewest reports that are released together.")
    ],
    max_reports: Annotated[int, typer.Option(help="The most reports that one batch may hold.")],
    parameters: Parameters,
    epsilon: Annotated[
        str | None, typer.Option(help='The epsilon of one release, exact: "1/2" or "0.5".')
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help='The noise that both aggregators add; "None" adds nothing.')
    ] = "PureDpDiscreteLaplace",
    privacy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Another setting of the task's privacy table, such as budget=4. Repeatable.",
        ),
    ] = None,
    privacy_file: Annotated[
        Path | None,
        typer.Option(
            help="Take the privacy table from this file, as `prio plan advise --out` writes "
            "it; --epsilon and --privacy override its lines."
        ),
    ] = None,
    batch_mode: Annotated[
        str,
        typer.Option(
            help="time-interval: a batch is an interval that the collector names; leader-selected: "
            "the leader fills batches of min-batch-size reports, and the collector asks for the "
            "next one; collector-selected: a batch is what is uploaded below a collection job."
        ),
    ] = "time-interval",
    time_precision: Annotated[
        int, typer.Option(help="Length of a unit of time in seconds.")
    ] = 3600,
    window: Annotated[
        int | None,
        typer.Option(
            help="Make every batch a window of this many units of time. If not given, "
            "clients count a person's reports for ever."
        ),
    ] = None,
    window_start: Annotated[
        str | None,
        typer.Option(
            help="When one of the windows begins: ISO 8601 or seconds since 1970; 1970 if "
            "not given."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="When the task begins to take reports: ISO 8601 or seconds since 1970."),
    ] = None,
    duration: Annotated[
        int | None, typer.Option(min=1, help="For how many units of time the task takes reports.")
    ] = None,
    info: Annotated[str, typer.Option(help="What the task is for, in a few words.")] = "task",
    profile: OfProfile = "dap-18",
    in_band: Annotated[
        bool,
        typer.Option(
            "--in-band",
            help="Make a task that comes with its first request: its id is the hash of its "
            "configuration. There are no files for the aggregators; PRIO_COLLECTOR_TOKEN is the "
            "token that was agreed on with the leader.",
        ),
    ] = False,
    insecure_http: InsecureHttp = False,
) -> None:
    """Make a task: the public task.toml and one file with secrets for each party.

    Give leader.toml, helper.toml and collector.toml only to the party that each is named after;
    clients need task.toml only.
    """
    from aggregator.cli.service.task_making import (
        assignment,
        collector_config_of,
        interval_of,
        make_task,
        privacy_table,
        window_of,
        write_files,
        write_files_in_band,
    )
    from aggregator.dap.profile import Role
    from aggregator.dp.sensitivity import max_entry
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.provisioning import PARTIES

    settings = {} if privacy_file is None else privacy_table(privacy_file)
    settings |= dict(assignment(text) for text in privacy or [])
    if epsilon is not None:
        settings["epsilon"] = epsilon
    settings |= window_of(window, window_start, time_precision)
    task = make_task(
        collector_config_of(collector_config),
        {"type": type_of(vdaf, "vdaf").name, **parameters},
        {"mechanism": mechanism} | settings,
        leader=leader,
        helper=helper,
        batch_mode=batch_mode.replace("-", "_"),
        time_precision=time_precision,
        min_batch_size=min_batch_size,
        max_reports=max_reports,
        task_info=info,
        profile=profile,
        **interval_of(start, duration, time_precision),
    )
    check_endpoints(task, insecure_http=insecure_http)
    parties = PARTIES
    if in_band:
        task, parties = write_files_in_band(task, out), (Role.COLLECTOR,)
    else:
        write_files(task, out)
    names = ", ".join(f"{role.name.lower()}.toml" for role in parties)
    print(f"{task.task_id}")
    print(f"wrote task.toml (public) and {names} (secret) to {out}", file=sys.stderr)
    print(describe_privacy(task), file=sys.stderr)
    if not task.policy.has_limit:
        print(
            "warning: the task has neither a budget nor max_releases, so no aggregator ever "
            "refuses another release; --privacy budget=… or --privacy max_releases=… sets a limit",
            file=sys.stderr,
        )
    if task.is_policy_bound:
        print(
            "only this program knows the task extension that binds the policy: where a party is "
            "another's, --privacy bound=false leaves it out, and each of ours applies it unasked",
            file=sys.stderr,
        )
    circuit = task.prio3.circuit
    if circuit.takes_vectors and max_entry(circuit) > 1 and not task.policy.shares:
        print(
            "warning: every value has the noise of the largest possible entry, however small its "
            "own range; `prio survey` gives each column of a vector a range of its own",
            file=sys.stderr,
        )


@app.command()
def add(
    file: Annotated[
        Path, typer.Argument(help="This party's file of the task; - for standard input.")
    ],
    config: Config = None,
    keep_days: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_DAYS,
            help="Set the retention of each added task, as `prio task retention --days` does.",
        ),
    ] = None,
) -> None:
    """Take part in a task, or in all of a survey's. Adding a file again changes nothing."""
    from aggregator.cli.files import named
    from aggregator.cli.service.parties import open_aggregator, open_party
    from aggregator.cli.service.taking_part import take_part
    from aggregator.service.config import read_text

    text = read_text(file)
    opened = open_party(config) if keep_days is None else open_aggregator(config)
    with opened as party, named(file):
        for task in take_part(party, text):
            if keep_days is not None:
                _keep(party, task.task_id, keep_days)
            print(task.task_id)


app.command("import")(import_)
app.command(cls=TaskCommand)(bring)


@app.command("list")
def list_(
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print the tasks that this party takes part in, one per line, each with its state."""
    from aggregator.cli.service.parties import open_party
    from aggregator.cli.service.task_states import states_of

    with open_party(config, may_make=False) as party:
        found = states_of(party)
    if as_json:
        listed = [
            {
                "task_id": str(task.task_id),
                "title": task.title,
                "vdaf": f"Prio3{task.prio3.circuit.name}",
                "state": [*state],
            }
            for task, state in found
        ]
        print(json.dumps({"version": 1, "tasks": listed}))
        return
    for task, state in found:
        words = (
            str(task.task_id),
            f"Prio3{task.prio3.circuit.name}",
            ", ".join(state),
            escaped(task.title),
        )
        print("  ".join(words))


@app.command(cls=TaskCommand)
def show(
    task_id: TaskArgument,
    config: Config = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print on one line only what a client in any language needs."),
    ] = False,
) -> None:
    """Print a task with its privacy and the counts of its reports, as JSON."""
    from aggregator.cli.service.parties import open_party, task_id_of
    from aggregator.cli.service.task_states import document_of, task_of
    from aggregator.protocol.task_file import task_for_clients

    with open_party(config, may_make=False) as party:
        if as_json:
            print(json.dumps(task_for_clients(task_of(party, task_id_of(task_id)))))
        else:
            print(json.dumps(document_of(party, task_id_of(task_id)), indent=2))


@app.command(cls=TaskCommand)
def retention(
    task_id: TaskArgument,
    days: Annotated[
        int | None, typer.Option(min=0, max=MAX_DAYS, help="How many days to keep what has ended.")
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Use the service's retention_seconds again.")
    ] = False,
    config: Config = None,
) -> None:
    """Set how long an aggregator keeps what has ended of a task: jobs, answers, counts."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of

    if (days is not None) is default:
        raise ParameterError("days: give either --days or --default")
    with open_aggregator(config, may_make=False) as party:
        _keep(party, task_id_of(task_id), days)


@app.command(cls=TaskCommand)
def end(task_id: TaskArgument, config: Config = None) -> None:
    """Take no more uploads for a task; what was uploaded can still be collected."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.service.storage.tasks.tasks import end_task

    ended = task_id_of(task_id).value
    with open_aggregator(config, may_make=False) as party:
        party.database.run_sync("end task", lambda tx: end_task(tx, ended))


@app.command(cls=TaskCommand)
def forget(task_id: TaskArgument, config: Config = None) -> None:
    """Delete an ended task with everything but what its releases cost; it cannot be added again."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.service.storage.tasks import forgetting

    with open_aggregator(config, may_make=False) as party:
        forgetting.forget(party.database, task_id_of(task_id).value)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The public task file, of one task or of a survey.")],
    which: WhichTask = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the file as JSON, with the bytes bound into reports."),
    ] = False,
) -> None:
    """Check a task file and print the fingerprints, which all parties must agree on."""
    from aggregator.cli.files import name_of, read_task, read_tasks
    from aggregator.dap.profile import DAP_18
    from aggregator.protocol.task_file import tasks_to_json

    tasks = read_tasks(file) if which is None else [read_task(file, which)]
    if as_json:
        print(tasks_to_json(tasks), end="")
        return
    for place, task in enumerate(tasks):
        if place:
            print()
        if len(tasks) > 1:
            print(f"{name_of(task)}  {task.task_id}")
        print(f"fingerprint {task.fingerprint}")
        if task.profile is not DAP_18:
            print(f"profile {task.profile.name}")
        print(describe_privacy(task))


def describe_privacy(task: "Task") -> str:
    """Return a task's guarantee and its cost in accuracy, for a reader."""
    from aggregator.dap.ids import encode_base64url
    from aggregator.dp.utility import DEFAULT_CONFIDENCE, PERCENT
    from aggregator.protocol.budget import horizon, promise_of_all
    from aggregator.protocol.groups import group_in_words
    from aggregator.protocol.summary import statement_of

    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    lines = [
        f"{mechanism.name}: {statement_of(task, mechanism.guarantee(circuit))}",
        f"noise of each aggregator: {mechanism.describe_scale(circuit)}",
    ]
    if mechanism.is_noisy:
        width = mechanism.half_width(circuit, DEFAULT_CONFIDENCE)
        joint = mechanism.joint_half_width(circuit, DEFAULT_CONFIDENCE)
        lines.append(f"variance of both together: {mechanism.variance(circuit):,.6g}")
        lines.append(
            f"{PERCENT} interval with both: plus or minus {width:,} for each value, "
            f"plus or minus {joint:,} for all at once"
            + (", and less in some sections" if len(set(mechanism.laws(circuit))) > 1 else "")
        )
    most, promise = horizon(task), promise_of_all(task)
    limit = "no limit" if most is None else f"at most {most:,}, each aggregator refuses more"
    lines.append(f"releases: {limit}")
    if promise is not None:
        lines.append(promise)
    lines.append(_describe_persons(task))
    if task.permits is not None:
        lines.append(
            "only reports with a permit count, each permit once at both aggregators: domain "
            f"{encode_base64url(task.permits.domain)}"
        )
    if task.attribution is not None:
        lines.append(
            f"attribution: {task.attribution.collector_identity} collects, paid for by the budget "
            f"of {task.attribution.budget_source}; each collection has its own epsilon, at most "
            "the one above"
        )
    if task.issuer_keys is not None:
        first, count = task.issuer_keys.first, len(task.issuer_keys.moduli)
        until = task.permits_from(first + count)
        lines.append(
            "an issuer signs the permits, with one key"
            if task.policy.window is None
            else "an issuer signs the permits, with one key for each window from "
            f"{utc_text(task.permits_from(first))} to {utc_text(until)}"
        )
    if (group := group_in_words(task)) is not None:
        lines.append(group)
    return "\n".join(lines)


def _keep(party: "Party", task_id: "TaskId", days: int | None) -> None:
    from aggregator.service.storage.tasks.tasks import keep_for

    seconds = None if days is None else days * DAY
    party.database.run_sync("keep task", lambda tx: keep_for(tx, task_id.value, seconds))


def _describe_persons(task: "Task") -> str:
    """Return how many reports for one person a client sends that keeps count."""
    most, batches, window = (
        task.policy.max_reports_per_person,
        task.policy.max_batches_per_person,
        task.policy.window,
    )
    if window is None:
        return f"one person's reports: {most} for ever, since the task has no window"
    seconds = window.length * task.time_precision
    limit = "" if batches is None else f", in {batches} windows in all"
    return (
        f"one person's reports: {most} in each window{limit}; windows are of {seconds:,} seconds, "
        f"one begins {window.start * task.time_precision:,} seconds after the epoch, and a batch "
        "is one of them"
    )
