"""A survey by invitation, and a task of an application's users, over processes and a torn network.

Links of one list alone, and an issuer that lies to everybody at first, are part of it.
"""

import dataclasses
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from starlette.responses import HTMLResponse

from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.task_making import collector_config_of, make_task, write_files
from aggregator.client import Outbox, PermitStore, Reporter, SurveyClient
from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.dap.ids import encode_base64url
from aggregator.errors import ParameterError, PeerError
from aggregator.issuer import AlreadyIssued, Issuer, PrivateKeys, new_keys
from aggregator.protocol.permit_codes import secret_of
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import issuer_keys_to_table, task_from_toml
from aggregator.service.storage.operator.permits import count_permits
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.steward.survey.beside import wording_of
from aggregator.steward.survey.form.page import form_page
from tests.support.browser import ready, send
from tests.support.clock import ManualClock
from tests.support.faulty_peer import FaultyPeer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import COMMANDS, Processes
from tests.support.serving import serving
from tests.support.signed import KeptAnswers
from tests.support.surveys import department
from tests.support.texts import WORD
from tests.support.torn_network import TornNetwork

PARTIES = ("leader", "helper")
HOUR = 3600
LISTS = {"links": PARTIES, "of-leader": ("leader",), "of-helper": ("helper",), "of-nobody": ()}
"""Folders of links, and which aggregators have the list of each."""
ANY = Requirements(any_epsilon=True)


@dataclasses.dataclass(frozen=True)
class Size:
    """How many of each there are.

    Attributes:
        people: Who are invited.
        in_chromium: How many of them answer there.
        twice: How many answer once more, on another device, half of them in Chromium.
        swapped: How many have another's link; even.
        users: Who get signed permits.
        kills: The most deaths.
        rest_seconds: The shortest and the longest time between deaths.
    """

    people: int
    in_chromium: int
    twice: int
    swapped: int
    users: int
    kills: int
    rest_seconds: tuple[float, float]


FEW = Size(120, 3, 4, 4, 10, 6, (0.2, 0.8))
"""With so many people, one of the eight tasks for words stays empty once in a million runs."""

MANY = Size(500, 25, 50, 10, 40, 60, (0.5, 2.0))
ONE_SIDED = 4
"""How many links there are of each list that an aggregator lacks."""


class World:
    """Two aggregators that die, behind networks that tear, a survey and the task of users."""

    def __init__(self, folder: Path, services: Processes, size: Size) -> None:
        self.folder, self.services, self.size = folder, services, size
        self.networks = {party: TornNetwork(seed) for seed, party in enumerate(PARTIES)}
        self.endpoints: dict[str, str] = {}
        self.page = ""
        self.started = int(time.time())

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Make tasks, links and lists, and start the services."""
        with ExitStack() as stack:
            for party, network in self.networks.items():
                peer = stack.enter_context(FaultyPeer(self.services.urls[party], network))
                self.endpoints[party] = peer.url
            for party in PARTIES:
                self.services.change(party, max_epsilon="1000000000", exact_results=True)
            self._make_survey()
            self._make_users_task()
            self.page = stack.enter_context(serving(HTMLResponse(self.form))) + "/form.html"
            self._invite()
            self.services.start(*PARTIES)
            yield

    def _make_survey(self) -> None:
        first = datetime.fromtimestamp(self.started, UTC) - timedelta(days=2)
        text = (
            'title = "Visits"\nasked = "patients"\nwindow = "week"\nmin_batch_size = 10\n'
            f'answers = "by invitation"\nfirst = {first:%Y-%m-%d}\nmax_reports = 1000\n'
            '[budget]\nepsilon = "100000000"\nwindows = 4\n'
            + department()
            + WORD.replace('"1/4"', '"64"')
        )
        survey = self.folder / "survey.toml"
        survey.write_text(text)
        prio = self.services.prio
        config = prio("collector", "config", "--config", self.services.configs["collector"])
        self.collector_config = config.stdout.strip()
        made = self.folder / "made"
        prio(
            "survey", "new", survey, "--out", made,
            "--leader", self.endpoints["leader"], "--helper", self.endpoints["helper"],
            "--collector-config", self.collector_config,
        )  # fmt: skip
        for party in COMMANDS:
            prio("task", "add", "--config", self.services.configs[party], made / f"{party}.toml")
        self.public = made / "task.toml"
        self.asked: AskedSurvey = read_survey(self.public)
        wording = wording_of(text, self.asked, datetime.fromtimestamp(self.started, UTC))
        self.form = form_page(self.asked, wording)

    def _make_users_task(self) -> None:
        """Make a task of the hour before, whose permits are signed for it and the one after."""
        self.hour = self.started // HOUR - 1
        keys = new_keys(self.hour + 1, 2)  # window 0 is what lies before the first unit
        task = make_task(
            collector_config_of(self.collector_config),
            {"type": "Prio3Histogram", "length": 4, "chunk_length": 2},
            {"mechanism": "None", "window": 1, "max_releases": 10},
            leader=self.endpoints["leader"],
            helper=self.endpoints["helper"],
            time_precision=HOUR,
            min_batch_size=5,
            max_reports=1000,
            task_info="users",
            permits={
                "domain": encode_base64url(random.Random(5).randbytes(32)),  # noqa: S311  no secret
                **issuer_keys_to_table(keys.public),
            },
        )
        write_files(task, self.folder / "users")
        for party in COMMANDS:
            self.services.prio(
                "task", "add", "--config", self.services.configs[party],
                self.folder / "users" / f"{party}.toml",
            )  # fmt: skip
        self.users_task = task_from_toml((self.folder / "users" / "task.toml").read_text())
        self.application = LyingApplication(keys, self.users_task, self.clock)

    @property
    def clock(self) -> ManualClock:
        """The clock of users, who answered in the hour before."""
        return ManualClock(self.hour * HOUR + 600)

    def _invite(self) -> None:
        self.links = {name: self._linked(name, parties) for name, parties in LISTS.items()}

    def _linked(self, name: str, parties: Sequence[str]) -> list[str]:
        """Return the codes of new links, of which these parties have the list."""
        count = ONE_SIDED if len(parties) < len(PARTIES) else self.size.people
        out = self.folder / name
        self.services.prio(
            "survey", "invite", self.public, "--count", str(count), "--page", self.page,
            "--windows", "1", "--out", out,
        )  # fmt: skip
        for party in parties:
            config = self.services.configs[party]
            self.services.prio("permits", "add", "--config", config, out / "permits.list")
        lines = (out / "links.csv").read_text().splitlines()[1:]
        return [line.split(",")[1] for line in lines]

    def counts(self, party: str, stage: Stage, task: Task) -> dict[str, int]:
        with open_aggregator(self.services.configs[party]) as opened:
            look = partial(report_counts, task_id=task.task_id.value, stage=stage)
            return dict(opened.database.read_sync("counts", look))

    def spent(self, party: str, task: Task) -> int:
        assert task.permits is not None
        with open_aggregator(self.services.configs[party]) as opened:
            look = partial(count_permits, domain=task.permits.domain)
            return sum(each.spent for each in opened.database.read_sync("permits", look))

    def owners(self, task: Task, seconds: int) -> dict[bytes, str]:
        """Return in which folder of links is whose permit each id of a window's reports is."""
        assert task.permits is not None
        window, permits = task.permit_window_at(task.time(seconds)), task.permits
        return {
            permits.report_id(permits.opening(secret_of(code), window)): name
            for name, codes in self.links.items()
            for code in codes
        }

    def every_task(self) -> list[Task]:
        return [*self.asked.tasks, self.users_task]

    def wait_until_aggregated(self) -> None:
        """Wait until the leader knows of every report what has become of it."""
        deadline = time.monotonic() + 3 * PATIENCE_SECONDS
        for task in self.every_task():
            stored = self.counts("leader", Stage.UPLOAD, task).get("stored", 0)
            while sum(self.counts("leader", Stage.AGGREGATION, task).values()) < stored:
                assert time.monotonic() < deadline, (task.title, stored)
                time.sleep(0.2)


class LyingApplication:
    """An application with a login, whose issuer lies to everybody at first."""

    def __init__(self, keys: PrivateKeys, task: Task, clock: ManualClock) -> None:
        self._true = Issuer(keys, [task], KeptAnswers(), clock=clock)
        others = new_keys(keys.public.first, len(keys.keys))
        # The keys of nobody's task, by which it would know again whom it gave their signatures.
        marking = PrivateKeys(keys.public, others.keys)
        swapped = PrivateKeys(keys.public, [*reversed(keys.keys)])
        self._marking = Issuer(marking, [task], KeptAnswers(), clock=clock)
        self._swapped = Issuer(swapped, [task], KeptAnswers(), clock=clock)
        self._asked = Counter[str]()
        self._lock = threading.Lock()

    def answer(self, user: str, body: bytes) -> bytes:
        """Answer the first request with a lie of the user's kind, and later ones truly."""
        with self._lock:
            self._asked[user] += 1
            if self._asked[user] > 1:
                return self._true.issue(user, body)
            kind = int(user) % 5
            if kind == 0:
                return self._marking.issue(user, body)
            if kind == 1:
                return self._swapped.issue(user, body)
            if kind == 2:
                self._true.issue(user, body)
                raise TimeoutError
            true = self._true.issue(user, body)
            return true[256:] + true[:256] if kind == 3 else b"x" * len(true)


class Chromium:
    """Devices with a browser of their own, one after the other."""

    def __init__(self, world: World, browser: Browser) -> None:
        self.world, self.browser = world, browser

    def answer(self, code: str, *said: str) -> None:
        """Open a link on a new device, answer, and wait for what the page says in the end."""
        context = self.browser.new_context()
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        try:
            page = context.new_page()
            page.goto(f"{self.world.page}#p={code}")
            ready(page)
            page.get_by_label("surgery").check()
            page.get_by_label("What hurts?").fill("knee")
            send(page)
            status = page.get_by_role("status")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not any(each in status.inner_text() for each in said):
                assert time.monotonic() < deadline, status.inner_text()
                page.wait_for_timeout(1000)
                if page.evaluate("navigator.onLine"):
                    page.evaluate("dispatchEvent(new Event('online'))")
        finally:
            context.close()


def answers_of_a_device(world: World, name: str, codes: Sequence[str], left: int = 0) -> None:
    """Answer with links in Python, and send until no more than `left` reports wait."""
    outbox = world.folder / f"{name}.sqlite"
    with SurveyClient(world.public, outbox, requirements=ANY, reports_per_request=7) as survey:
        for code in codes:
            survey.put({"department": "surgery", "word": "knee"}, permit=code)
        deadline = time.monotonic() + 5 * PATIENCE_SECONDS
        while (done := survey.reporter.flush(now=True)).waiting > left:
            assert time.monotonic() < deadline, done
            time.sleep(0.1)


def users_answer(world: World) -> None:
    """Let each user get a permit, in spite of lies, and answer; some on two devices."""
    for number in range(world.size.users):
        ask, clock = partial(world.application.answer, str(number)), world.clock
        outbox = Outbox(world.folder / f"user-{number}.sqlite")
        store = PermitStore(outbox, [world.users_task], clock=clock, ahead=1)
        with pytest.raises((PeerError, TimeoutError, ParameterError)):
            store.refresh(ask)
        store.refresh(ask)
        if number % 3 == 0:
            second = Outbox(None)
            other = PermitStore(second, [world.users_task], clock=clock, ahead=1)
            with pytest.raises(AlreadyIssued):
                other.refresh(ask)
            second.close()
        with Reporter(world.users_task, outbox, clock=clock) as reporter:
            reporter.put(number % 4)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while (done := reporter.flush(now=True)).waiting:
                assert time.monotonic() < deadline, done
                time.sleep(0.1)
            assert done.counted == 1, done
        outbox.close()
