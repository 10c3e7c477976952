"""Options that few people need: help shows them only with `--help-all`."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

_ANYWHERE: Final = frozenset(
    {
        "chunk_length",
        "decimal_mark",
        "delimiter",
        "environment_proxy",
        "insecure_http",
        "missing",
        "per_request",
        "state",
        "time_format",
    }
)
_REQUIREMENTS: Final = frozenset(
    {
        *("exact_results", "limit_required", "max_delta", "max_epsilon", "max_rho"),
        *("min_batch_size", "population_required"),
    }
)
_CIRCUIT: Final = frozenset({"length", "max_measurement", "max_value", "max_weight"})

_OF: Final[Mapping[str, frozenset[str]]] = {
    "audit pair": frozenset(
        {
            "false_alarm",
            "length",
            "mechanism",
            "min_batch_size",
            "reports",
            "time_precision",
            "timeout",
            "windows",
        }
    ),
    "audit self-test": _CIRCUIT | {"processes"},
    "plan advise": _CIRCUIT
    | {"max_reports_per_person", "population", "time_precision", "with_threshold"},
    "plan budget": _CIRCUIT,
    "plan compose": _CIRCUIT | {"max_reports_per_person", "which", "release_delta"},
    "plan error": _CIRCUIT | {"confidence", "max_reports_per_person"},
    "plan risk": _CIRCUIT | {"k", "published"},
    "survey new": frozenset({"profile"}),
    "survey upload": _REQUIREMENTS,
    "task new": frozenset(
        {
            "batch_mode",
            "duration",
            "in_band",
            "info",
            "privacy_file",
            "profile",
            "start",
            "time_precision",
            "window_start",
        }
    ),
    "upload": _REQUIREMENTS,
}
"""The advanced options of each command, by the names that lead to it."""


def folded(command: Any, path: str) -> Any:  # noqa: ANN401  # typer does not export its commands' type
    """Return a command whose `--help` leaves out its advanced options, and fills its lines."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    names = _ANYWHERE | _OF.get(path, frozenset())
    advanced = [each for each in command.params if each.name in names]
    for each in advanced:
        each.hidden = True
    if command.add_help_option:
        command.params.append(help_all(advanced, "options"))
    return command


def help_all(hidden: list[Any], what: str) -> Any:  # noqa: ANN401  # an option
    """Return the option `--help-all`, for `what` help leaves out.

    Where it leaves nothing out, the option is the same as `--help`, and is not shown.
    """
    shown_help = f"Show this message with all {what}, and exit."

    def show(ctx: typer.Context, is_asked: bool) -> None:
        if is_asked and not ctx.resilient_parsing:
            for each in hidden:
                each.hidden = False
            print(ctx.get_help())
            ctx.exit()

    made = typer.Typer(add_completion=False)

    @made.command()
    def _only_for_its_option(
        help_all: Annotated[
            bool,
            typer.Option(
                "--help-all", is_eager=True, callback=show, help=shown_help, hidden=not hidden
            ),
        ] = False,
    ) -> None:
        pass

    (option,) = [each for each in get_command(made).params if each.name == "help_all"]
    option.expose_value = False
    return option
