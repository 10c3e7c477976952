"""A table of a survey with text questions is uploaded, and the process dies at any sync.

The same command goes on: nobody is lost or counted twice, even if all that had not been synced to
the disk is gone.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfigList, generate_keypair
from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type
from tests.support.entropy import SeededEntropy
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department

PEOPLE, AT_ONCE = 30, 18

TEXTS = "".join(
    f"""
[[question]]
name = "{name}"
kind = "text"
text = "What {name}s?"
epsilon = "1/4"
buckets = 16
tasks = 8
"""
    for name in ("hurt", "help")
)

_SCRIPT = """
import sys
from contextlib import closing
from aggregator.client import Row, SurveyClient, bulk
bulk.PEOPLE_AT_ONCE = int(sys.argv[4])
with closing(SurveyClient(sys.argv[1], sys.argv[2])) as survey:
    nothing = survey.sheet.entries({})
    rows = [
        Row(nothing, {"hurt": f"knee {n % 3}"}, 1_793_577_600 + 60 * n, f"person {n}")
        for n in range(int(sys.argv[3]))
    ]
    print(survey.upload(rows).outcomes.total())
"""


class _Leader(BaseHTTPRequestHandler):
    """Stores reports, and remembers for which task."""

    protocol_version = "HTTP/1.1"
    server: "Site"

    def do_GET(self) -> None:
        self._answer("hpke-config-list", self.server.configs)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        task = self.path.split("/")[-2]
        self.server.looks()
        for report in decode(UploadRequest, body).reports:
            key, data = report.report_metadata.report_id.value, (task, encode(report))
            assert self.server.stored.setdefault(key, data) == data, "other bytes under an id"
        self._answer("upload-errors", b"")

    def _answer(self, message: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", media_type(message))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Site(ThreadingHTTPServer):
    """Both aggregators, as a client sees them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Leader)
        self.stored: dict[bytes, tuple[str, bytes]] = {}
        self.looks: Callable[[], object] = lambda: None
        keypair = generate_keypair(1, SeededEntropy(b"keys"))
        self.configs = encode(HpkeConfigList((keypair.config,)))


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    thread = threading.Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        served.shutdown()
        thread.join()
        served.server_close()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("there is no gcc, which makes what notes each sync")
    library = tmp_path_factory.mktemp("hooks") / "unsynced.so"
    source = Path(__file__).parents[1] / "support" / "unsynced.c"
    command = [gcc, "-shared", "-fPIC", "-O1", "-o", library, source]
    subprocess.run(command, check=True)  # noqa: S603  our own
    return library


class Uploading:
    """One person's machine: the folder of the outbox, and what of it is on the disk."""

    def __init__(
        self,
        folder: Path,
        task_file: Path,
        hooks: Path,
        people: int = PEOPLE,
        at_once: int = AT_ONCE,
    ) -> None:
        self._folder, self._disk = folder / "state", folder / "disk"
        for each in (self._folder, self._disk):
            each.mkdir(parents=True)
        self.outbox = self._folder / "outbox.sqlite"
        given = [task_file, self.outbox, str(people), str(at_once)]
        self._command = [sys.executable, "-c", _SCRIPT, *given]
        self._hooks = hooks

    @property
    def syncs(self) -> int:
        """How often something was synced to the disk."""
        return (self._disk / "syncs").stat().st_size

    def run(self, dies_at: int | None = None) -> bool:
        """Upload the table; return whether the process died before a sync, of which all is lost."""
        told = {
            "LD_PRELOAD": str(self._hooks),
            "SYNCED_FROM": str(self._folder),
            "SYNCED_TO": str(self._disk),
            **({} if dies_at is None else {"DIES_AT": str(dies_at)}),
        }
        done = subprocess.run(  # noqa: S603  our own
            self._command, env={**os.environ, **told}, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        if done.returncode == 0:
            return False
        # What was removed stays so: file systems write down the order of names, if not of contents.
        left = {each.name for each in self._folder.iterdir()}
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        for each in self._disk.iterdir():
            if each.name in left:
                shutil.copy(each, self._folder)
        return True


def check(site: Site, tasks: dict[str, list[str]]) -> None:
    counted = Counter(task for task, _ in site.stored.values())
    for name, of_name in tasks.items():
        assert sum(counted[each] for each in of_name) == PEOPLE, name


@pytest.mark.slow
def test_people_are_synced_in_groups_of_which_the_file_has_few_at_a_time(
    tmp_path: Path, site: Site, hooks: Path
) -> None:
    people, at_once = 1500, 500
    address = f"http://127.0.0.1:{site.server_port}/"
    survey = VISITS + department() + TEXTS
    write_survey_folder(tmp_path / "made", survey, address + "leader/", address + "helper/")
    task_file = tmp_path / "made" / "task.toml"
    uploading = Uploading(tmp_path / "machine", task_file, hooks, people, at_once)
    waiting = list[int]()

    def look() -> None:
        with closing(sqlite3.connect(uploading.outbox)) as outbox:
            waiting.extend(outbox.execute("SELECT count(*) FROM records").fetchone())

    site.looks = look
    assert not uploading.run()
    assert len(site.stored) == 3 * people
    groups = people // at_once
    assert uploading.syncs <= 8 * groups + 4  # so fewer than one for a hundred people, of 1,000
    assert max(waiting) <= 2 * 3 * at_once


@pytest.mark.slow
def test_whenever_an_upload_dies_the_same_command_counts_everybody_once(
    tmp_path: Path, site: Site, hooks: Path
) -> None:
    address = f"http://127.0.0.1:{site.server_port}/"
    survey = VISITS + department() + TEXTS
    made = write_survey_folder(tmp_path / "made", survey, address + "leader/", address + "helper/")
    tasks = {name: [str(task.task_id) for task in some] for name, some in made.items()}
    deaths = 0
    while True:
        site.stored.clear()
        uploading = Uploading(tmp_path / str(deaths), tmp_path / "made" / "task.toml", hooks)
        if not uploading.run(deaths + 1):
            break
        deaths += 1
        assert not uploading.run()
        check(site, tasks)
    check(site, tasks)
    assert deaths > 2 * 3  # in each group: when its tosses are, when it is, when it is settled
