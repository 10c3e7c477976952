"""`prio text`: what people write, without a list of answers."""

import typer

from aggregator.cli.steward.survey_spell import spell
from aggregator.cli.steward.text_collect import collect
from aggregator.cli.steward.text_results import results
from aggregator.cli.steward.text_tasks import tasks

app = typer.Typer(
    no_args_is_help=True,
    help="Ask what people write: make tasks, upload answers, collect, name strings.",
)
app.command(
    epilog="Example: prio text tasks --title 'A word' --epsilon 1 --people 100000 "
    "--min-batch-size 1000 --leader https://… --helper https://… --collector-config … --out made"
)(tasks)
app.command(
    epilog="Example: prio text collect made --config collector.toml --window 2026-11-02 "
    "--out released.json"
)(collect)
app.command(epilog="Example: prio text results made words.txt --results released.json")(results)
app.command(epilog="Example: prio text spell made --found words.json --out spelled")(spell)
