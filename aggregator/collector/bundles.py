"""Hands in a bundle of reports below a collection job of its own.

    collection, _ = await collector.start(collection_request(task, {"min_dp_budget": 500_000}))
    handed_in = await fill(collector, collection, reports)
    result = await collector.wait_for(collection)

An equal request gets the same job until its first report, so no two should be begun at once.

Source: draft-thomson-ppm-dap-attribution.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from aggregator.codec import DecodeError, decode
from aggregator.collector.collect import POLL_SECONDS, Collection, TaskCollector
from aggregator.dap.messages import Report, UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    from aggregator.dap.ids import ReportId

AT_ONCE = 100
"""Reports in one upload."""

_TIMES = 60
"""How often a report is sent again whose last bundle is not over yet."""
_EARLY = ReportError.REPORT_TOO_EARLY.draft_name


@dataclasses.dataclass(frozen=True, slots=True)
class HandedIn:
    """A bundle at the leader.

    Attributes:
        collection: Its collection job.
        reports: How many reports there were.
        refused: How many of them the leader refused, by the name of the error.
    """

    collection: Collection
    reports: int
    refused: Mapping[str, int]

    @property
    def accepted(self) -> int:
        """How many reports the leader has taken."""
        return self.reports - sum(self.refused.values())


def read_reports(data: bytes) -> tuple[Report, ...]:
    """Return encoded reports that stand one after the other; raises `ParameterError`."""
    try:
        reports = decode(UploadRequest, data).reports
    except DecodeError as error:
        raise ParameterError(f"no reports one after the other: {error}") from None
    if not reports:
        raise ParameterError("no reports one after the other: nothing is there")
    return reports


async def fill(
    collector: TaskCollector, collection: Collection, reports: Sequence[Report]
) -> HandedIn:
    """Upload the reports of a collection that was just started; raises what `hand_in` raises.

    Those of a bundle that came to nothing may still be with the helper: they are sent again.
    """
    try:
        return HandedIn(collection, len(reports), await _filled(collector, collection, reports))
    except PeerError:
        with suppress(PeerError):  # or those that it has could not be handed in again
            await collector.forget(collection)
        raise


async def _filled(
    collector: TaskCollector, collection: Collection, reports: Sequence[Report]
) -> Counter[str]:
    final, waiting = Counter[str](), reports
    for attempt in range(_TIMES):
        if attempt:
            await collector.sleep(POLL_SECONDS)
        refused: dict[ReportId, str] = {}
        for start in range(0, len(waiting), AT_ONCE):
            refused |= await collector.hand_in(collection, waiting[start : start + AT_ONCE])
        early = {each for each, why in refused.items() if why == _EARLY}
        final.update(why for why in refused.values() if why != _EARLY)
        waiting = [each for each in waiting if each.report_metadata.report_id in early]
        if not waiting:
            break
    final.update([_EARLY] * len(waiting))
    return final
