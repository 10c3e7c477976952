"""The `prio` command: the composition root, which builds every party out of its parts."""

import typer

import aggregator
from aggregator.cli import (
    audit,
    bench,
    collector,
    demo,
    faults,
    ledger,
    measure,
    noise,
    plan,
    serve,
    tasks,
    vdaf,
    warm,
)
from aggregator.cli.decode import decode_file
from aggregator.cli.options import TaskCommand
from aggregator.telemetry.logs import LogFormat, configure_logs

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its frames show local variables, which may be secret
    help="Statistics about people, without anybody's data.",
)
app.add_typer(serve.leader, name="leader")
app.add_typer(serve.helper, name="helper")
app.add_typer(collector.app, name="collector")
app.add_typer(tasks.app, name="task")
app.command("upload")(measure.upload)
app.command("collect", cls=TaskCommand)(measure.collect)
app.command("ledger")(ledger.ledger)
app.add_typer(plan.app, name="plan")
app.add_typer(audit.app, name="audit")
app.add_typer(vdaf.app, name="vdaf")
app.command("decode")(decode_file)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")
app.command("noise")(noise.noise)
app.command("warm")(warm.warm)


@app.command()
def version() -> None:
    """Print the version and the drafts that the wire formats follow."""
    print(f"prio-aggregator {aggregator.__version__}")
    print(f"{aggregator.DAP_DRAFT}, {aggregator.VDAF_DRAFT}")


def main() -> None:
    """Run the command line."""
    configure_logs(LogFormat.CONSOLE, "warning")  # a service sets its own
    with faults.reported():
        app()
