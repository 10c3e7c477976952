"""The folder of personal links: what is kept of them, and the lists for both aggregators.

    links.csv       a row for each person, with the link: for a mail merge
    key             what all links are made of, and who is invited when
    permits.list    hashes, for both aggregators

Only the last is for others' eyes.
"""

import secrets
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.task import Task
    from aggregator.steward.survey.invitations import Invitations, Windows
    from aggregator.steward.survey.qr_codes import Printed

KEY, LIST, CARDS = "key", "permits.list", "cards.html"

SHUFFLE = "Cut the cards out, shuffle them, and let people draw. Keep no list of who drew which."


def kept(out: Path) -> "Invitations":
    """Return what a folder of links has kept."""
    from aggregator.cli.files import named
    from aggregator.service.storage.secrets.files import read_secret
    from aggregator.steward.survey.invitations import Invitations

    text = read_secret(out / KEY)
    if text is None:
        raise ParameterError(f"out: {out} has no links whose key was kept")
    with named(out):
        return Invitations.from_json(text)


def begin(
    out: Path,
    tasks: "Sequence[Task]",
    page: str,
    invited: "Sequence[Windows]",
    rows: "Sequence[dict[str, str]]",
) -> None:
    """Write a new folder of links."""
    from aggregator.collector.results.whole_files import folder_made_whole
    from aggregator.steward.survey.invitations import Invitations

    made = Invitations.fresh(page, SystemEntropy()).of(tasks, invited)
    with folder_made_whole(out) as folder:
        write(folder, made, tasks, rows)


def write(
    out: Path, made: "Invitations", tasks: "Sequence[Task]", rows: "Sequence[dict[str, str]]"
) -> None:
    """Write the key first, so that no link is ever given out that cannot be made again."""
    from aggregator.collector.results.csv_rows import as_csv
    from aggregator.steward.survey.invited_people import columns_of

    _keep(out, made)
    _write_list(out, made, tasks)
    first = 1 + len(made.windows) - len(rows)
    table = [
        row | {"number": str(number), "code": made.code(number), "link": made.link(number)}
        for number, row in enumerate(rows, first)
    ]
    links = out / ("links.csv" if first == 1 else f"links-from-{first}.csv")
    _private(links, as_csv(columns_of(rows), table).decode())


def _write_list(out: Path, made: "Invitations", tasks: "Sequence[Task]") -> None:
    from aggregator.collector.results.whole_files import written_whole
    from aggregator.protocol.permit_lists import write_lists

    with written_whole(out / LIST) as stream:
        stream.write(write_lists(made.lists(tasks)))


def write_cards(
    out: Path,
    said: "Sequence[Printed]",
    tasks: "Sequence[Task]",
    page: str,
    invited: "Sequence[Windows]",
) -> None:
    """Write a new folder of cards, whose key nobody keeps."""
    from aggregator.collector.results.whole_files import folder_made_whole
    from aggregator.protocol.permit_lists import write_lists
    from aggregator.steward.survey.invitations import cards
    from aggregator.steward.survey.qr_codes import printed_links

    links, lists = cards(tasks, page, invited, SystemEntropy())
    with folder_made_whole(out) as folder:
        (folder / LIST).write_bytes(write_lists(lists))
        _private(folder / CARDS, printed_links(said, links, note=SHUFFLE))


def list_again(out: Path, tasks: "Sequence[Task]") -> None:
    """Write the list of a changed survey, whose links stay."""
    made = kept(out).of(tasks)
    _keep(out, made)
    _write_list(out, made, tasks)
    print(f"wrote {out / LIST}, of the same {len(made.windows):,} links", file=sys.stderr)


def replace(out: Path, tasks: "Sequence[Task]", number: int) -> None:
    """Make another link for a person, and write what both aggregators replace."""
    from aggregator.protocol.permit_lists import write_lists

    made = kept(out).of(tasks).replaced(number)
    since = tasks[0].permit_window_at(tasks[0].time(SystemClock().now()))
    pairs = made.replacements(tasks, number, since)
    if not any(each.windows for each in pairs):
        raise ParameterError(f"replace: all windows of number {number} are over")
    _keep(out, made)
    file = out / f"replace-{number}-{made.generations[number]}.list"
    file.write_bytes(write_lists(pairs))
    print(made.link(number))
    print(
        f"wrote {file}. Before anybody gets this link, the leader runs\n  prio permits replace "
        f"--config leader.toml {shlex.quote(str(file))} --out replaced.list\n"
        "and then the helper the same with replaced.list. If the former link was used in this "
        "window already, it stays used, and the new one counts from the next window on.",
        file=sys.stderr,
    )


def _keep(out: Path, made: "Invitations") -> None:
    _private(out / KEY, made.to_json() + "\n")


def _private(path: Path, text: str) -> None:
    """Write a file that only its owner can ever read, whole, in place of any other."""
    from aggregator.service.storage.secrets.files import create_private

    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    create_private(draft, text)
    draft.replace(path)
