"""The `prio` command: the composition root, which builds every party from its parts."""

from aggregator.cli.garbage import collect_rarely
from aggregator.cli.process import ends_at_once


def main() -> None:
    """Run the command line."""
    collect_rarely()
    with ends_at_once():
        from aggregator.cli.program import run

    run()
