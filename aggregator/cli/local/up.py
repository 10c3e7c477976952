"""`prio up`: runs all three parties on one machine, or makes one party's folder elsewhere.

Imports happen when they are needed, so that help and completion stay fast.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aggregator.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from aggregator.cli.local.folder import LocalFolder


def up(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER|SURVEY.toml]",
            help="The folder with the stores, keys and ports, made if it does not exist; if "
            "not given, prio-up, or prio- and the party. Or a survey to ask there.",
        ),
    ] = None,
    party: Annotated[
        Literal["leader", "helper", "collector"] | None,
        typer.Option(
            help="Only make this party's folder for a deployment, and say what to do next. "
            "Nothing is started, and existing files are kept."
        ),
    ] = None,
    survey: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="SURVEY.toml",
            help="Also ask this survey, as `prio survey new` does; nothing changes if it is "
            "asked already. Repeatable.",
        ),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Also show what the results of each survey that is named will look like, as "
            "`prio survey rehearse` does with made-up answers.",
        ),
    ] = False,
    replaces: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="If a survey that is named has changed since it was asked here, end the former "
            "draft and ask this one at its address. Answers to the former stay behind.",
        ),
    ] = False,
    open_pages: Annotated[
        bool, typer.Option("--open", help="Open the pages in a browser, if there is a desktop.")
    ] = False,
) -> None:
    """Run leader, helper and collector on this machine, until Ctrl-C: to try things out.

    Makes their stores, keys and ports in a folder that only its owner can read, and continues there
    when it is called again. If one operator runs all three, nobody has privacy from that operator.
    If a service dies, its last lines are shown, the others are ended, and the exit status is 1.
    """
    if party is not None:
        if (
            survey
            or open_pages
            or rehearse
            or replaces
            or (folder is not None and folder.suffix == ".toml")
        ):
            raise ParameterError(
                "party: starts nothing, so --survey, --rehearse, --replace and --open do not go "
                "with it"
            )
        _prepare(party, folder or Path(f"prio-{party}"))
        return
    from aggregator.cli.local.folder import DEFAULT, LocalFolder
    from aggregator.cli.local.pages import open_in_browser, page_of_links
    from aggregator.cli.local.services import running

    if folder is not None and folder.suffix == ".toml":
        survey, folder = [folder, *(survey or [])], None
    _check(survey or [], rehearse=rehearse)
    with _owners_alone():
        local = LocalFolder.made(folder or DEFAULT)
        try:
            with local.held() as lock:
                local.check_ports()
                programs = [*local.programs(), local.form_server]
                with running(programs, [lock]) as services:
                    for file in survey or []:
                        _call(local, "new", file, *(["--replace"] if replaces else []))
                        if rehearse:
                            _call(local, "rehearse", file, "--quiet")
                    with page_of_links(local) as page:
                        _say(local, page)
                        if open_pages:
                            open_in_browser(page)
                        services.watch()
        except KeyboardInterrupt:
            print(f"ended; `prio up {_named(local)}` goes on from here", file=sys.stderr)


def _check(surveys: Sequence[Path], *, rehearse: bool) -> None:
    """Refuse files that are not there, or are no surveys, before anything is started."""
    if rehearse and not surveys:
        raise ParameterError("rehearse: name the survey: `prio up survey.toml --rehearse`")
    for file in surveys:
        if not file.exists():
            raise ParameterError(f"survey: there is no file {file}")
        from aggregator.cli.steward.survey_making import survey_in
        from aggregator.service.config import read_text

        survey_in(file, read_text(file))


@contextmanager
def _owners_alone() -> Iterator[None]:
    """Let only the owner read files made in the block, by us and by the programs we start."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _prepare(party: str, folder: Path) -> None:
    """Make one party's folder, and print its operator's next steps."""
    from aggregator.cli.local import party_folder
    from aggregator.cli.local.folder import is_one

    if is_one(folder):
        raise ConfigurationError(
            f"{folder}: holds all three parties' keys (`prio up`): name another folder"
        )
    with _owners_alone():
        made = party_folder.prepare(party, folder)
    file = party_folder.service_file(party, folder)
    for each in made:
        print(f"made {each}")
    if not made:
        print(f"{folder} is complete")
    print(f"Nothing runs yet. Read {file}, and then:")
    for number, step in enumerate(party_folder.next_steps(party, file), 1):
        print(f"{number}. {step}")


def _call(local: "LocalFolder", command: str, survey: Path, *options: str) -> None:
    """Run a command of a survey in its own process: the memory that it takes would not be freed."""
    from aggregator.cli import faults

    prio = [sys.executable, "-P", "-m", "aggregator.cli", "survey", command]
    done = subprocess.run([*prio, survey, "--up", local.path, *options], check=False)  # noqa: S603  our own
    if done.returncode:
        raise SystemExit(done.returncode if done.returncode > 0 else faults.PARTLY)


def _say(local: "LocalFolder", page: str) -> None:
    """Print what is running and what can be done with it."""
    from aggregator.cli.local.folder import WARNING

    lines = [f"The collector: {local.url('collector')}"]
    lines += [
        f"The {party}: {local.url(party)} in tasks; how it is: {local.status_url(party)}"
        for party in ("leader", "helper")
    ]
    lines += [f"The collector's token is in {local.token.absolute()}"]
    for name in local.survey_names:
        keys = local.surveys / name / "issuer.keys"
        lines.append(
            f"{name} is answered in your application, whose server signs permits with {keys}"
            if keys.exists()
            else f"{name} is answered at: {local.form_url(name)}"
        )
        lines += [f"{name} is shown at: {each}" for each in local.chart_urls(local.surveys / name)]
    for place in local.rehearsed:
        lines += [
            f"{place.name}, with made-up answers, is shown at: {each}"
            for each in local.chart_urls(place)
        ]
    if not local.survey_names:
        lines += [f"In another terminal: prio survey new survey.toml --up {_named(local)}"]
    lines += [f"Results are linked from this file, which logs in: {page}"]
    print(*lines, WARNING, "Ctrl-C ends all of it.", sep="\n", flush=True)


def _named(local: "LocalFolder") -> str:
    """Return the folder, quoted for a shell."""
    import shlex

    return shlex.quote(str(local.path))
