"""What to buy for how many reports a day, from measured costs: the tables of docs/sizing.md.

    python -m benchmarks.sizing

prints them; a test compares them with the page.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from aggregator.service.storage.engine.postgresql import Postgresql

DAYS = (10**6, 10**8, 10**9)
"""Reports per day."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """What one report costs, as `prio load` and `pytest -m bench tests/load -k postgresql` find it.

    Attributes:
        leader: Processor time of all the leader's processes, in seconds.
        helper: Of the helper's.
        database: Of both servers together.
        log: Bytes of both servers' write-ahead logs together, in stores that are new.
        written: Bytes that both servers write to their disks, the same.
        adding: How long the leader's transactions take that add to a task, in seconds: those that
            store uploads, and those that end jobs.
        leader_alone: As `leader`, where each report is a request of its own.
        database_alone: As `database`, where each report is a request of its own.
    """

    leader: float
    helper: float
    database: float
    log: int
    written: int
    adding: float
    leader_alone: float
    database_alone: float


MEASURED = Costs(
    leader=49e-6,
    helper=20e-6,
    database=49e-6,
    log=7450,
    written=17400,
    adding=478e-6,
    leader_alone=178e-6,
    database_alone=80e-6,
)
"""Of two runs of 20,000 reports, 200 to a request, and of 2,000 and 4,000 that are a request each,
over 64 connections; log, written bytes and `adding` of earlier ones, these of 10,000 to 40,000."""

BODY = 5480
"""Bytes of an uploaded report: a histogram of 256 buckets."""
ID = 125
"""Bytes of a report's id with its index; the leader keeps it from its upload, the helper from when
it was counted."""
ID_INDEX = 64
"""Of these, in the index."""
IDS_PER_PAGE = 128
"""Ids that a page of the index has."""
ID_LOG = 220
"""Bytes of log of an id whose page was changed before since the last checkpoint."""
PAGE_LOG = 5900
"""Bytes of log of a page that is changed for the first time after a checkpoint: it is there whole,
but for its hole."""
PAGE = 8192
FORGETTING_LOG, FORGETTING_WRITTEN = 153, 253
"""Bytes of log, and written, of an id that is deleted, with the vacuum that follows. In a store
that is as old as ids are kept, one is deleted for each that comes."""
CHECKPOINTS = (5, 30)
"""Minutes between two of a server's checkpoints: the standard, and what `checkpoint_timeout` may
be."""
PEAK = 3
"""How many times the day's mean the busiest hour brings."""
LOAD = 0.6
"""How busy a processor is at that hour; the rest is for what was not foreseen."""
BACKLOG_SECONDS = 86_400
"""For how long the leader can keep reports while its helper is away."""
STORED = 6450
"""Bytes of a report while it waits, besides its id."""
MEMORY_PER_CORE = 1.0
"""GiB; a process needs at most 0.65 (docs/operations/watch.md)."""
_TWO_DIGITS = 10
DATABASE_CORES = 16
"""What we would give one server before there is a second."""


def peak(per_day: int) -> float:
    """Return reports per second at the busiest hour."""
    return PEAK * per_day / 86_400


def cores(per_day: int, seconds: float) -> int:
    """Return how many cores so much processor time per report needs at the busiest hour."""
    return max(1, math.ceil(peak(per_day) * seconds / LOAD))


def databases(per_day: int, costs: Costs) -> int:
    """Return how many servers an aggregator needs, each with tasks of its own.

    Each is given the time of both aggregators' servers, which was measured together. Of one task so
    many transactions are written at a time, so a server's tasks must be several where that is the
    tighter limit; `tasks` says how many.
    """
    return math.ceil(cores(per_day, costs.database) / DATABASE_CORES)


def whole_pages(of_a_page: float) -> float:
    """Return how many pages are logged whole for each id.

    Args:
        of_a_page: How many ids come for a page, on average, between two checkpoints.
    """
    return -math.expm1(-of_a_page) / of_a_page


def whole_pages_at_the_peak(minutes: int) -> float:
    """Return `whole_pages` at the busiest hour, with so many minutes between two checkpoints.

    An id falls at random on a page that has ids of its day: half of the day's are there. So the
    number of reports a day does not matter.
    """
    part_of_the_day = PEAK * 60 * minutes / 86_400
    return whole_pages(part_of_the_day * IDS_PER_PAGE / 0.5)


def log_of(costs: Costs, minutes: int) -> float:
    """Return the bytes of both logs for a report, in stores as old as ids are kept."""
    return costs.log + 2 * (whole_pages_at_the_peak(minutes) * PAGE_LOG + FORGETTING_LOG)


def written_of(costs: Costs, minutes: int) -> float:
    """Return the bytes that both servers write for a report, in stores as old as ids are kept."""
    pages = whole_pages_at_the_peak(minutes) * (PAGE_LOG + PAGE)
    return costs.written + 2 * (pages + FORGETTING_WRITTEN)


def tasks(per_day: int, costs: Costs) -> int:
    """Return over how many tasks the reports have to be spread at least."""
    return max(1, math.ceil(peak(per_day) * costs.adding / LOAD / Postgresql.shards))


def purchase(costs: Costs) -> Iterator[Sequence[str]]:
    """Yield the table of what each aggregator's operator buys, row by row."""
    yield ("", *(f"{_power(each)} a day" for each in DAYS))
    yield ("reports per second, mean and peak", *(_rates(each) for each in DAYS))
    for name, seconds in (("leader", costs.leader), ("helper", costs.helper)):
        yield (f"{name}: cores", *(f"{cores(each, seconds):,}" for each in DAYS))
        memory = (math.ceil(cores(each, seconds) * MEMORY_PER_CORE) for each in DAYS)
        yield (f"{name}: memory, GiB", *(f"{each:,}" for each in memory))
    alone = "where each report is a request"
    yield (f"leader: cores, {alone}", *(f"{cores(each, costs.leader_alone):,}" for each in DAYS))
    yield ("tasks, at least", *(f"{tasks(each, costs):,}" for each in DAYS))
    yield ("database servers of each", *(f"{databases(each, costs):,}" for each in DAYS))
    yield (
        "cores of all of them",
        *(f"{cores(each, costs.database):,}" for each in DAYS),
    )
    yield (
        f"cores of all of them, {alone}",
        *(f"{cores(each, costs.database_alone):,}" for each in DAYS),
    )
    for what, of_report in (("their log", log_of), ("written to their disks", written_of)):
        for minutes in CHECKPOINTS:
            name = f"{what} at the peak, MB/s, a checkpoint every {minutes} minutes"
            yield (name, *(_mega(peak(each) * of_report(costs, minutes)) for each in DAYS))
    yield (
        "index of a day's ids, GB, at each",
        *(_two_digits(each * ID_INDEX / 1e9) for each in DAYS),
    )
    yield ("reads a second at the peak, if it is not in memory", *(_peak(each) for each in DAYS))
    for name in ("leader", "helper"):
        yield (f"{name}: ids, GB a year", *(f"{each * 365 * ID / 1e9:,.0f}" for each in DAYS))
    yield (
        "leader: a day's reports that wait, GB",
        *(f"{each / 86_400 * BACKLOG_SECONDS * STORED / 1e9:,.0f}" for each in DAYS),
    )
    yield (
        "leader: network at the peak, Mbit/s",
        *(_mega(8 * peak(each) * BODY) for each in DAYS),
    )


def render() -> dict[str, str]:
    """Return the page's tables by name, as Markdown."""
    measured = [
        ("of one report", "µs of a processor"),
        *(
            (name, _micro(seconds))
            for name, seconds in (
                ("leader", MEASURED.leader),
                ("helper", MEASURED.helper),
                ("databases of both", MEASURED.database),
                ("leader, where it is a request", MEASURED.leader_alone),
                ("databases of both, the same", MEASURED.database_alone),
            )
        ),
    ]
    return {"costs": _table(measured), "purchase": _table(list(purchase(MEASURED)))}


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *below = rows
    lines = [head, ["---"] * len(head), *below]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _power(number: int) -> str:
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(round(math.log10(number))))


def _peak(per_day: int) -> str:
    return f"{peak(per_day):,.0f}"


def _rates(per_day: int) -> str:
    return f"{per_day / 86_400:,.0f}, {peak(per_day):,.0f}"


def _mega(per_second: float) -> str:
    return _two_digits(per_second / 1e6)


def _two_digits(number: float) -> str:
    return f"{number:,.0f}" if round(number) >= _TWO_DIGITS else f"{number:,.1f}"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}"


if __name__ == "__main__":
    for name, table in render().items():
        print(f"{name}:\n\n{table}")
