"""`prio bench`: how fast this machine is, against other software in the same run."""

import importlib
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from aggregator.dp.budget import format_rational, parse_rational
from aggregator.dp.samplers import DiscreteLaplace
from aggregator.entropy import SystemEntropy

app = typer.Typer(no_args_is_help=True, help="Measure this machine.")

_ROUNDS = 5
_LARGEST_RIVAL_COUNT = 100_000


@app.callback()
def bench() -> None:
    """Measure this machine."""


@app.command()
def noise(
    scale: Annotated[
        list[str] | None, typer.Option(help="Scales of discrete Laplace noise, 4 and 25500.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Draws a round.")] = 1_000_000,
) -> None:
    """Time exact discrete Laplace draws against OpenDP's, if that is installed.

    Both are processor time. Ours is the fastest of five rounds; OpenDP, whose time a draw does not
    change with their number, gets two rounds of at most 100,000.
    """
    scales = [parse_rational(text, "scale") for text in scale or ("4", "25500")]
    table = Table("t", "ns a draw", "OpenDP, ns a draw", "times as fast")
    for t in scales:
        ours = _own(t, count)
        rival = _opendp(t, min(count, _LARGEST_RIVAL_COUNT))
        table.add_row(
            format_rational(t),
            f"{ours:.1f}",
            "not installed" if rival is None else f"{rival:.0f}",
            "" if rival is None else f"{rival / ours:.0f}",
        )
    Console().print(table)


@app.command("all")
def everything() -> None:
    """Run every measurement with its defaults."""
    noise(scale=None, count=1_000_000)


def fastest(work: Callable[[], object], rounds: int = _ROUNDS) -> int:
    """Return the nanoseconds of the fastest of several rounds, after one that is not counted.

    They are the processor's, so what else the machine does counts little.
    """
    work()
    times = []
    for _ in range(rounds):
        begin = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - begin)
    return min(times)


def _own(scale: Fraction, count: int) -> float:
    """Return our nanoseconds a draw, each round a release with a key of its own."""
    sampler, entropy = DiscreteLaplace(scale), SystemEntropy()
    return fastest(lambda: sampler.sample(count, entropy)) / count


def _opendp(scale: Fraction, count: int) -> float | None:
    """Return OpenDP's nanoseconds a draw, or None if it is not installed."""
    try:
        opendp = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T=int))
    mechanism: Callable[[Sequence[int]], object] = opendp.m.make_laplace(
        domain, opendp.l1_distance(T=int), scale=float(scale)
    )
    zeros = [0] * count
    return fastest(lambda: mechanism(zeros), rounds=2) / count
