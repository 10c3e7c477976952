"""`prio plan advise`: from a question to the privacy section of a task."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.plan_options import Json, MaxReportsPerPerson, print_answer
from aggregator.cli.types import CIRCUITS, Mechanism, Parameters, takes_parameters, type_of
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError


@takes_parameters
def advise(
    reports: Annotated[int, typer.Option(help="How many reports one release has.")],
    parameters: Parameters,
    buckets: Annotated[
        int | None,
        typer.Option(help="How many answers there are to choose from; 1 or 2 is a count."),
    ] = None,
    circuit: Annotated[
        str | None, typer.Option(help=f"Instead of buckets: a type of measurement: {CIRCUITS}.")
    ] = None,
    mechanism: Mechanism = PureDpDiscreteLaplace.name,
    error: Annotated[
        str | None,
        typer.Option(
            help="The wanted 95 % half-width of one sum, or as a part of the largest sum: 5%."
        ),
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The wanted epsilon of one release.")] = None,
    rho: Annotated[str | None, typer.Option(help="The wanted rho of one release.")] = None,
    releases: Annotated[int, typer.Option(help="How many releases there are in a year.")] = 12,
    max_reports_per_person: MaxReportsPerPerson = 1,
    delta: Annotated[
        str, typer.Option(help="The delta of the yearly total, which includes the mechanism's own.")
    ] = "1e-6",
    time_precision: Annotated[
        int,
        typer.Option(
            help="Length in seconds of the task's unit of time, in which windows are given."
        ),
    ] = 3600,
    population: Annotated[
        str, typer.Option(help="The population: a name for the people who are asked.")
    ] = "",
    with_threshold: Annotated[
        bool, typer.Option("--with-threshold", help="Hide buckets at or below the threshold.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="File for the task's privacy section.")] = None,
    json: Json = False,
) -> None:
    """From a question to a privacy section, with three sentences for a board."""
    from aggregator.collector.results.whole_files import written_whole
    from aggregator.steward.planning import answers
    from aggregator.steward.planning.advise import advise as advice_for
    from aggregator.steward.planning.question import Question

    with reported():
        if (buckets is None) == (circuit is None):
            raise ParameterError("give either buckets or a circuit")
        if circuit is None and parameters:
            raise ParameterError(f"{min(parameters)}: is for a circuit; buckets are all there is")
        question = Question.of(
            reports,
            type_of(circuit).prio3(parameters).circuit if circuit else buckets or 0,
            error=error,
            epsilon=epsilon,
            rho=rho,
            mechanism=mechanism,
            releases=releases,
            max_reports_per_person=max_reports_per_person,
            delta=delta,
            time_precision=time_precision,
        )
        found = advice_for(question, population, with_threshold=with_threshold)
        section = answers.privacy_section(found)
        if out is not None:
            with written_whole(out) as stream:
                stream.write(section.encode())
        answer = answers.advice(found)
        if json:
            print_answer(answer, json=True)
        else:
            del answer["privacy"]
            print_answer(answer, json=False)
            print(f"\n{section}", end="")
