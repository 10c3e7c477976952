"""`prio bench`: how fast this machine is, beside other implementations in the same run."""

import dataclasses
import json
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from aggregator.cli.spinner import spinning
from aggregator.cli.types import Circuit, Parameters, takes_parameters, type_of
from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.vdaf.ping_pong import HELPER_ID, LEADER_ID
from benchmarks.circuits import case, random_reports
from benchmarks.end_to_end import time_end_to_end
from benchmarks.everything import bench_all
from benchmarks.fields import time_field
from benchmarks.noise import time_noise
from benchmarks.survey import time_survey
from benchmarks.vdaf import time_shard, time_verify
from field import FIELD64, FIELD128
from field.lanes import lanes

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # as in the command line that this is part of
    help="Measure this machine.",
)


class RoleName(StrEnum):
    """Which aggregator."""

    LEADER = "leader"
    HELPER = "helper"

    @property
    def agg_id(self) -> int:
        """The aggregator's number."""
        return LEADER_ID if self is RoleName.LEADER else HELPER_ID


Count = Annotated[int, typer.Option(min=1, help="Reports per batch.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Role = Annotated[RoleName, typer.Option(help="Which aggregator.")]


@app.callback()
def bench() -> None:
    """Measure this machine.

    Times are medians of one thread's processor time; what is compared takes turns in one run.
    """


@app.command()
@takes_parameters
def verify(
    circuit: Circuit,
    parameters: Parameters,
    reports: Count = 1000,
    role: Role = RoleName.HELPER,
    rounds: Rounds = 15,
    as_json: AsJson = False,
) -> None:
    """Time `verify_init`, and how much of it is hashing.

    `microseconds_per_report` is from arrays to arrays; `microseconds_per_report_from_strings` is
    from lists of byte strings, which are first joined to arrays, to lists of byte strings.
    `xof_fraction` is the share of the XOF alone, absorbing and squeezing as much as this role and
    type need.
    """
    made = case(type_of(circuit), **parameters)
    with spinning("measuring"):
        times = time_verify(made, role.agg_id, reports, rounds)
    _print(
        {
            "microseconds_per_report": times.init,
            "reports_per_second_per_core": 1e6 / times.init,
            "lanes": lanes(),
            "xof_fraction": times.hashing / times.init,
            "microseconds_per_report_from_strings": times.from_strings,
        },
        as_json,
    )


@app.command()
@takes_parameters
def shard(
    circuit: Circuit,
    parameters: Parameters,
    reports: Count = 1000,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time what a client does with measurements: many at once, and one alone."""
    made = case(type_of(circuit), **parameters)
    with spinning("measuring"):
        times = time_shard(made, reports, rounds)
    _print(
        {
            "microseconds_per_report": times.batch,
            "reports_per_second_per_core": 1e6 / times.batch,
            "microseconds_for_one": times.single,
            "lanes": lanes(),
        },
        as_json,
    )


@app.command()
def report(reports: Count = 1000, rounds: Rounds = 9, as_json: AsJson = False) -> None:
    """Time all that a report costs both aggregators, without HTTP and the store.

    A histogram of 100 buckets; microseconds of processor time per report. `hpke` and `kernels` are
    measured by themselves, `handling` is what is left of the total.
    """
    with spinning("measuring"):
        times = time_end_to_end(reports, rounds)
    names = ("total", "hpke", "handling", "kernels")
    _print({name: getattr(times, name) for name in names}, as_json)


@app.command()
def survey(reports: Count = 1000, rounds: Rounds = 5, as_json: AsJson = False) -> None:
    """Time what an answered survey costs an application, beside reports made of entries.

    Microseconds of processor time per report, of `put` in one thread and of 64 threads that put;
    `put_wall` is by the wall clock, until the disk has the report.
    """
    with spinning("measuring"):
        times = time_survey(reports, rounds)
    _print(dataclasses.asdict(times), as_json)


@app.command()
def noise(
    scale: Annotated[
        list[str] | None, typer.Option(help="Scales of discrete Laplace noise, 4 and 25500.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Draws per round.")] = 1_000_000,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time exact discrete Laplace draws against OpenDP's, if that is installed.

    OpenDP's time per draw does not depend on their number, so it makes at most 20,000 per round.
    The ratio says how many times as long it takes.
    """
    scales = [parse_rational(text, "scale") for text in scale or ("4", "25500")]
    with spinning("measuring"):
        found = [time_noise(t, count, rounds) for t in scales]
    if as_json:
        rows = [
            {
                "scale": format_rational(times.scale),
                "nanoseconds_per_draw": times.ours,
                "opendp_nanoseconds_per_draw": times.rival,
                "ratio": times.ratio,
            }
            for times in found
        ]
        print(json.dumps(rows))
        return
    table = Table("t", "ns per draw", "OpenDP, ns per draw", "times as fast")
    for times in found:
        table.add_row(
            format_rational(times.scale),
            f"{times.ours:.1f}",
            "not installed" if times.rival is None else f"{times.rival:.0f}",
            "" if times.ratio is None else f"{times.ratio:.0f}",
        )
    Console().print(table)


@app.command()
def field(
    length: Annotated[int, typer.Option(min=1, help="Elements per round.")] = 2**16,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time arithmetic of both fields against Python's integers."""
    with spinning("measuring"):
        found = {str(each): time_field(each, length, rounds) for each in (FIELD64, FIELD128)}
    if as_json:
        rows = [
            {
                "field": name,
                "operation": times.operation,
                "nanoseconds_per_element": times.ours,
                "python_nanoseconds_per_element": times.python,
                "ratio": times.ratio,
            }
            for name, all_times in found.items()
            for times in all_times
        ]
        print(json.dumps(rows))
        return
    table = Table("field", "operation", "ns per element", "Python, ns", "times as fast")
    for name, all_times in found.items():
        for times in all_times:
            table.add_row(
                name,
                times.operation,
                f"{times.ours:.2f}",
                f"{times.python:.0f}",
                f"{times.ratio:.0f}",
            )
    Console().print(table)


@app.command()
@takes_parameters
def first(
    circuit: Circuit,
    parameters: Parameters,
    role: Role = RoleName.HELPER,
    as_json: AsJson = False,
) -> None:
    """Time the first `verify_init` of this process: it loads kernels or compiles them.

    It prints wall-clock and processor time, which are the same on an idle machine. With
    `NUMBA_CACHE_DIR` set to an empty folder it compiles; when repeated it loads. Twenty reports of
    random bytes fill all lanes in some steps and not in others.
    """
    made = case(type_of(circuit), **parameters)
    batch = random_reports(made, 20)
    begin, begin_of_work = time.perf_counter(), time.process_time()
    batch.verify_init(role.agg_id)
    end, end_of_work = time.perf_counter(), time.process_time()
    times = {"seconds": end - begin, "processor_seconds": end_of_work - begin_of_work}
    _print(times, as_json)


@app.command("all")
def everything(reports: Count = 1000, rounds: Rounds = 7) -> None:
    """Run every measurement beside its baseline and print the ratios."""
    bench_all(reports, rounds)


def _print(values: Mapping[str, float], as_json: bool) -> None:
    """Print measured values as one JSON object, or one per line."""
    if as_json:
        print(json.dumps(values))
        return
    for name, value in values.items():
        print(f"{name}: {value:,.4g}")
