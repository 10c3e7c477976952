"""The counters of a running service, minute by minute, kept in memory only."""

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from aggregator.service.telemetry.health import Document, Health, Metric

MINUTES = 60
"""How far back the counters go."""

COUNTER = "prio_reports_total"
"""The metric that is followed, over all tasks."""

Outcome = tuple[str, str]
"""The stage and the reason of a report's outcome."""


class ByMinute:
    """Examines a service, and adds the counts of each of the last minutes; threads may share it.

    `more` has members for the document that only the running process knows. `now` is a clock that
    is never set back.
    """

    def __init__(
        self,
        examine: Callable[[], Health],
        more: Callable[[], Document] = dict,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._examine = examine
        self._more = more
        self._now = now
        self._lock = threading.Lock()
        self._totals: OrderedDict[int, Mapping[Outcome, float]] = OrderedDict()

    def __call__(self) -> Health:
        """Return the state of the service, with its last hour."""
        health = self._examine()
        minute = int(self._now() // 60)
        with self._lock:
            self._totals[minute] = _totals(health.metrics)
            while next(iter(self._totals)) < minute - MINUTES:
                self._totals.popitem(last=False)
            rows = self._rows(minute)
        document = {**health.document, **self._more(), "reports_by_minute": rows}
        return dataclasses.replace(health, document=document)

    def _rows(self, now: int) -> list[dict[str, object]]:
        """Return a row for each outcome, with the reports of each minute, the current one last."""
        counted: dict[Outcome, list[int]] = {}
        minutes = iter(self._totals.items())
        _, before = next(minutes)
        last = {outcome: [0] * MINUTES for outcome in before}
        counted.update(last)
        for minute, totals in minutes:
            for outcome, total in totals.items():
                row = counted.setdefault(outcome, [0] * MINUTES)
                row[minute - now - 1] = max(0, int(total - before.get(outcome, 0)))
            before = totals
        return [
            {"stage": stage, "reason": reason, "last_hour": sum(row), "per_minute": row}
            for (stage, reason), row in sorted(counted.items())
        ]


def _totals(metrics: Iterable[Metric]) -> Mapping[Outcome, float]:
    totals: dict[Outcome, float] = {}
    for metric in metrics:
        if metric.name == COUNTER:
            for labels, value in metric.samples:
                outcome = labels["stage"], labels["reason"]
                totals[outcome] = totals.get(outcome, 0) + value
    return totals
