"""People with links and users with signed permits, in Chromium and in Python, while services die.

Exactly who should count counts, once: over a network that loses, repeats and delays, with people
who answer twice and who have each other's link, a leader that makes reports up, an issuer that
lies, links of a list that one aggregator alone has, and both databases killed in between.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser

from aggregator.service.storage.reports.counters import Stage
from tests.support.browser import chromium
from tests.support.dishonest_leader import DishonestLeader
from tests.support.invited_world import (
    FEW,
    HOUR,
    MANY,
    ONE_SIDED,
    PARTIES,
    Chromium,
    Size,
    World,
    answers_of_a_device,
    users_answer,
)
from tests.support.postgresql import new_server
from tests.support.processes import Processes, run_prio
from tests.support.sudden_death import Reaper, ReaperOfAll, explained, failures_in_logs

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.vdaf.circuits import Measurement

pytestmark = pytest.mark.slow

COUNTED = "Your answers are counted."
USED = "Your personal link was used before"
EITHER = (COUNTED, USED, "Not all of your answers were counted")
"""What a page says while another device answers with its link: each question counts from one."""

LEAST_KILLS = 3
SETTINGS = {
    "request_timeout_seconds": 2,
    "work_interval_seconds": 0.2,
    "aggregation_job_size": 40,
}


@contextmanager
def world_of(folder: Path, engine: str, size: Size) -> Iterator[tuple[World, Reaper]]:
    """Give services, and who kills them: their processes, and a database's servers."""
    with ExitStack() as stack:
        servers = {}
        if engine == "postgresql":
            for party in PARTIES:
                servers[party] = stack.enter_context(new_server())
                servers[party].make()
                servers[party].start()
        urls = {party: server.url for party, server in servers.items()}
        services = stack.enter_context(Processes(folder, urls, **SETTINGS))
        reaper = Reaper(services, PARTIES, size.rest_seconds)
        if servers:
            named = {f"the {party}'s server": server for party, server in servers.items()}
            every = (*PARTIES, *named)
            reaper = ReaperOfAll(services, named, every, PARTIES, size.rest_seconds, seed=20)
        world = World(folder, services, size)
        stack.enter_context(world.begun())
        stack.enter_context(explained(services, reaper))
        yield world, reaper


def everybody_answers(world: World, browser: Browser) -> None:
    """Let all people and users answer, at once, some of them twice."""
    size = world.size
    codes = list(world.links["links"])
    half = size.swapped // 2
    codes[:half], codes[-half:] = codes[-half:], codes[:half]  # have each other's link
    in_chromium, rest = codes[: size.in_chromium], codes[size.in_chromium :]
    twice = in_chromium[: size.twice // 2] + rest[: size.twice // 2]
    at = len(rest) // 2
    with ThreadPoolExecutor(6) as threads:
        works = [
            threads.submit(answers_of_a_device, world, "one", rest[:at]),
            threads.submit(answers_of_a_device, world, "two", rest[at:]),
            # Those who come again from a second device, while the first may still be sending.
            threads.submit(answers_of_a_device, world, "again", twice),
            threads.submit(
                answers_of_a_device, world, "lists of the leader", world.links["of-leader"]
            ),
            # A report that the leader knows no permit of waits for its list.
            threads.submit(
                answers_of_a_device,
                world,
                "lists of the helper, and of nobody",
                [*world.links["of-helper"], *world.links["of-nobody"]],
                2 * 2 * ONE_SIDED,
            ),
            threads.submit(users_answer, world),
        ]
        devices = Chromium(world, browser)
        for code in in_chromium:
            devices.answer(code, *(EITHER if code in twice else (COUNTED,)))
        for code in rest[-(size.twice // 2) :]:
            works[1].result()
            devices.answer(code, USED)
        for work in works:
            work.result()


def answer_while_services_die(world: World, reaper: Reaper, browser: Browser) -> None:
    """Return when all has come and the leader knows of each report what has become of it."""
    done: list[bool] = []
    with ThreadPoolExecutor(1) as threads:
        killing = threads.submit(reaper.reap, world.size.kills, lambda: bool(done))
        try:
            everybody_answers(world, browser)
            world.wait_until_aggregated()
        finally:
            done.append(True)
        killing.result()
    for network in world.networks.values():
        network.is_calm = True
    world.wait_until_aggregated()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_exactly_who_should_count_counts_once(
    tmp_path: Path, browser: Browser, engine: str
) -> None:
    with world_of(tmp_path, engine, FEW) as (world, reaper):
        judge(world, reaper, browser)
        assert sum(reaper.kills.values()) >= LEAST_KILLS, reaper.kills


@pytest.mark.bench
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_of_five_hundred_exactly_who_should_count_counts_once(
    tmp_path: Path, browser: Browser, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with world_of(tmp_path, engine, MANY) as (world, reaper):
        judge(world, reaper, browser)
        found = [world.counts("leader", Stage.UPLOAD, each) for each in world.every_task()]
    with capsys.disabled():
        print(  # noqa: T201  what a measurement is for
            f"\n{MANY.people} people and {MANY.users} users in {time.monotonic() - began:.0f} s; "
            f"killed {dict(reaper.kills)}, uploads {found[0]} and {found[-1]}"
        )


def judge(world: World, reaper: Reaper, browser: Browser) -> None:
    answer_while_services_die(world, reaper, browser)
    size, services = world.size, world.services
    task, word, users = world.asked.tasks[0], world.asked.tasks[1], world.users_task
    for party in PARTIES:
        found = world.counts(party, Stage.AGGREGATION, task)
        assert found == {"aggregated": size.people, "permit_unknown": ONE_SIDED}, party
        assert world.counts(party, Stage.AGGREGATION, users) == {"aggregated": size.users}
        spent = size.people + (ONE_SIDED if party == "leader" else 0)
        assert [world.spent(party, each) for each in (task, word)] == [spent, spent]
        assert world.spent(party, users) == size.users

    a_leader_that_stuffs_gains_nothing(world)

    services.start("collector")
    collector = ("--config", services.configs["collector"])
    lists = ("--invited", world.folder / "links" / "permits.list")
    # In a process of its own, since a browser's driver has a loop in this one.
    said = run_prio("survey", "collect", world.public, *collector, "--now", "--json", *lists)
    assert said.returncode == 0, said.stderr
    shown = json.loads(said.stdout)
    (invited,) = shown["invited"]
    assert (invited["answers"], invited["invited"]) == (size.people, size.people)
    counts = {row["label"]: row["value"] for row in shown["rows"] if row["shows"] == "count"}
    assert counts == {"surgery": size.people, "medicine": 0, "no answer": 0}
    (texts,) = shown["texts"]
    assert texts["people"] == size.people
    start = world.hour * HOUR
    hour = ("--start", str(start), "--end", str(start + HOUR))
    collected = run_prio("collect", *collector, str(users.task_id), *hour, "--json")
    assert collected.returncode == 0, collected.stderr
    values = json.loads(collected.stdout)["result"]["values"]
    assert values == [len(range(each, size.users, 4)) for each in range(4)]
    assert failures_in_logs(services, *PARTIES, through_outages=True) == []


def a_leader_that_stuffs_gains_nothing(world: World) -> None:
    """Send the helper what it has counted or refused before, and reports that a leader makes up."""
    files = [world.folder / name / "leader.toml" for name in ("made", "users")]
    leader = DishonestLeader(world.services, files, world.networks["leader"].carried)
    now = int(time.time())
    first, *words = world.asked.tasks
    medicine = world.asked.sheet.entries({"department": "medicine"})
    every: list[tuple[Task, Measurement, int]] = [
        (first, medicine, now),
        *((each, 0, now) for each in words),
        (world.users_task, 3, world.clock.now()),
    ]
    for task, measurement, seconds in every:
        assert task.permits is not None
        whose = world.owners(task, now)
        # Whoever is on the helper's list is invited: to let them in is no stuffing.
        came = [
            each
            for each in leader.reports_of(task)
            if whose.get(each.report_metadata.report_id.value) != "of-helper"
        ]
        if not came:
            continue
        seen = [each.report_metadata for each in came]
        # Ids, times and signatures that it has seen; it guesses the openings.
        made_up = leader.made_up(task, measurement, seconds, seen[:10])
        assert set(leader.send(task, made_up)) == {"permit_unknown"}
        # With another one beside them: a job that was answered before would be answered the same.
        guess = leader.made(task, measurement, seconds, bytes(16), seen[0].public_extensions)
        again = leader.send(task, [*came, guess])
        assert not again["counted"], (again, [whose.get(each.report_id.value) for each in seen])
        if not task.permits.is_signed:
            # What both lists have is no permit.
            entry = task.permits.entry(seen[0].report_id.value)
            of_entry = task.permits.report_id(entry)
            stolen = leader.made(task, measurement, seconds, of_entry, opening=entry)
            assert set(leader.send(task, [stolen])) == {"permit_unknown"}
    for task in (first, words[0]):
        assert world.spent("helper", task) == world.size.people
    assert world.spent("helper", world.users_task) == world.size.users
