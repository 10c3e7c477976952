"""An application's client at real aggregators that lose every third answer."""

from pathlib import Path
from urllib.parse import urlsplit

from aggregator.client import Outbox, Reporter
from aggregator.client.stdlib_sender import HttpSender
from tests.support.clock import ManualClock
from tests.support.module_pair import module_site
from tests.support.pair import NOW
from tests.support.tasks import LEADER_URL, make_task

PEOPLE = 40


class AtSite(HttpSender):
    """Sends what is for the task's hosts to the folders of a site."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def _at(self, url: str) -> str:
        folder = "leader" if url.startswith(LEADER_URL) else "helper"
        return f"{self._address}/{folder}{urlsplit(url).path}"

    def get(self, url: str, message: str, limit: int) -> bytes:
        return super().get(self._at(url), message, limit)

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        return super().post(self._at(url), message, body, answer, limit)


def test_every_person_is_counted_once_over_restarts_and_lost_answers(tmp_path: Path) -> None:
    task = make_task()
    path = tmp_path / "outbox.sqlite"
    with module_site(tmp_path, task) as site:
        site.loses = lambda number: number % 3 == 1
        waiting = 0
        for person in range(PEOPLE):
            # A process for each, which ends with reports in its outbox.
            outbox, sender = Outbox(path), AtSite(site.address)
            reporter = Reporter(
                task, outbox, clock=ManualClock(NOW), sender=sender, reports_per_request=7
            )
            reporter.put(person % 4, claim=f"person {person}")
            if person % 5 == 4:
                waiting = reporter.flush(now=True).waiting
            sender.close()
            outbox.close()
        assert site.posts > PEOPLE // 5
        outbox, sender = Outbox(path), AtSite(site.address)
        reporter = Reporter(task, outbox, clock=ManualClock(NOW), sender=sender)
        while waiting:
            waiting = reporter.flush(now=True).waiting
        sender.close()
        outbox.close()
        result = site.collect()
    assert result.report_count == PEOPLE
    assert tuple(result.values) == (PEOPLE // 4,) * 4
