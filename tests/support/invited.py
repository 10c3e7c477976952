"""Surveys by invitation over a running pair, and the links of the people who are invited."""

from aggregator.protocol.permit_lists import PermitList
from aggregator.protocol.task import Task
from aggregator.service.storage.operator.permits import add_permits, count_permits
from aggregator.steward.survey.invitations import Invitations
from tests.support.entropy import SeededEntropy
from tests.support.module_pair import Site
from tests.support.pair import NOW, Service
from tests.support.permitted import window_at

WINDOWS = 3


class Invited:
    """The people who are invited to a site's survey, with lists at both aggregators.

    Attributes:
        made: The invitations, for three windows from that of now on.
        codes: The codes of all people.
    """

    def __init__(self, site: Site, people: int) -> None:
        self.site, self.tasks = site, site.asked.tasks
        window = window_at(self.tasks[0], NOW)
        fresh = Invitations.fresh(f"{site.address}/form.html", SeededEntropy(7))
        self.made = fresh.of(self.tasks, [(window, window + WINDOWS - 1)] * people)
        self.codes = [self.made.code(number) for number in range(1, people + 1)]
        for service in (site.pair.leader, site.pair.helper):
            self.give(service, self.made.lists(self.tasks))

    def link(self, number: int) -> str:
        """Return the link of the person at a place, from 0 on."""
        return self.made.link(number + 1)

    @staticmethod
    def give(service: Service, lists: list[PermitList]) -> None:
        """Give lists to one aggregator."""
        for each in lists:
            add_permits(service.database, each)

    def spent(self, service: Service, task: Task) -> int:
        """Return how many permits of a task's domain an aggregator has seen spent."""
        assert task.permits is not None
        domain = task.permits.domain
        counts = service.database.read_sync("permits", lambda tx: count_permits(tx, domain))
        return sum(each.spent for each in counts)
