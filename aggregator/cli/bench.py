"""`prio bench`: runs the benchmarks, which a source checkout has and the wheel does not."""

import importlib
import importlib.util

import typer

from aggregator.errors import ConfigurationError


def bench(ctx: typer.Context) -> None:
    """Measure this machine, in a source checkout."""
    if importlib.util.find_spec("benchmarks") is None:
        raise ConfigurationError(
            "the benchmarks come with the source, not with the installed package: clone the "
            "repository and run `make bench` there"
        )
    from field.lanes import compile_here

    compile_here()
    app: typer.Typer = importlib.import_module("benchmarks.cli").app
    app(ctx.args, prog_name="prio bench")
