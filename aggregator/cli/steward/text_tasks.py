"""`prio text tasks`: makes the tasks of a question, and the description that binds them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import InsecureHttp
from aggregator.entropy import SystemEntropy


def tasks(
    out: Annotated[Path, typer.Option(help="The folder for the files, which must not exist yet.")],
    title: Annotated[str, typer.Option(help="The question, which is part of every hash.")],
    epsilon: Annotated[
        str, typer.Option(help='The epsilon of one person in one window, exact: "1" or "1/2".')
    ],
    people: Annotated[int, typer.Option(min=1, help="How many people are expected to answer.")],
    min_batch_size: Annotated[
        int, typer.Option(help="The fewest reports of one task that are released together.")
    ],
    leader: Annotated[str, typer.Option(help="The leader's URL.")],
    helper: Annotated[str, typer.Option(help="The helper's URL.")],
    collector_config: Annotated[
        str, typer.Option(help="The output of `prio collector config` at the collector.")
    ],
    buckets: Annotated[
        int,
        typer.Option(
            help="How many buckets each task's histogram has; each takes 16 bytes of an upload."
        ),
    ] = 1024,
    count: Annotated[
        int | None,
        typer.Option(
            "--tasks",
            help="How many tasks to make; if not given, as many as `prio plan text` recommends.",
        ),
    ] = None,
    max_reports: Annotated[
        int | None,
        typer.Option(
            help="The most reports of one task in a batch; if not given, twice the "
            "number of people."
        ),
    ] = None,
    privacy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Another setting of each task's privacy table, such as budget=4. Repeatable.",
        ),
    ] = None,
    time_precision: Annotated[
        int, typer.Option(help="Length of a unit of time in seconds.")
    ] = 3600,
    window: Annotated[
        int | None,
        typer.Option(
            help="How many units of time a batch has. If not given, a person answers only once."
        ),
    ] = None,
    window_start: Annotated[
        str | None,
        typer.Option(help="When one of the windows begins: ISO 8601 or seconds since 1970."),
    ] = None,
    insecure_http: InsecureHttp = False,
) -> None:
    """Make the tasks of a text question, and one file with secrets for each party.

    Hand leader.toml, helper.toml and collector.toml to the parties they are named after: each adds
    all tasks with one `prio task add`. Clients need text.json and tasks.toml, which are public;
    pages need text.json and tasks.json.
    """
    from aggregator.cli.service.task_making import (
        assignment,
        collector_config_of,
        make_task,
        window_of,
        write_folder,
    )
    from aggregator.cli.steward.text_files import public_files
    from aggregator.client.text import DESCRIPTION, TASKS, TASKS_OF_PAGES
    from aggregator.client.text.question import TextQuestion
    from aggregator.dp.decimals import rational_in
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.provisioning import provision_all
    from aggregator.steward.text import GUESSED_STRINGS
    from aggregator.steward.text.plan import best_plan, zipf

    exact_epsilon = rational_in(epsilon, "epsilon", 0, 64, open_low=True)
    if count is None:
        count = best_plan(zipf(people, GUESSED_STRINGS), float(exact_epsilon), buckets).tasks
    question = TextQuestion(title, exact_epsilon, count, buckets)
    settings = dict(assignment(text) for text in privacy or [])
    settings |= window_of(window, window_start, time_precision)
    made = [
        make_task(
            collector_config_of(collector_config),
            {"type": "Prio3Histogram", "length": buckets},
            {"mechanism": "PureDpDiscreteLaplace"}
            | settings
            | {"epsilon": epsilon}
            | question.group(place).settings(),
            leader=leader,
            helper=helper,
            time_precision=time_precision,
            min_batch_size=min_batch_size,
            max_reports=2 * people if max_reports is None else max_reports,
            task_info=question.info(place),
        )
        for place in range(count)
    ]
    check_endpoints(made[0], insecure_http=insecure_http)
    question.check(made)
    write_folder(out, public_files(question, made), provision_all(made, SystemEntropy()))
    print(f"{count} tasks of {buckets} buckets, meaning {question.meaning.hex()}")
    print(
        f"wrote {DESCRIPTION}, {TASKS} and {TASKS_OF_PAGES} (public), and leader.toml, "
        f"helper.toml, collector.toml (secret) to {out}",
        file=sys.stderr,
    )
    if not made[0].policy.has_limit:
        print(
            "warning: the tasks have neither a budget nor max_releases, so no aggregator ever "
            "refuses another release; --privacy budget=… or --privacy max_releases=… sets a limit",
            file=sys.stderr,
        )
