"""The last hour of a running service, from totals that only grow."""

from collections.abc import Mapping

from aggregator.service.telemetry.by_minute import COUNTER, MINUTES, ByMinute
from aggregator.service.telemetry.health import Health, Metric


class Service:
    def __init__(self) -> None:
        self.minute = 7
        self.totals: dict[tuple[str, str], int] = {}
        self.look = ByMinute(self._examine, lambda: {"more": 1}, lambda: 60.0 * self.minute + 3)

    def rows(self) -> dict[str, Mapping[str, object]]:
        found = self.look().document
        assert (found["own"], found["more"]) == (2, 1)
        rows = found["reports_by_minute"]
        assert isinstance(rows, list)
        return {f"{row['stage']} {row['reason']}": row for row in rows}

    def _examine(self) -> Health:
        samples = [
            ({"task": task, "stage": stage, "reason": reason}, total / 2)
            for task in ("one", "other")
            for (stage, reason), total in self.totals.items()
        ]
        return Health([], {"own": 2}, [Metric(COUNTER, "", "counter", samples)])


def test_what_came_is_told_by_the_minute_and_what_was_there_before_is_not() -> None:
    service = Service()
    service.totals["upload", "stored"] = 100
    assert service.rows()["upload stored"]["last_hour"] == 0
    service.minute += 1
    service.totals["upload", "stored"] = 130
    service.rows()
    service.minute += 2
    service.totals["upload", "stored"] = 140
    service.totals["upload", "report_replayed"] = 4
    rows = service.rows()
    assert rows["upload stored"]["per_minute"] == [0] * (MINUTES - 3) + [30, 0, 10]
    assert rows["upload report_replayed"]["per_minute"] == [0] * (MINUTES - 1) + [4]
    assert (rows["upload stored"]["last_hour"], rows["upload report_replayed"]["last_hour"]) == (
        40,
        4,
    )


def test_an_hour_later_it_is_forgotten_and_nothing_grows() -> None:
    service = Service()
    service.rows()
    for _ in range(3 * MINUTES):
        service.minute += 1
        service.totals["upload", "stored"] = service.totals.get(("upload", "stored"), 0) + 2
        row = service.rows()["upload stored"]
    assert row["per_minute"] == [2] * MINUTES
    assert len(service.look._totals) == MINUTES + 1
    service.minute += 2 * MINUTES
    assert service.rows()["upload stored"]["per_minute"] == [0] * MINUTES
