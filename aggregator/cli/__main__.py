"""`python -m aggregator.cli`: the `prio` command."""

from aggregator.cli import main

main()
