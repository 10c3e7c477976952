"""However often and for whatever reason a service refuses bodies, it has no more memory for it.

Real processes, which are sent the largest bodies that they take. Every reason is tried in
`test_what_a_request_leaves_behind`.
"""

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from aggregator.dap.auth import bearer_header
from tests.support import hostile
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

MIB = 2**20
SIZES = [
    pytest.param(4 * MIB, id="small"),
    pytest.param(64 * MIB, id="full", marks=pytest.mark.bench),
]
"""`max_body_size` and `max_bytes_in_flight`; the defaults are the full ones."""
TIMES, AT_ONCE = 40, 12
SHORT = 128 * 2**10
PROMISE = 646
"""MiB that `docs/operations/edge.md` promises of any process."""
BODIES, MORE = 3, 100
"""How many of the largest bodies a service may have more than before, and how many MiB for all
else that it does for the first time; what the refused would take is 40 and 52 of them."""

FAILING = """
import pathlib
from aggregator.cli import main
from aggregator.service.storage.engine import backends, database
trouble, transact = pathlib.Path({file!r}), database.Database._transact
def failing(self, engine, name, work):
    at, kind = (trouble.read_text().split("/") + [""])[:2]
    if name == at:
        raise getattr(backends, kind)("as the test wants it")
    return transact(self, engine, name, work)
database.Database._transact = failing
main()
"""
"""`prio`, whose transactions of one name fail as a file says."""
TROUBLES = ("Busy", "DiskFull", "Unreachable", "Damaged")


class Attack(NamedTuple):
    """A request that is refused, and how."""

    why: str
    status: int
    path: str
    headers: Sequence[str]
    body: bytes
    trouble: str = ""
    is_chunked: bool = False

    def send(self, url: str) -> int | None:
        """Send it; return the status of the answer, None if there was none."""
        url = f"{url}{self.path}"
        known = f"Content-Length: {len(self.body)}"
        size = "Transfer-Encoding: chunked" if self.is_chunked else known
        head = hostile.head("POST", url, *self.headers, size, "Connection: close") + b"\r\n"
        with hostile.connect(url, 60) as connection:
            hostile.send(connection, iter([head, *self._pieces()]))
            return hostile.status_of(connection)

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self.body), MIB):
            piece = self.body[start : start + MIB]
            yield b"%x\r\n%s\r\n" % (len(piece), piece) if self.is_chunked else piece
        if self.is_chunked:
            yield b"0\r\n\r\n"


class Attacked:
    """A service that takes bodies of up to `largest` bytes."""

    def __init__(self, services: Processes, name: str, largest: int) -> None:
        self.services, self.name, self.largest = services, name, largest
        self._trouble = services.folder / "trouble"
        self._trouble.write_text("")
        if name != "collector":
            services.change(name, max_body_size=largest, max_bytes_in_flight=largest)
            program = FAILING.format(file=str(self._trouble))
            services.programs[name] = (sys.executable, "-c", program)
        services.commands["leader"] = ("leader", "serve")  # which collects garbage least often
        services.started_as = subprocess.Popen
        self.task_id, self.task_file = services.make_task(
            *("survey", "--vdaf", "Prio3Histogram", "--length", "256", "--epsilon", "1"),
            *("--min-batch-size", "2", "--max-reports", "1000000"),
        )
        secrets = tomllib.loads(self.task_file.with_name("leader.toml").read_text())["secrets"]
        self._tokens = {"leader": secrets["collector_token"], "helper": secrets["leader_token"]}
        services.start(name)

    def attacks(self) -> Iterator[Attack]:
        """Return all that it is attacked by."""
        name, junk = self.name, b"\xff" * self.largest
        if name == "collector":
            path, token = f"api/tasks/{self.task_id}/collections", self.services.collector_token
            bearer = f"Authorization: {bearer_header(token)}"
            head = ("Content-Type: application/json", bearer)
            yield Attack("too long", 413, path, head, junk)
            yield Attack("longer than it says", 413, path, head, junk, is_chunked=True)
            form = ("Content-Type: application/x-www-form-urlencoded",)
            yield Attack("a form", 413, "login", form, junk, is_chunked=True)
            yield Attack("a wrong token", 401, path, (head[0],), junk)
            return
        bearer = f"Authorization: {bearer_header(self._tokens[name])}"
        large, message, at = {
            "leader": ("reports", "upload-req", "upload"),
            "helper": ("aggregation_jobs", "aggregation-job-init-req", "find aggregation job"),
        }[name]
        body = self._reports() if name == "leader" else junk  # a running leader knows its key
        path = f"tasks/{self.task_id}/{large}"
        kind = f"Content-Type: application/ppm-dap;message={message}"
        head = (kind, bearer)
        yield Attack("no message", 400, path, head, junk)
        if name == "leader":
            tiny = hostile.small_report()
            tiny *= self.largest // len(tiny)
            yield Attack("too many reports", 413, path, head, tiny)
            yield Attack("cut short", 400, path, head, body[:-1])
        yield Attack("longer than it says", 413, path, head, junk + b"x", is_chunked=True)
        yield Attack("packed", 415, path, (*head, "Content-Encoding: gzip"), junk)
        yield Attack("of another type", 415, path, (bearer,), junk)
        other = path.replace(self.task_id, "A" * 43)
        yield Attack("of no task", 404 if name == "leader" else 401, other, head, junk)
        for each in TROUBLES:
            yield Attack(each, 503, path, head, body, f"{at}/{each}")
        short = {"leader": "collection_job", "helper": "aggregate_share"}[name]
        kind = f"Content-Type: application/ppm-dap;message={short.replace('_', '-')}-req"
        path = f"tasks/{self.task_id}/{short}s"
        yield Attack("a short one", 400, path, (kind, bearer), b"\xff" * SHORT)
        yield Attack("a wrong token", 401, path, (kind,), junk)

    def _reports(self) -> bytes:
        one = len(hostile.undecryptable_reports(self.task_file, 1))
        return hostile.undecryptable_reports(self.task_file, self.largest // one)

    def times(self, attack: Attack, times: int, at_once: int) -> Counter[int | None]:
        """Send an attack again and again; return how often each status was answered."""
        self._trouble.write_text(attack.trouble)
        url = self.services.urls[self.name]
        try:
            with ThreadPoolExecutor(at_once) as senders:
                return Counter(senders.map(lambda _: attack.send(url), range(times)))
        finally:
            self._trouble.write_text("")


@pytest.mark.parametrize("largest", SIZES)
@pytest.mark.parametrize("name", ["leader", "helper", "collector"])
def test_refused_bodies_take_no_more_memory_the_more_there_are(
    tmp_path: Path, name: str, largest: int
) -> None:
    with Processes(tmp_path) as services:
        attacked = Attacked(services, name, largest)
        before = services.memory(name)
        most = min(PROMISE, before + BODIES * largest // MIB + MORE)
        for attack in attacked.attacks():
            services.forget_peak_memory(name)
            statuses = attacked.times(attack, TIMES, 1)
            peak = services.peak_memory(name)
            crowd = attacked.times(attack, AT_ONCE, AT_ONCE)
            of_all, after = services.peak_memory(name), services.memory(name)
            print(f"{name}, {attack.why}: {before} MiB, {peak}, {of_all}, then {after}")  # noqa: T201 - a measurement, with -s
            assert statuses.keys() == {attack.status}, attack.why
            # All together they may be more than it takes at once, or in time.
            assert crowd.keys() <= {attack.status, 408, 429, None}, attack.why
            assert max(peak, of_all) < most, attack.why
