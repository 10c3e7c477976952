"""`prio doctor`: whether we and another aggregator can work together, as far as we can see."""

import dataclasses
import json
import secrets
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import aggregator
from aggregator.cli import faults
from aggregator.cli.options import AsJson, Config
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import httpx

    from aggregator.cli.service.doctor_sides import Side
    from aggregator.cli.service.parties import AggregatorParty, Party
    from aggregator.protocol.task import Task
    from aggregator.service.transport.examination import Finding
    from aggregator.service.transport.peer import Peer

_SECONDS = 15.0


def doctor(
    peer: Annotated[
        str,
        typer.Option("--peer", metavar="URL", help="The other aggregator's URL, as tasks name it."),
    ],
    config: Config = None,
    ours: Annotated[
        bool, typer.Option("--ours", help="Only print our side as JSON, for the other operator.")
    ] = False,
    theirs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file that the other operator's --ours printed, to compare with our side.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Examine another aggregator: TLS, clocks, keys, limits, and the tasks shared with it.

    It changes nothing, here or there. A line begins with ok, look (for a person to judge) or fault;
    the exit status is 1 if there is a fault. Aggregators do not publish their limits and version,
    so each operator gives the output of --ours to the other, whose --theirs compares them.
    """
    import anyio

    from aggregator.cli.service.doctor_sides import compared, read_side
    from aggregator.cli.service.parties import open_party

    if ours and theirs is not None:
        raise ParameterError(
            "ours: give either --ours, which only prints, or --theirs, which compares"
        )
    with open_party(config) as party:
        if ours:
            print(_side(party, peer).model_dump_json(indent=2, exclude_none=True))
            return
        clashes = [] if theirs is None else [*compared(_side(party, peer), read_side(theirs))]
        found = [*anyio.run(_examine, party, peer), *clashes]
        said = (*found, *_ours(party))
        if as_json:
            print(json.dumps({"version": 1, "findings": [*map(dataclasses.asdict, said)]}))
        else:
            for each in said:
                print(f"{each.verdict:6} {each.subject:8} {each.says}")
    if any(each.verdict == "fault" for each in found):
        raise SystemExit(faults.PARTLY)


async def _examine(party: "Party", endpoint: str) -> "list[Finding]":
    from aggregator.protocol.clear_text import check_scheme
    from aggregator.protocol.reports import CLOCK_SKEW_SECONDS
    from aggregator.service.config import AggregatorSettings
    from aggregator.service.transport.client import client_of
    from aggregator.service.transport.examination import Finding, examine, findings
    from aggregator.service.transport.peer import Peer

    settings = party.settings
    skew = (
        settings.clock_skew_seconds
        if isinstance(settings, AggregatorSettings)
        else CLOCK_SKEW_SECONDS
    )
    check_scheme(endpoint, "peer", insecure_http=settings.insecure_http)
    async with client_of(settings, _SECONDS) as http:
        shown = await examine(http, Peer(http, endpoint, name="the peer", attempts=1), endpoint)
        found = list(findings(shown, time.time(), skew))
        shared = _shared(party, endpoint)
        if not shared:
            return [*found, Finding("look", "tasks", f"none of ours names {endpoint}")]
        found += [await _of_task(party, http, task, endpoint) for task in shared]
        return [*found, *await _of_permits(party, http, shared, endpoint)]


async def _of_permits(
    party: "Party", http: "httpx.AsyncClient", shared: "Sequence[Task]", endpoint: str
) -> "list[Finding]":
    """Compare a leader's lists of permits with its helper's, which the helper tells it."""
    from aggregator.cli.service.doctor_sides import compared_lists, lists_of
    from aggregator.cli.service.parties import AggregatorParty
    from aggregator.dap.ids import encode_base64url
    from aggregator.dap.profile import Role
    from aggregator.service.transport.examination import Finding
    from aggregator.written_times import utc_text

    if not isinstance(party, AggregatorParty) or party.role is not Role.LEADER:
        return []
    found: list[Finding] = []
    for domain, (task, ours) in lists_of(party, shared).items():
        name = encode_base64url(domain)
        theirs = await _lists_there(party, http, task, endpoint)
        if theirs is None:
            says = f"domain {name}: the helper does not say which lists it has"
            found.append(Finding("look", "permits", says))
            continue
        there = {utc_text(task.permits_from(window)): said for window, said in theirs.items()}
        found += compared_lists(name, ours, there)
    return found


async def _lists_there(
    party: "AggregatorParty", http: "httpx.AsyncClient", task: "Task", endpoint: str
) -> dict[int, str] | None:
    """Return what the helper says of its lists, by window; None if it does not."""
    from aggregator.protocol.permit_lists import HEADER, MOST_WINDOWS, from_header
    from aggregator.service.transport.interpretation import PeerRefused

    lists: dict[int, str] = {}
    first = 0
    while True:
        helper, nowhere = _asked_at(party, http, task, endpoint)
        try:
            await helper.get(nowhere, headers={HEADER: str(first)})
        except PeerRefused as error:
            if HEADER not in error.headers:
                return None
            some = from_header(error.headers[HEADER])
        except PeerError:
            return None
        else:
            return None
        lists |= {window: said for window, said in some.items() if window >= first}
        if len(some) < MOST_WINDOWS or max(some) < first:
            return lists
        first = max(some) + 1


def _asked_at(
    party: "AggregatorParty", http: "httpx.AsyncClient", task: "Task", endpoint: str
) -> "tuple[Peer, str]":
    """Return the helper, and the path of a job that does not exist there."""
    from aggregator.dap.ids import AggregationJobId
    from aggregator.dap.resources import path
    from aggregator.protocol.in_band import headers_of
    from aggregator.service.storage.tasks.tasks import get_task
    from aggregator.service.transport.peer import Peer

    stored = party.database.read_sync("task", lambda tx: get_task(tx, task.task_id.value))
    token = None if stored is None else stored.record.peer_token
    helper = Peer(
        http,
        endpoint,
        token,
        name="the helper",
        attempts=1,
        token_header=task.token_header,
        headers=headers_of(task),
    )
    nowhere = AggregationJobId(secrets.token_bytes(AggregationJobId.size))
    return helper, path("aggregation_job", task_id=task.task_id, aggregation_job_id=nowhere)


def _side(party: "Party", endpoint: str) -> "Side":
    from aggregator.cli.service.doctor_sides import side_of
    from aggregator.cli.service.parties import AggregatorParty

    if not isinstance(party, AggregatorParty):
        raise ParameterError("config: --ours and --theirs are for aggregators, not for a collector")
    return side_of(party, _shared(party, endpoint), endpoint)


def _shared(party: "Party", endpoint: str) -> "list[Task]":
    from aggregator.cli.service.task_states import tasks_of

    return [task for task in tasks_of(party) if endpoint in _endpoints(task)]


def _endpoints(task: "Task") -> tuple[str, str]:
    configuration = task.configuration
    return configuration.leader_aggregator_endpoint, configuration.helper_aggregator_endpoint


async def _of_task(
    party: "Party", http: "httpx.AsyncClient", task: "Task", endpoint: str
) -> "Finding":
    """Report a shared task's fingerprint and, at its leader, whether the helper serves it."""
    from aggregator.cli.service.parties import AggregatorParty
    from aggregator.dap.problems import UnrecognizedAggregationJob
    from aggregator.dap.profile import Role
    from aggregator.service.transport.examination import Finding
    from aggregator.service.transport.interpretation import PeerRefused

    says = f"{task.task_id}, fingerprint {task.fingerprint}"
    if (
        not isinstance(party, AggregatorParty)
        or party.role is not Role.LEADER
        or endpoint != task.configuration.helper_aggregator_endpoint
    ):
        return Finding("ok", "task", says)
    helper, nowhere = _asked_at(party, http, task, endpoint)
    try:
        # Ask for a job that does not exist: a helper that serves the task says just that.
        await helper.get(nowhere)
    except PeerRefused as error:
        if isinstance(error.problem, UnrecognizedAggregationJob):
            return Finding("ok", "task", f"{says}; the helper serves it and knows our token")
        return Finding("fault", "task", f"{says}; {error}")
    except PeerError as error:
        return Finding("fault", "task", f"{says}; {error}")
    return Finding("fault", "task", f"{says}; the helper has a job that nobody made")


def _ours(party: "Party") -> "Iterator[Finding]":
    from aggregator.cli.service.parties import AggregatorParty
    from aggregator.service.config import AggregatorSettings, LeaderSettings
    from aggregator.service.storage.ledger.populations import get_population
    from aggregator.service.transport.examination import Finding

    settings = party.settings
    role = party.role.name.lower() if isinstance(party, AggregatorParty) else "collector"
    yield Finding("ok", "ours", f"{role}, prio {aggregator.__version__}")
    if isinstance(settings, AggregatorSettings):
        requirements = settings.requirements
        yield Finding(
            "ok",
            "ours",
            f"clock_skew_seconds {settings.clock_skew_seconds}, "
            f"hpke_cache_seconds {settings.hpke_cache_seconds}, "
            f"max_bytes_in_flight {settings.max_bytes_in_flight}, "
            f"min_batch_size {requirements.min_batch_size}, "
            f"max_epsilon {requirements.largest_epsilon}",
        )
    if isinstance(party, AggregatorParty):
        for name in sorted(party.settings.requirements.populations):
            fixed = party.database.read_sync("get population", partial(get_population, name=name))
            if fixed.limits is None:
                yield Finding(
                    "look",
                    "ours",
                    f"population_required: {name!r} has no budget, so nothing limits what its "
                    "tasks cost together (prio population)",
                )
    if isinstance(settings, LeaderSettings):
        yield Finding(
            "ok",
            "ours",
            f"aggregation_job_size {settings.aggregation_job_size}: the helper's max_body_size, "
            "and its proxy's, should hold a job of that size; one that they refuse is halved",
        )
