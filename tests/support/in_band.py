"""Tasks that come with their first request, and what two aggregators agreed on for them."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.protocol.agreements import Agreements, read_agreements
from aggregator.protocol.in_band import id_of
from aggregator.protocol.task import Task
from tests.support.tasks import COLLECTOR_CONFIG, HELPER_URL, LEADER_URL, make_task

INIT = bytes(range(32, 64))
LEADER_TOKEN = "agreed-for-the-leader-of-all-tasks"  # noqa: S105  a test's
COLLECTOR_TOKEN = "agreed-for-the-collector-of-all-tasks"  # noqa: S105  a test's


def in_band(task: Task) -> Task:
    """Return the task under the id that its configuration gives it."""
    return dataclasses.replace(task, task_id=id_of(task.configuration_bytes))


def task_in_band(**settings: object) -> Task:
    """Return a task of `make_task` under the id that its configuration gives it."""
    return in_band(make_task(**settings))  # type: ignore[arg-type]  # whatever a task file takes


def agreed_collector(
    role: Role, identity: str, token: str, **more: str | int
) -> dict[str, str | int]:
    """Return the table of a collector with an identity, as an aggregator's file has it."""
    at_leader = {"token": token, "max_open_jobs": 2} if role is Role.LEADER else {}
    table = {"identity": identity, "hpke_config": COLLECTOR_CONFIG, "max_tasks": 2}
    return {**table, **at_leader, **more}


def agreements_text(
    role: Role,
    partner: Mapping[str, str | int] | None = None,
    privacy: Mapping[str, str] | None = None,
    collectors: Sequence[Mapping[str, str | int]] = (),
    **top: int,
) -> str:
    """Return an aggregator's file of agreements with one partner, and collectors of identities."""
    values: dict[str, str | int] = {
        "leader": LEADER_URL,
        "helper": HELPER_URL,
        "collector_hpke_config": COLLECTOR_CONFIG,
        "vdafs": "Prio3Count Prio3Histogram",
        "min_batch_size": 3,
        "max_reports": 1000,
        "max_report_bytes": 10_000,
        "max_epsilon": "1/2",
        **(partner or {}),
    }
    secrets = {"verify_key_init": encode_base64url(INIT), "leader_token": LEADER_TOKEN}
    if role is Role.LEADER:
        secrets["collector_token"] = COLLECTOR_TOKEN
    lines = [f"{name} = {value}" for name, value in {"version": 1, "max_tasks": 8, **top}.items()]
    named = [("[partner.collector]", each) for each in collectors]
    tables = [("[partner]", values), ("privacy", privacy or {}), ("secrets", secrets), *named]
    for name, table in tables:
        if table:
            lines += ["", f"[{name}]" if name.startswith("[") else f"[partner.{name}]"]
            lines += [
                f"{key} = {value}" if isinstance(value, int) else f'{key} = "{value}"'
                for key, value in table.items()
            ]
    return "\n".join(lines) + "\n"


def agreements(
    role: Role = Role.LEADER,
    partner: Mapping[str, str | int] | None = None,
    privacy: Mapping[str, str] | None = None,
    collectors: Sequence[Mapping[str, str | int]] = (),
    **top: int,
) -> Agreements:
    """Return what `agreements_text` says."""
    return read_agreements(agreements_text(role, partner, privacy, collectors, **top), role)
