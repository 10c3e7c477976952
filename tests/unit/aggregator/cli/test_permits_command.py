"""`prio permits` adds, counts, replaces and ends what both operators were given."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.clock import SystemClock
from aggregator.codec import encode
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.protocol.permit_lists import Replacements, listed, read_replacements, write_lists
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.reports.permits import Presented, spend
from tests.support.commands import Done, run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.permitted import DOMAIN, PERMITS, SECRETS, permitted, window_at
from tests.support.signed import signed_task
from tests.support.tasks import make_task

DAY = 86_400
TASK = permitted(window=DAY // 100)
NOW = SystemClock().now()
TODAY = window_at(TASK, NOW)
YESTERDAY = TODAY - 1


def entries(window: int, secrets: list[bytes] = SECRETS) -> list[bytes]:
    return [PERMITS.entry_of(each, window) for each in secrets]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = service_file(tmp_path, "leader")
    with open_aggregator(config) as party:
        take_part(party, provision(TASK, SeededEntropy(1))[Role.LEADER])
    (tmp_path / "task.toml").write_text(task_to_toml(TASK))
    windows = {each: entries(each) for each in (YESTERDAY, TODAY)}
    (tmp_path / "permits.list").write_bytes(write_lists([listed(DOMAIN, windows)]))
    return tmp_path


def permits(folder: Path, name: str, *arguments: str | Path) -> Done:
    return run_here("permits", name, "--config", folder / "leader.toml", *arguments)


def spend_some(folder: Path, window: int, secrets: list[bytes]) -> None:
    ids = [PERMITS.report_id(PERMITS.opening(each, window)) for each in secrets]
    arrivals = [(each, b"") for each in ids]
    presented = Presented(arrivals, [bytes(4)] * len(ids), lambda _: window, (), {})
    with open_aggregator(folder / "leader.toml") as party:
        (errors,) = party.database.run_sync("spend", lambda tx: spend(tx, PERMITS, [presented]))
    assert errors == [None] * len(ids)


def counted(folder: Path) -> list[dict[str, Any]]:
    document = json.loads(permits(folder, "count", folder / "task.toml", "--json").stdout)
    (domain,) = document["domains"]
    windows: list[dict[str, Any]] = domain["windows"]
    return windows


def test_a_list_is_added_once_and_its_digest_is_printed(folder: Path) -> None:
    file = folder / "permits.list"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    for new in (20, 0):
        done = permits(folder, "add", file)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"{new} of 20 permits are new, for one domain",
            f"SHA-256 of the file: {digest}",
        ]


def test_windows_are_counted_with_their_days(folder: Path) -> None:
    permits(folder, "add", folder / "permits.list")
    spend_some(folder, TODAY, SECRETS[:3])
    one, two = counted(folder)
    assert (one["given"], one["spent"], two["given"], two["spent"]) == (10, 0, 10, 3)
    assert (one["from"], two["from"]) == (NOW // DAY * DAY - DAY, NOW // DAY * DAY)
    assert len(one["digest"]) == 64
    head, *lines = permits(folder, "count", folder / "task.toml").stdout.splitlines()
    assert head == "a task of the tests: permits of 2 windows"
    assert lines[1].endswith(f": 10 given, 3 spent, list {two['digest'][:16]}")


def test_a_leaked_permit_is_replaced_unless_it_was_spent_and_the_helper_is_told(
    folder: Path,
) -> None:
    permits(folder, "add", folder / "permits.list")
    spend_some(folder, TODAY, SECRETS[:1])
    pairs = sorted(
        zip(entries(TODAY, SECRETS[:2]), entries(TODAY, [b"n" * 16, b"m" * 16]), strict=True)
    )
    (folder / "replace.list").write_bytes(encode(Replacements(DOMAIN, {TODAY: pairs})))
    done = permits(folder, "replace", folder / "replace.list", "--out", folder / "done.list")
    assert done.stdout.splitlines() == [
        "1 of 2 permits are replaced",
        "1 were spent before, or are of windows that were ended: they stay",
    ]
    (made,) = read_replacements((folder / "done.list").read_bytes())
    (spent,) = entries(TODAY, SECRETS[:1])
    assert made.windows == {TODAY: [pair for pair in pairs if pair[0] != spent]}
    again = permits(folder, "replace", folder / "replace.list", "--out", folder / "done.list")
    assert again.returncode != 0
    assert "done.list exists already" in again.stderr


def test_windows_that_are_over_are_ended_and_others_are_not(folder: Path) -> None:
    permits(folder, "add", folder / "permits.list")
    spend_some(folder, YESTERDAY, SECRETS[:4])
    spend_some(folder, TODAY, SECRETS[:4])
    task = folder / "task.toml"
    tomorrow = permits(folder, "end", task, "--before", str(NOW + DAY))
    assert tomorrow.returncode != 0
    assert "are not over yet" in tomorrow.stderr
    done = permits(folder, "end", task, "--before", str(NOW))
    assert done.stdout.startswith("deleted 14 permits, given and spent, of windows before ")
    assert [(each["window"], each["given"], each["spent"]) for each in counted(folder)] == [
        (TODAY, 10, 4)
    ]
    again = permits(folder, "add", folder / "permits.list")
    assert "10 are of windows that were ended, and were not added" in again.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("add", ["task.toml"], "this is not a list of permits"),
        ("add", ["missing"], "missing"),
        ("add", ["foreign.list"], "no task here has their domain; add the task first"),
        ("replace", ["permits.list"], "this is not a list of replaced permits"),
        ("count", ["plain.toml"], "no task in it has permits"),
        ("end", ["plain.toml", "--before", "0"], "no task in it has permits"),
        ("end", ["task.toml", "--before", "soon"], "before: must be ISO 8601"),
        ("end", ["always.toml", "--before", "0"], "has no windows"),
    ],
)
def test_what_cannot_be_done_is_said(
    folder: Path, name: str, arguments: list[str], reason: str
) -> None:
    ours = listed(DOMAIN, {TODAY: entries(TODAY)})
    foreign = listed(bytes(32), {0: [bytes(16)]})
    (folder / "foreign.list").write_bytes(write_lists([ours, foreign]))
    (folder / "plain.toml").write_text(task_to_toml(make_task()))
    (folder / "always.toml").write_text(task_to_toml(permitted(window=None)))
    paths = [folder / each if "." in each or each == "missing" else each for each in arguments]
    done = permits(folder, name, *paths)
    assert done.returncode != 0
    assert reason in done.stderr
    assert counted(folder) == []  # of two lists, one of which is of no task here, none is added


def test_a_list_for_permits_that_an_issuer_signs_is_refused(tmp_path: Path) -> None:
    config = service_file(tmp_path, "leader")
    with open_aggregator(config) as party:
        take_part(party, provision(signed_task(), SeededEntropy(1))[Role.LEADER])
    windows = {TODAY: [bytes(16)]}
    (tmp_path / "add").write_bytes(write_lists([listed(DOMAIN, windows)]))
    pairs = Replacements(DOMAIN, {TODAY: [(bytes(16), bytes([1]) * 16)]})
    (tmp_path / "replace").write_bytes(write_lists([pairs]))
    for name in ("add", "replace"):
        assert (
            "an issuer signs those of their domain"
            in permits(tmp_path, name, tmp_path / name).stderr
        )


def test_what_a_task_takes_is_said_of_it(folder: Path) -> None:
    said = run_here("task", "check", folder / "task.toml").stdout
    assert said.endswith(
        "only reports with a permit count, each permit once at both aggregators: domain "
        f"{encode_base64url(DOMAIN)}\n"
    )


@pytest.mark.parametrize("window", [2, None], ids=["with windows", "without"])
def test_of_a_task_with_signed_permits_it_is_said_for_which_windows_there_are_keys(
    tmp_path: Path, window: int | None
) -> None:
    file = tmp_path / "signed.toml"
    file.write_text(task_to_toml(signed_task(window=window)))
    said = run_here("task", "check", file).stdout.splitlines()[-1]
    whole = r"an issuer signs the permits, with one key for each window from 2023-\S+Z to 2023-\S+Z"
    assert re.fullmatch(whole if window else "an issuer signs the permits, with one key", said)
