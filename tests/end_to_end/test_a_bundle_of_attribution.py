"""A site's bundle by the command line: its task comes in band, and its histogram is shown."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.messages import Report, UploadRequest
from aggregator.dap.profile import Role
from aggregator.protocol.reports import prepare_reports, seal_reports
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from tests.support.entropy import SeededEntropy
from tests.support.in_band import agreed_collector, agreements_text
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

SIZE = 20
SHOP, TOKEN = "measures.example", "agreed-for-the-shop-alone"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path, bundle_linger_seconds=0) as made:
        config = made.prio("collector", "config", "--config", made.configs["collector"])
        key = config.stdout.strip()
        partner: dict[str, str | int] = {
            "leader": made.urls["leader"],
            "helper": made.urls["helper"],
            "collector_hpke_config": key,
            "vdafs": "Prio3L1BoundSum",
            "min_batch_size": SIZE,
        }
        for role in (Role.LEADER, Role.HELPER):
            name = role.name.lower()
            table = agreed_collector(role, SHOP, TOKEN, hpke_config=key)
            file = tmp_path / f"{name}-agreements.toml"
            file.touch(0o600)
            file.write_text(agreements_text(role, partner, {"mechanism": "None"}, [table]))
            made.change(name, in_band_tasks=file.name)
        made.start(*COMMANDS)
        yield made


def new_task(services: Processes, folder: Path, identity: str) -> str:
    """Have the collector make a task and add it; return its id."""
    config = services.configs["collector"]
    public = services.prio("collector", "config", "--config", config).stdout.strip()
    task_id = services.prio(
        *("attribution", "new", "--out", folder, "--collector-config", public),
        *("--leader", services.urls["leader"], "--helper", services.urls["helper"]),
        *("--length", "3", "--max-value", "10", "--epsilon", "1"),
        *("--collector-identity", identity, "--budget-source", "shop.example"),
    ).stdout.strip()
    services.prio("task", "add", "--config", config, folder / "collector.toml")
    return task_id


def keys_of(services: Processes) -> list[HpkeConfig]:
    return [
        decode(HpkeConfigList, httpx.get(f"{services.urls[party]}hpke_config").content).preferred()
        for party in ("leader", "helper")
    ]


def reports_of(
    task: Task, keys: Sequence[HpkeConfig], histograms: Sequence[list[int]], budget: int
) -> list[Report]:
    entropy = SeededEntropy(budget)
    now = task.time(int(time.time()))
    prepared = prepare_reports(task, histograms, now, entropy, budget=budget)
    return seal_reports(task, prepared, keys[0], keys[1], entropy)


def test_a_bundle_is_handed_in_and_shown_and_one_without_enough_budgets_comes_to_nothing(
    services: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_COLLECTOR_TOKEN", TOKEN)
    config, made = services.configs["collector"], tmp_path / "made"
    task_id = new_task(services, made, SHOP)
    task, keys = task_from_toml((made / "task.toml").read_text()), keys_of(services)
    paid = reports_of(task, keys, [[1, 2, 0]] * (SIZE - 1), 500_000)
    unpaid = reports_of(task, keys, [[0, 0, 9]], 499_999)
    late = reports_of(task, keys, [[0, 0, 10]], 2_000_000)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(encode(UploadRequest((*paid, *unpaid))))
    second.write_bytes(encode(UploadRequest(tuple(late))))
    command = ("attribution", "collect", "--config", config, "--epsilon", "1/2")
    done = services.prio(*command, first, task_id, status=3)
    assert "the leader refused 1: report_dropped" in done.stderr
    assert "fewer than min_batch_size = 20 reports" in done.stderr
    done = services.prio(*command, "--json", first, second, task_id)
    document = json.loads(done.stdout)
    assert document["refused"] == {"report_dropped": 1}
    assert document["result"]["values"] == [SIZE - 1, 2 * (SIZE - 1), 10]
    assert document["result"]["report_count"] == SIZE
    shown = services.prio(*command, "--job", document["job"], task_id)
    assert "20 reports" in shown.stdout
    again = services.prio(*command, first, second, task_id, status=3)
    assert f"the leader refused {SIZE}: report_replayed" in again.stderr


def test_a_task_of_a_collector_that_is_not_registered_is_refused(
    services: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_COLLECTOR_TOKEN", TOKEN)
    task_id = new_task(services, tmp_path / "made", "stranger.example")
    config = services.configs["collector"]
    done = services.prio("task", "bring", "--config", config, task_id, status=3)
    assert "'stranger.example' is not in the agreement" in done.stderr
