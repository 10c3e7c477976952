"""`prio task list` shows which tasks have ended, what waits and what was released."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from aggregator.cli.service.parties import open_aggregator, open_collector
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.runtime import status
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import Charge, reserve, settle
from aggregator.service.storage.reports.counters import Stage, count_reports
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import end_task
from aggregator.service.telemetry.health import Health
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.store import new_reports, units
from tests.support.tasks import HELPER_URL, make_task


def test_a_leaders_list_has_states_waiting_reports_and_releases(tmp_path: Path) -> None:
    config = service_file(tmp_path, "leader")
    tasks = [make_task(id=name * 43) for name in ("A", "E")]
    with open_aggregator(config) as party:
        for number, task in enumerate(tasks):
            take_part(party, provision(task, SeededEntropy(number))[Role.LEADER])
        first = tasks[0].task_id.value
        party.database.run_sync(
            "upload", lambda tx: put_reports(tx, first, new_reports([1, 2]), 1000)
        )
        charge = Charge("None", None, "")
        batch = units(0, 1)
        party.database.run_sync("reserve", lambda tx: reserve(tx, first, batch, charge))
        party.database.run_sync("charge", lambda tx: settle(tx, first, batch))
    assert run_here("task", "end", "--config", config, "E" * 43).returncode == 0
    one, two = run_here("task", "list", "--config", config).stdout.splitlines()
    assert one.startswith("A" * 43 + "  Prio3Histogram  open, 2 wait, 0 aggregated, released 20")
    assert two.startswith("E" * 43 + "  Prio3Histogram  ended 20")
    assert "0 wait, 0 aggregated, not released  a task of the tests" in two
    document = json.loads(run_here("task", "list", "--config", config, "--json").stdout)
    assert [task["task_id"] for task in document["tasks"]] == ["A" * 43, "E" * 43]
    assert {task["title"] for task in document["tasks"]} == {"a task of the tests"}
    assert [task["state"][0][:5] for task in document["tasks"]] == ["open", "ended"]


def test_a_stored_task_that_can_no_longer_be_read_is_named_and_hides_no_other(
    tmp_path: Path,
) -> None:
    """Another version of the program may have stored what this one refuses, such as a URL."""
    config = service_file(tmp_path, "leader")
    with open_aggregator(config) as party:
        for number, name in enumerate("AE"):
            made = make_task(id=name * 43)
            take_part(party, provision(made, SeededEntropy(number))[Role.LEADER])

        def spoil(tx: Transaction) -> None:
            task = tables.tasks.c
            text = task_to_toml(make_task(id="E" * 43)).replace(HELPER_URL, f"{HELPER_URL}a%20b/")
            changed = update(tables.tasks).where(task.task_id == TaskId.parse("E" * 43).value)
            tx.connection.execute(changed.values(definition=text))

        party.database.run_sync("spoil", spoil)
    fault = f"stored task {'E' * 43}: helper: must be http:// or https://"
    for command in (("list",), ("show", "E" * 43)):
        done = run_here("task", *command, "--config", config)
        assert (done.returncode, fault in " ".join(done.stderr.split())) == (2, True), done
    assert run_here("task", "show", "A" * 43, "--config", config).returncode == 0
    shown = run_here("status", "--config", config).stdout
    assert f"{'E' * 43} stands still: helper: must be http:// or https://" in shown
    for command in (("end",), ("forget",)):
        assert run_here("task", *command, "--config", config, "E" * 43).returncode == 0
    (left,) = run_here("task", "list", "--config", config).stdout.splitlines()
    assert left.startswith("A" * 43)
    assert run_here("status", "--config", config).returncode in (0, 1)


def test_the_status_shows_tasks_that_pass_no_report_before_those_with_a_backlog(
    tmp_path: Path,
) -> None:
    """Nobody else would be told that the aggregators have been given different files."""
    config = service_file(tmp_path, "leader")
    tasks = [make_task(id=name * 43) for name in "AEIMQ"]
    with open_aggregator(config) as party:
        for number, task in enumerate(tasks):
            take_part(party, provision(task, SeededEntropy(number))[Role.LEADER])

        def upload_and_reject(tx: Transaction) -> None:
            for task in tasks:
                put_reports(tx, task.task_id.value, new_reports([1]), 1000)
            last = tasks[-1].task_id.value
            count_reports(tx, last, Stage.AGGREGATION, {"hpke_decrypt_error": 10})

        party.database.run_sync("upload", upload_and_reject)
    shown = run_here("status", "--config", config).stdout
    listed = [line for line in shown.splitlines() if "aggregated, refused: " in line]
    assert listed[0] == (
        f"  {'Q' * 43} 1 wait, 0 aggregated, refused: 10 hpke_decrypt_error  a task of the tests"
    )
    assert len(listed) == 3
    assert "  and 2 more: prio task list\n" in shown
    document = json.loads(run_here("status", "--config", config, "--json").stdout)
    assert [task["title"] for task in document["tasks"]] == ["a task of the tests"] * 5


def test_what_a_task_is_for_does_not_turn_its_line_around(tmp_path: Path) -> None:
    config = service_file(tmp_path, "leader")
    task = make_task(task_info="visits\u202egnp")
    with open_aggregator(config) as party:
        take_part(party, provision(task, SeededEntropy(b"x"))[Role.LEADER])
    listed = run_here("task", "list", "--config", config).stdout
    assert listed.endswith("  visits\\u202egnp\n")


def test_a_task_is_shown_with_all_that_a_client_needs(tmp_path: Path) -> None:
    config = service_file(tmp_path, "leader")
    task = make_task()
    with open_aggregator(config) as party:
        take_part(party, provision(task, SeededEntropy(b"x"))[Role.LEADER])
    shown = run_here("task", "show", "--json", "--config", config, task.task_id)
    assert json.loads(shown.stdout) == {
        "id": str(task.task_id),
        "configuration": encode_base64url(task.configuration_bytes),
    }
    other = run_here("task", "show", "--json", "--config", config, "E" * 43)
    assert other.returncode == 2
    assert "E" * 43 in other.stderr


def test_a_collectors_list_counts_its_collections(tmp_path: Path) -> None:
    config = service_file(tmp_path, "collector")
    public = run_here("collector", "config", "--config", config).stdout.strip()
    task = make_task(collector_hpke_config=public)
    with open_collector(config) as party:
        take_part(party, provision(task, SeededEntropy(b"x"))[Role.COLLECTOR])
    listed = run_here("task", "list", "--config", config).stdout
    assert f"{task.task_id}  Prio3Histogram  0 collected, 0 wait, none yet" in listed


def test_a_task_that_is_forgotten_while_the_status_is_read_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, task = service_file(tmp_path, "leader"), make_task()
    with open_aggregator(config) as party:
        take_part(party, provision(task, SeededEntropy(1))[Role.LEADER])
    examine = status.examine_aggregator

    def and_forget(*arguments: Any) -> Health:  # noqa: ANN401  examine_aggregator's
        found = examine(*arguments)
        with open_aggregator(config) as party:
            party.database.run_sync("end", lambda tx: end_task(tx, task.task_id.value))
            forget(party.database, task.task_id.value)
        return found

    monkeypatch.setattr(status, "examine_aggregator", and_forget)
    shown = json.loads(run_here("status", "--config", config, "--json").stdout)
    assert [each["title"] for each in shown["tasks"]] == [task.title]
