"""Tasks of both mechanisms, small enough to run in a test."""

import json
from collections.abc import Mapping

from aggregator.codec import encode
from aggregator.dap.hpke import HpkeKeypair, generate_keypair
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from tests.support.entropy import SeededEntropy

TASK_ID = TaskId(bytes(range(32)))
LEADER_URL = "https://leader.example/"
HELPER_URL = "https://helper.example/"
TIME_PRECISION = 100
NO_NOISE: Mapping[str, str | int] = {"mechanism": "None"}
LAPLACE: Mapping[str, str | int] = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/2"}
ATTRIBUTION: Mapping[str, str] = {
    "collector_identity": "measures.example",
    "budget_source": "shop.example",
}


def collector_keypair() -> HpkeKeypair:
    return generate_keypair(7, SeededEntropy(b"collector"))


COLLECTOR_CONFIG = encode_base64url(encode(collector_keypair().config))
"""The collector's configuration, as files and commands have it."""
PARTIES = ("--leader", LEADER_URL, "--helper", HELPER_URL, "--collector-config", COLLECTOR_CONFIG)
"""The options that tell a command of the parties."""


def task_text(
    vdaf: Mapping[str, str | int] | None = None,
    privacy: Mapping[str, str | int | bool] | None = None,
    interval: Mapping[str, int] | None = None,
    permits: Mapping[str, str | int] | None = None,
    attribution: Mapping[str, str] | None = None,
    **settings: str | int,
) -> str:
    """Return a task file: a histogram of four buckets without noise, unless said otherwise."""
    top: dict[str, str | int] = {
        "version": 1,
        "id": str(TASK_ID),
        "task_info": "a task of the tests",
        "leader": LEADER_URL,
        "helper": HELPER_URL,
        "time_precision": TIME_PRECISION,
        "min_batch_size": 3,
        "batch_mode": "time_interval",
        "collector_hpke_config": COLLECTOR_CONFIG,
        "max_reports": 1000,
    }
    tables: dict[str, Mapping[str, str | int | bool]] = {
        "vdaf": vdaf or {"type": "Prio3Histogram", "length": 4, "chunk_length": 2},
        "privacy": privacy or NO_NOISE,
    }
    if interval is not None:
        tables["interval"] = interval
    if permits is not None:
        tables["permits"] = permits
    if attribution is not None:
        tables["attribution"] = attribution
    lines = _lines(top | settings)
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_lines(table)]
    return "\n".join(lines) + "\n"


def make_task(
    vdaf: Mapping[str, str | int] | None = None,
    privacy: Mapping[str, str | int | bool] | None = None,
    interval: Mapping[str, int] | None = None,
    permits: Mapping[str, str | int] | None = None,
    attribution: Mapping[str, str] | None = None,
    **settings: str | int,
) -> Task:
    return task_from_toml(task_text(vdaf, privacy, interval, permits, attribution, **settings))


def _lines(table: Mapping[str, str | int | bool]) -> list[str]:
    # JSON writes text, whole numbers and truth values as TOML does.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in table.items()]
