"""Asks a changed survey in place of its former draft, at the same address, on one machine.

The new draft is tried first, and a party that refuses it leaves the former one as it is.

next/NAME/          the new draft, until all parties have taken it
replaced/NAME-1/    a former draft: its public files, and each party's
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from aggregator.cli.local.folder import LocalFolder, public_in
from aggregator.cli.local.tasks import ids_in, undo, withdraw
from aggregator.cli.service.parties import open_aggregator
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.clear_text import is_loopback
from aggregator.service.config import read_text
from aggregator.service.storage.reports.counters import STORED, Stage, report_counts
from aggregator.steward.survey.beside import SURVEY_FILE
from aggregator.written_times import counted


def drafts_before(folder: LocalFolder, name: str) -> int:
    """Return how many drafts of a survey were replaced, given the name of its folder."""
    # A survey's name may be another's with a word more, such as visits-2.
    aside = [each.name.removeprefix(f"{name}-") for each in folder.replaced.glob(f"{name}-*")]
    return sum(each.isdecimal() for each in aside)


def go_on(folder: LocalFolder, place: Path) -> None:
    """Complete or undo what was interrupted while a survey was replaced, if anything was."""
    tried = folder.next / place.name
    if not tried.exists():
        return
    if place.exists():
        undo(folder, tried)
    else:  # all parties have taken it, and the former has ended
        tried.rename(place)


def begin(folder: LocalFolder, place: Path, title: str, agrees: Callable[[str], bool]) -> Path:
    """Return the folder in which to try a new draft of the survey in a folder.

    If somebody at another machine may have answered, `agrees` is asked whether to leave their
    answers behind. Raises `ParameterError` if not, or if the survey has another title.
    """
    former = tomllib.loads(read_text(place / SURVEY_FILE)).get("title")
    if former != title:
        raise ParameterError(
            f"replace: {place} has another survey, {former!r}, whose title begins like that of "
            "this one: give this one another title"
        )
    count, given = _answers(folder, place)
    if (
        count
        and _is_open(folder)
        and not agrees(
            f"{given} came by an address that other machines may reach. Leave them behind?"
        )
    ):
        raise ParameterError(f"replace: {place} has {given}, so it stays as it is")
    return folder.next / place.name


def end(folder: LocalFolder, tried: Path, place: Path) -> str:
    """End the former draft, and put the one that all parties have taken in its place.

    Returns what was left behind, in words.
    """
    withdraw(folder, place, results_too=False)
    _, given = _answers(folder, place)
    folder.replaced.mkdir(exist_ok=True)
    aside = folder.replaced / f"{place.name}-{1 + drafts_before(folder, place.name)}"
    place.rename(aside)
    tried.rename(place)
    return f"the former draft has ended, with {given}; it is {public_in(aside)} now"


def _answers(folder: LocalFolder, place: Path) -> tuple[int, str]:
    """Return how many people have answered, as far as the leader knows, and the same in words."""
    ids = ids_in(place, Role.LEADER)
    with open_aggregator(folder.config("leader")) as party:
        counts = party.database.read_sync(
            "count reports",
            lambda tx: [report_counts(tx, each, Stage.UPLOAD).get(STORED, 0) for each in ids],
        )
    # People are in one task of a text question, and always in that of all other questions.
    count = counts[0] if public_in(place).name == "task.toml" else sum(counts)
    return count, counted(count, "answer")


def _is_open(folder: LocalFolder) -> bool:
    """Return whether an aggregator may be reached from another machine."""
    hosts = [urlsplit(folder.url(party)).hostname or "" for party in ("leader", "helper")]
    return not all(map(is_loopback, hosts))
