"""`prio survey invite`: a personal link for each person, and the list that aggregators count by."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import Up
from aggregator.cli.steward.link_folder import CARDS, LIST, SHUFFLE
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, answerable
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aggregator.cli.local.folder import LocalFolder
    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.protocol.task import Task
    from aggregator.steward.survey.invitations import Windows
    from aggregator.steward.survey.qr_codes import Printed

_WHO_MAKES = (
    "Whoever has the links can use those that nobody else uses, and can see, together with an "
    "aggregator, who took part and when; not what they said. So neither aggregator's operator "
    "should make them, and best not the collector's. In order of preference: cards drawn from a "
    "box (--cards); a third party that mails, such as a works council; the steward."
)
_DANGER = (
    "the most dangerous files of a survey: whoever reads them can answer first, in anybody's "
    "place. Keep them off shared disks, never where a web server finds them, and delete links*.csv "
    "when the links are sent: the key makes them again"
)


def invite(
    file: MaybeTaskFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for links, key and list: a new one, unless links are made again."
        ),
    ] = None,
    people: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table with a row for each person: its columns are in links.csv, for a mail "
            "merge. A column windows, such as 2026-11-02..2026-11-30, invites a person for some "
            "windows only.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many links, of no names.")] = None,
    cards: Annotated[
        bool,
        typer.Option(
            "--cards", help="Make cards to print and draw from a box: nobody keeps whose they are."
        ),
    ] = False,
    page: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address of the survey's page; if not given, where the `prio up` serves it.",
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A time in the first window for which links count; now, if not given.",
        ),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(min=1, help="In how many windows each counts; all, if not given."),
    ] = None,
    more: Annotated[
        bool, typer.Option("--more", help="Invite more people, in a folder that has links.")
    ] = False,
    again: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Print this person's link once more: it was lost."),
    ] = None,
    replace: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Print another link for this person, and write what both aggregators replace: "
            "the former one leaked.",
        ),
    ] = None,
    no_aggregator: Annotated[
        bool,
        typer.Option(
            "--i-run-no-aggregator",
            help="Affirm it: for a task without noise nobody else may make links.",
        ),
    ] = False,
    up: Up = None,
) -> None:
    """Make personal links, and the list by which both aggregators count one answer of each.

    Both operators add permits.list with `prio permits add`; it admits nobody. A folder that has
    links and is given alone, with the task of a changed survey, gets the list of that one: the
    links stay. Send reminders to everybody: who has not answered yet is known to nobody.
    """
    from aggregator.cli.local.folder import public_file
    from aggregator.cli.steward import link_folder
    from aggregator.steward.survey.invitations import domains_of

    public, folder = public_file(file, up)
    asked, tasks = _tasks_in(public)
    domains_of(tasks)  # refuses a survey that counts no links
    if out is None:
        raise ParameterError("out: missing")
    if not tasks[0].policy.mechanism.is_noisy and not no_aggregator:
        raise ParameterError(
            "i-run-no-aggregator: the task has no noise, and an aggregator's operator who makes "
            "the links can fill a batch with answers of their own and read a single one off its "
            "exact sum: let somebody else make them, who affirms this"
        )
    invites = people is not None or count is not None
    one = again is not None or replace is not None
    _check(
        {
            "again, replace: each stands alone, with --out": one
            and (invites or cards or more or (again is not None and replace is not None)),
            "people: goes with neither --count nor --cards": people is not None
            and (count is not None or cards),
            "cards: need --count and a folder of their own, since nobody keeps their key": cards
            and (count is None or more),
            "more: needs --people or --count": more and not invites,
        }
    )
    if again is not None:
        print(link_folder.kept(out).link(again))
    elif replace is not None:
        link_folder.replace(out, tasks, replace)
    elif not invites:
        link_folder.list_again(out, tasks)
    else:
        every = _windows(tasks[0], first, windows)
        rows, invited = _people(people, count or 0, tasks[0], every)
        if more:
            kept = link_folder.kept(out)
            _check({"page: the links have another one": page not in (None, kept.page)})
            link_folder.write(out, kept.of(tasks, invited), tasks, rows)
        elif cards:
            address = _page(page, folder, public)
            link_folder.write_cards(out, _on_cards(public, asked, tasks), tasks, address, invited)
        else:
            link_folder.begin(out, tasks, _page(page, folder, public), invited, rows)
        _say_next(out, folder, is_named=not cards)


def _check(faults: "Mapping[str, bool]") -> None:
    """Refuse options of which a fault is true."""
    for said, is_true in faults.items():
        if is_true:
            raise ParameterError(said)


def _tasks_in(file: Path) -> "tuple[AskedSurvey | None, list[Task]]":
    """Return a survey and all its tasks, or the tasks of a file without a survey."""
    from aggregator.cli.files import read_tasks
    from aggregator.client.text import SURVEY

    if file.name != SURVEY:
        tasks = read_tasks(file)
        if not any(task.meaning for task in tasks):
            return None, tasks
    asked, _ = answerable(file)
    return asked, asked.tasks


def _on_cards(
    public: Path, asked: "AskedSurvey | None", tasks: "Sequence[Task]"
) -> "list[Printed]":
    from aggregator.cli.steward.survey_form import wording_beside
    from aggregator.steward.survey import Meaning
    from aggregator.steward.survey.qr_codes import in_each_language
    from aggregator.steward.survey.wording import Wording

    wording = None if asked is None else wording_beside(public, asked)
    title = tasks[0].title if asked is None else Meaning.from_json(asked.meaning).title
    return in_each_language(wording or Wording(), title, "card", "scan")


def _windows(task: "Task", first: str | None, count: int | None) -> "Windows":
    """Return the windows for which links count, by number."""
    from aggregator.steward.survey.invited_people import windows_between
    from aggregator.written_times import IN_UTC

    if task.policy.window is None:
        if first is not None or count is not None:
            raise ParameterError("windows: the task has none")
        return 0, 0
    start = SystemClock().now() if first is None else IN_UTC.read(first, "first")
    start = max(start, task.opens)
    length = task.policy.window.length * task.time_precision
    if task.closes is None:
        if count is None:
            raise ParameterError("windows: missing, since the task has no end")
        end = start + count * length
    else:
        end = task.closes
    if start >= end:
        raise ParameterError("first: the survey is over by then")
    begin, last = windows_between(task, start, end)
    return begin, last if count is None else min(last, begin + count - 1)


def _people(
    people: Path | None, count: int, task: "Task", every: "Windows"
) -> "tuple[list[dict[str, str]], list[Windows]]":
    from aggregator.cli.client.table_options import TableOptions
    from aggregator.cli.files import named
    from aggregator.steward.survey.invited_people import people_in, repeated
    from aggregator.written_times import counted

    if people is None:
        return [{} for _ in range(count)], [every] * count
    table = TableOptions(None, None, None, ".").table_at(people)
    with named(people):
        rows, invited = people_in(table, task, every)
    if same := repeated(rows):
        print(
            f"{people}: {counted(same, 'row')} like another one: whoever stands there twice gets "
            "two links, and may count twice",
            file=sys.stderr,
        )
    return rows, invited


def _page(page: str | None, folder: "LocalFolder | None", public: Path) -> str:
    from aggregator.dap.urls import read_resource

    if page is None:
        if folder is None:
            raise ParameterError("page: missing; it is where the survey's page is hosted")
        page = folder.form_url(public.parent.name)
    read_resource(page, "page")
    return page


def _say_next(out: Path, folder: "LocalFolder | None", *, is_named: bool) -> None:
    made = "links*.csv, key" if is_named else CARDS
    print(f"wrote {made} (secret), and {LIST} (for both aggregators) to {out}", file=sys.stderr)
    if is_named:
        print(f"{out}: {_DANGER}.", file=sys.stderr)
    else:
        print(f"{out / CARDS}: {SHUFFLE} Delete it when it is printed.", file=sys.stderr)
    print(f"{_WHO_MAKES}\nBefore anybody gets a link, both operators run:", file=sys.stderr)
    for party in ("leader", "helper"):
        config = f"{party}.toml" if folder is None else str(folder.config(party))
        print(f"  prio permits add --config {shlex.quote(config)} {shlex.quote(str(out / LIST))}")
