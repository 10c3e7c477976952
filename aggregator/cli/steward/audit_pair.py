"""`prio audit pair`: whether two running aggregators add the noise that they should.

It needs a collector's service file and no secret of an aggregator. The first call makes a task for
the purpose and says what each operator must do with it; later calls upload, collect and test.
"""

import dataclasses
import json as jsonlib
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.options import AsJson
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS

if TYPE_CHECKING:
    from aggregator.cli.service.task_making import Setting
    from aggregator.cli.steward.pair_answer import PairAnswer
    from aggregator.cli.steward.pair_runs import PairAudit, Window
    from aggregator.dap.hpke import HpkeConfig, HpkeKeypair
    from aggregator.protocol.task import Task
    from aggregator.service.config import CollectorSettings
    from aggregator.steward.audit.pair_audit import Releases
    from aggregator.steward.audit.split_noise import Scale

FALSE_ALARM = 1e-6
LENGTH = 4099
"""A prime, so that a fault with blocks of a round number of draws shows at their end."""

BUDGET = 10**6
"""The epsilon of the task's budget; it may be large, because the task measures nobody."""

_REFUTED = 1
_NOT_RUN = 2
_MOST_REPORTS = 1000


def pair(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder for the audit's task and for what was "
            "collected; made if it does not exist."
        ),
    ] = Path("pair-audit"),
    collector: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The service file of a collector, whose key opens the results; if not "
            "given, all settings come from the environment (PRIO_…).",
        ),
    ] = None,
    leader: Annotated[str | None, typer.Option(help="To make the task: the leader's URL.")] = None,
    helper: Annotated[str | None, typer.Option(help="To make the task: the helper's URL.")] = None,
    task: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="To make the task: a public task file, whose type of measurement and mechanism it "
            "gets; --length, --mechanism and the rest of its kind are then not needed.",
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help=f"To make the task: buckets of its histogram, {LENGTH} by default."),
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="To make the task: PureDpDiscreteLaplace by default.")
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="To make the task: the epsilon of one release, as in the tasks to "
            "come; 1 by default."
        ),
    ] = None,
    privacy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="To make the task: as for `prio task new`, such as rho=1/8. Repeatable.",
        ),
    ] = None,
    min_batch_size: Annotated[
        int | None,
        typer.Option(
            help="To make the task: its min_batch_size, if an aggregator requires more than 1."
        ),
    ] = None,
    time_precision: Annotated[
        int | None, typer.Option(help="To make the task: seconds in a window, 60 by default.")
    ] = None,
    windows: Annotated[
        int,
        typer.Option(
            help="How many windows a new audit has; one alone cannot show repeated noise.", min=2
        ),
    ] = 4,
    reports: Annotated[
        int | None,
        typer.Option(
            help="How many reports each window gets; 8 by default, or min_batch_size if that "
            "is more."
        ),
    ] = None,
    false_alarm: Annotated[
        float, typer.Option(help="The largest probability of refuting correct noise.")
    ] = FALSE_ALARM,
    anew: Annotated[
        bool, typer.Option("--anew", help="Abandon an audit under way and begin another.")
    ] = False,
    last: Annotated[
        bool, typer.Option("--last", help="Test again what the last audit collected.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(help="How many seconds to wait for the results.")
    ] = WAIT_SECONDS,
    json: AsJson = False,
) -> None:
    """Test whether two running aggregators add the noise that a task says.

    Uploads reports of known truth for a task made for the purpose, collects a few windows, and
    tests each aggregator's noise and their sum. Ends with status 0 if the law holds, 1 if it is
    refuted, 2 if the audit could not run or has to wait; then the same command goes on.
    """
    from rich.console import Console

    from aggregator.cli.service.parties import open_collector
    from aggregator.cli.service.task_making import write_files
    from aggregator.cli.steward.pair_runs import PairAudit, releases_of
    from aggregator.collector.keys import keypair_of
    from aggregator.steward.audit.pair_audit import check_threshold

    with reported(lambda _: _NOT_RUN), open_collector(collector) as party:
        check_threshold(false_alarm)
        keypair = keypair_of(party.database)
        wanted = _Wanted(
            leader,
            helper,
            task,
            length,
            mechanism,
            epsilon,
            privacy,
            min_batch_size,
            time_precision,
        )
        if not (folder / "task.toml").exists():
            write_files(wanted.task(keypair.config), folder)
            print(_what_to_do(folder), file=sys.stderr)
            raise typer.Exit(_NOT_RUN)
        stated = PairAudit.open(folder)
        wanted.check(stated.task)
        scales = _scales(stated.task)
        count = max(8, stated.task.min_batch_size) if reports is None else reports
        if last:
            collected = stated.last()
        else:
            collected = stated.begin(windows, count, SystemClock().now(), anew=anew)
            _run(stated, collected, keypair, timeout, party.settings)
        with Console(stderr=True).status("testing"):
            answer = _answer(stated.task, releases_of(collected), scales, false_alarm)
    if json:
        print(jsonlib.dumps(answer.document()))
    else:
        print(answer.text())
    if answer.is_refuted:
        raise typer.Exit(_REFUTED)


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """The options' values for the audit's task; None if an option is not given."""

    leader: str | None
    helper: str | None
    like: Path | None
    length: int | None
    mechanism: str | None
    epsilon: str | None
    privacy: list[str] | None
    min_batch_size: int | None
    time_precision: int | None

    def task(self, collector_config: "HpkeConfig") -> "Task":
        """Return a task made for an audit: a long histogram, a large budget, small batches."""
        from aggregator.cli.service.task_making import make_task
        from aggregator.dp.no_privacy import NoPrivacy

        if self.leader is None or self.helper is None:
            raise ParameterError("leader, helper: their URLs are needed to make the audit's task")
        if self.like is not None and self.length is not None:
            raise ParameterError("length: is that of the task which --task names")
        if self.mechanism == NoPrivacy.name:
            raise ParameterError("mechanism: a task without noise has nothing to audit")
        min_batch_size = self.min_batch_size or 1
        task = make_task(
            collector_config,
            self._vdaf_table(),
            self._privacy_table(),
            leader=self.leader,
            helper=self.helper,
            time_precision=self.time_precision or 60,
            min_batch_size=min_batch_size,
            max_reports=max(_MOST_REPORTS, min_batch_size),
            task_info="audit of the noise: reports about nobody",
        )
        _scales(task)
        return task

    def check(self, task: "Task") -> None:
        """Refuse options that differ from the task in the folder."""
        from aggregator.dp.policy_table import policy_from_mapping, policy_to_mapping

        stated = {
            "leader": task.configuration.leader_aggregator_endpoint,
            "helper": task.configuration.helper_aggregator_endpoint,
            "length": task.prio3.output_len if self.like is None else self.length,
            "min_batch_size": task.min_batch_size,
            "time_precision": task.time_precision,
        }
        for name, value in stated.items():
            wanted = getattr(self, name)
            if wanted is not None and wanted != value:
                raise ParameterError(
                    f"{name}: the task in the folder has {value}, not {wanted}; another task "
                    "needs another folder"
                )
        if self.like is not None and _like(self.like).prio3.circuit != task.prio3.circuit:
            raise ParameterError(
                "task: the task in the folder has another type of measurement; another task needs "
                "another folder"
            )
        given = self.mechanism, self.epsilon, self.privacy, self.like
        if not any(given):
            return
        if policy_from_mapping(self._privacy_table()) != task.policy:
            raise ParameterError(
                f"mechanism, epsilon, privacy: the task in the folder has "
                f"{policy_to_mapping(task.policy)}; another task needs another folder"
            )

    def _vdaf_table(self) -> "dict[str, Setting]":
        if self.like is None:
            return {"type": "Prio3Histogram", "length": self.length or LENGTH}
        circuit = _like(self.like).prio3.circuit
        return {"type": f"Prio3{circuit.name}", **circuit.parameters}

    def _privacy_table(self) -> "dict[str, Setting]":
        from aggregator.cli.service.task_making import Setting, assignment

        settings: dict[str, Setting] = dict(assignment(text) for text in self.privacy or [])
        if self.like is not None and self.mechanism is None and self.epsilon is None:
            return {**_mechanism_of(_like(self.like)), "budget": BUDGET, **settings}
        if self.epsilon is not None or "rho" not in settings:
            settings["epsilon"] = self.epsilon or "1"
        mechanism = self.mechanism or "PureDpDiscreteLaplace"
        return {"mechanism": mechanism, "budget": BUDGET, **settings}


def _like(file: Path) -> "Task":
    from aggregator.cli.files import read_task

    return read_task(file)


def _mechanism_of(task: "Task") -> "dict[str, Setting]":
    """Return a task's mechanism as a policy table: all of its noise, and none of its limits."""
    from aggregator.dp.policy_table import policy_to_mapping

    own = task.policy.mechanism.parameters()
    wanted = {"mechanism", "max_reports_per_person", "shares", *own}
    table = {name: each for name, each in policy_to_mapping(task.policy).items() if name in wanted}
    hides = task.policy.mechanism.default_private_threshold != "none"
    return {**table, "private_threshold": "none"} if hides else table


def _answer(
    task: "Task", releases: "Releases", scales: "list[Scale]", false_alarm: float
) -> "PairAnswer":
    from aggregator.cli.steward.pair_answer import PairAnswer
    from aggregator.steward.audit.split_noise import audit_by_scale

    return PairAnswer(
        task, releases, tuple(audit_by_scale(releases, scales, false_alarm)), false_alarm
    )


def _scales(task: "Task") -> "list[Scale]":
    from aggregator.steward.audit.split_noise import scales_of

    return scales_of(task.policy.mechanism, task.prio3.circuit)


def _run(
    stated: "PairAudit",
    windows: "list[Window]",
    keypair: "HpkeKeypair",
    timeout: float,
    settings: "CollectorSettings",
) -> None:
    import anyio
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.cli.client.sending import sender_to
    from aggregator.client import UploadError
    from aggregator.collector.collect import CollectionTimeout
    from aggregator.service.transport.client import client_of
    from aggregator.service.transport.interpretation import PeerRefused
    from aggregator.service.transport.tls import Identity, asking_context

    missing = sum(window.released is None for window in windows)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("uploading and collecting", total=2 * missing)

        async def run() -> None:
            async with client_of(settings) as http:
                tls = asking_context(settings.peer_ca, Identity.asking(settings))
                proxied = settings.environment_proxy
                with closing(sender_to(environment_proxy=proxied, tls=tls)) as sender:
                    await stated.run(
                        windows, keypair, http, sender, timeout, lambda: progress.advance(bar)
                    )

        try:
            anyio.run(run)
        except* (UploadError, PeerRefused, CollectionTimeout):
            print(_what_to_do(stated.folder), file=sys.stderr)
            raise


def _what_to_do(folder: Path) -> str:
    return (
        f"nothing was tested yet. Both operators take part in the task in {folder}:\n"
        f"  the leader's by `prio task add --config … {folder}/leader.toml`\n"
        f"  the helper's by `prio task add --config … {folder}/helper.toml`\n"
        "  each file sent over a channel that only its party reads; the collector adds nothing.\n"
        "Then the same command uploads, collects and tests."
    )
