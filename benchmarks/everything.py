"""`prio bench all`: everything beside its baseline, as tables of ratios."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from rich.console import Console
from rich.table import Table

from aggregator.cli.spinner import spinning
from aggregator.vdaf.instances import COUNT, HISTOGRAM, MULTIHOT_COUNT_VEC, SUM, SUM_VEC
from aggregator.vdaf.ping_pong import HELPER_ID, LEADER_ID
from benchmarks.circuits import Case, case
from benchmarks.end_to_end import time_end_to_end
from benchmarks.fields import time_field
from benchmarks.noise import time_noise
from benchmarks.vdaf import (
    speedup_of_halves,
    speedup_of_machine,
    speedup_of_threads,
    time_shard,
    time_steps,
    time_verify,
    working_bytes,
)
from field import FIELD64, FIELD128
from field.lanes import lanes

_MEBIBYTE = 2**20


def bench_all(reports: int, rounds: int) -> None:
    """Measure everything, and print each table as soon as it is ready."""
    console = Console()
    console.print(
        f"{lanes()} lanes; batches of {reports:,}; processor time, medians of {rounds} rounds; of "
        f"threads the wall clock, the least of {3 * rounds}"
    )
    tables: Mapping[str, Callable[[], Table]] = {
        "end to end": lambda: _end_to_end(reports, rounds),
        "verification": lambda: _verification(reports, rounds),
        "its steps": lambda: _steps(reports, rounds),
        "sharding": lambda: _sharding(reports, rounds),
        "threads and memory": lambda: _threads_and_memory(reports, rounds),
        "noise": lambda: _noise(rounds),
        "fields": lambda: _fields(rounds),
    }
    for number, (name, measure) in enumerate(tables.items(), 1):
        with spinning(f"measuring {name} ({number} of {len(tables)})"):
            table = measure()
        console.print(table)


def cases() -> Iterator[Case]:
    """Yield what is measured."""
    yield case(COUNT)
    yield case(SUM, max_measurement=255)
    yield case(SUM, max_measurement=2**32 - 1)
    yield case(HISTOGRAM, length=100, chunk_length=10)
    yield case(HISTOGRAM, length=1000, chunk_length=32)
    yield case(SUM_VEC, length=100, max_measurement=255, chunk_length=28)
    yield case(MULTIHOT_COUNT_VEC, length=100, max_weight=10, chunk_length=10)


def _end_to_end(reports: int, rounds: int) -> Table:
    table = _table("a report's whole cost, both aggregators", "us", "%")
    times = time_end_to_end(reports, rounds)
    for name in ("total", "hpke", "handling", "kernels"):
        value = getattr(times, name)
        table.add_row(name, f"{value:.1f}", f"{100 * value / times.total:.0f}")
    return table


def _verification(reports: int, rounds: int) -> Table:
    table = _table(
        "verify_init",
        "us per report",
        "reports/s",
        "x Keccak permutations",
        "XOF, %",
        "from byte strings, us per report",
    )
    for made in cases():
        for agg_id, role in ((LEADER_ID, "leader"), (HELPER_ID, "helper")):
            times = time_verify(made, agg_id, reports, rounds)
            table.add_row(
                f"{made.name}, {role}",
                f"{times.init:.2f}",
                f"{1e6 / times.init:,.0f}",
                f"{times.init / times.permutations:.2f}",
                f"{100 * times.hashing / times.init:.0f}",
                f"{times.from_strings:.2f}",
            )
    return table


def _steps(reports: int, rounds: int) -> Table:
    table = _table(
        "steps",
        "leader's init over helper's",
        "general path over helper's init",
        "after init, us per report",
        "after init over helper's init, %",
    )
    for made in cases():
        times = time_steps(made, reports, rounds)
        table.add_row(
            made.name,
            f"{times.leader / times.helper:.2f}",
            f"{times.general / times.helper:.1f}",
            f"{times.rest:.2f}",
            f"{100 * times.rest / times.helper:.0f}",
        )
    return table


def _sharding(reports: int, rounds: int) -> Table:
    table = _table("shard", "us per report", "one alone, us", "one alone over one of a batch")
    for made in cases():
        times = time_shard(made, reports, rounds)
        table.add_row(
            made.name,
            f"{times.batch:.1f}",
            f"{times.single:.0f}",
            f"{times.single / times.batch:.1f}",
        )
    return table


def _threads_and_memory(reports: int, rounds: int) -> Table:
    table = _table(
        f"verify_init, batches of {3 * reports:,}",
        "two threads over one, one batch each",
        "two threads over one, half a batch each",
        "working memory, MiB",
    )
    table.add_row("permutations alone", f"{speedup_of_machine(2, 3 * rounds):.2f}", "", "")
    for made in cases():
        for agg_id, role in ((LEADER_ID, "leader"), (HELPER_ID, "helper")):
            table.add_row(
                f"{made.name}, {role}",
                f"{speedup_of_threads(made, agg_id, 3 * reports, 2, 3 * rounds):.2f}",
                f"{speedup_of_halves(made, agg_id, 3 * reports, 3 * rounds):.2f}",
                f"{working_bytes(made, agg_id, 3 * reports) / _MEBIBYTE:.1f}",
            )
    return table


def _noise(rounds: int) -> Table:
    table = _table("discrete Laplace, t", "ns per draw", "OpenDP, ns per draw", "times as fast")
    for scale in (Fraction(4), Fraction(25_500)):
        times = time_noise(scale, 1_000_000, rounds)
        table.add_row(
            str(times.scale),
            f"{times.ours:.1f}",
            "not installed" if times.rival is None else f"{times.rival:,.0f}",
            "" if times.ratio is None else f"{times.ratio:.0f}",
        )
    return table


def _fields(rounds: int) -> Table:
    table = _table("field", "ns per element", "Python integers, ns", "times as fast")
    for field in (FIELD64, FIELD128):
        for times in time_field(field, 2**16, rounds):
            table.add_row(
                f"{field}, {times.operation}",
                f"{times.ours:.2f}",
                f"{times.python:.0f}",
                f"{times.ratio:.0f}",
            )
    return table


def _table(what: str, *columns: str) -> Table:
    table = Table(what, *columns)
    for column in table.columns[1:]:
        column.justify = "right"
    return table
