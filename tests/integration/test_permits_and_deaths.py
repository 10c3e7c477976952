"""Either aggregator dies before or after the commit of a write; each permit lets one report count.

Permits are listed or signed, reports come in columns or one by one, and a helper may answer later.
"""

import dataclasses
from pathlib import Path

import pytest

from aggregator.dap.messages import Report
from aggregator.service.config import HelperSettings
from aggregator.service.leader import upload_checks
from tests.integration.test_crashes import Killer, persistent_upload, persistent_work
from tests.integration.test_permits import collected
from tests.support.kinds_of_permits import LISTED, SIGNED, Kind
from tests.support.pair import Pair
from tests.support.permitted import names, spent

pytestmark = pytest.mark.usefixtures("engine")

PEOPLE = 8
MEASUREMENTS = [0, 1, 1, 2, 2, 2, 3, 3]
TRUE_COUNTS = (1, 2, 3, 2)

MOMENTS = ("before commit", "committed")
WRITES = {
    "leader": (
        "upload",
        "create aggregation jobs",
        "lease aggregation jobs",
        "store aggregation request",
        "finish aggregation job",
    ),
    "helper": ("commit aggregation job",),
}
LATER_WRITES = {"helper": ("defer aggregation job", "lease deferred jobs")}
"""Those of a helper that answers later, beside these."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How reports go through.

    Attributes:
        kind: Of which kind their permits are.
        at_once: How many are in a request and a job.
        defers: Whether the helper answers later.
    """

    kind: Kind
    at_once: int = 3
    defers: bool = False

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The transactions, each with the role of who writes."""
        every = [WRITES, LATER_WRITES] if self.defers else [WRITES]
        return [(role, name) for writes in every for role in writes for name in writes[role]]


WAYS = {
    "listed, in columns": Way(LISTED),
    "signed, in columns": Way(SIGNED),
    "signed, one by one": Way(SIGNED, at_once=1),
    "signed, deferred": Way(SIGNED, defers=True),
}
DEATHS = [
    pytest.param(way, role, name, moment, id=f"{words}, {role}, {name}, {moment}")
    for words, way in WAYS.items()
    for role, name in way.writes
    for moment in MOMENTS
]


async def reports_twice(pair: Pair, kind: Kind) -> list[list[Report]]:
    """Return two reports of each person with the same permit, the second of another answer."""
    permits = kind.permits(pair.task, PEOPLE)
    return [await kind.reports(pair, permits, some) for some in (MEASUREMENTS, [3] * PEOPLE)]


async def upload(pair: Pair, reports: list[Report], at_once: int) -> list[str]:
    refused = []
    for start in range(0, len(reports), at_once):
        refused += names(pair, await persistent_upload(pair, reports[start : start + at_once]))
    return refused


@pytest.mark.parametrize(("way", "role", "transaction", "moment"), DEATHS)
async def test_whenever_a_service_dies_a_permit_lets_one_report_count(
    tmp_path: Path,
    way: Way,
    role: str,
    transaction: str,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way.at_once > 1:
        monkeypatch.setattr(upload_checks, "SHORT_BODY", 0)
    helper = HelperSettings(database="none", defer_jobs=way.defers)
    async with way.kind.pair(tmp_path, helper_settings=helper, job_size=way.at_once) as pair:
        killer = Killer(transaction, moment)
        (pair.leader if role == "leader" else pair.helper).on_moment = killer
        sent, again = await reports_twice(pair, way.kind)
        assert await upload(pair, sent, way.at_once) == []
        assert await upload(pair, again, way.at_once) == ["permit_spent"] * PEOPLE
        await persistent_work(pair)
        assert killer.is_spent
        assert await upload(pair, again, way.at_once) == ["permit_spent"] * PEOPLE
        assert await upload(pair, sent, way.at_once) == []
        assert await collected(pair) == TRUE_COUNTS
        assert (spent(pair.leader), spent(pair.helper)) == (PEOPLE, PEOPLE)
