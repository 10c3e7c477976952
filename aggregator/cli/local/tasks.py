"""Adds tasks to all three parties on one machine, as each operator would in a deployment."""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from aggregator.cli.local.folder import LocalFolder, public_in
from aggregator.cli.service.parties import open_aggregator, open_collector
from aggregator.cli.service.taking_part import take_part
from aggregator.client.survey.asked_survey import survey_in
from aggregator.clock import SystemClock
from aggregator.collector.keys import keypair_of
from aggregator.collector.store import forget_collector_task
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import PARTIES, read_provisions
from aggregator.service.config import read_text
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import UnknownTask
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import end_task
from aggregator.steward.survey import Survey, survey_from_toml
from aggregator.steward.survey.beside import SURVEY_FILE, wording_of
from aggregator.steward.survey.wording import Wording

_LONGEST_NAME = 40


def hand_out(folder: LocalFolder, files: Mapping[Role, str], *, rehearses: bool = False) -> None:
    """Add each party's file of some tasks to its store; adding one again changes nothing.

    If all three `rehearse`, the tasks' answers are made up, and otherwise none are.
    """
    for role in (Role.LEADER, Role.HELPER):
        with open_aggregator(folder.config(role.name.lower())) as party:
            take_part(party, files[role], rehearses=rehearses)
    with open_collector(folder.config("collector")) as party:
        take_part(party, files[Role.COLLECTOR], rehearses=rehearses)


def withdraw(folder: LocalFolder, place: Path, *, results_too: bool) -> None:
    """End the tasks of a survey whose files are in a folder; calling it again changes nothing.

    The collector shows them no more if nothing was collected, or if their results are to go, too.
    """
    for role in (Role.LEADER, Role.HELPER):
        with open_aggregator(folder.config(role.name.lower())) as party:
            for task_id in ids_in(place, role):
                with suppress(UnknownTask):  # it was never added
                    party.database.run_sync("end task", partial(end_task, task_id=task_id))
                    if results_too:
                        with suppress(Conflict):  # it is being collected, and stays ended
                            forget(party.database, task_id)
    with open_collector(folder.config("collector")) as party:
        for task_id in ids_in(place, Role.COLLECTOR):
            party.database.run_sync(
                "forget task",
                partial(forget_collector_task, task_id=task_id, results_too=results_too),
            )


def undo(folder: LocalFolder, place: Path) -> None:
    """Withdraw a survey that nobody was asked, with all that there is of it; delete its files."""
    withdraw(folder, place, results_too=True)
    shutil.rmtree(place)


def ids_in(place: Path, role: Role) -> list[bytes]:
    """Return the ids of a survey's tasks, as a party's file has them."""
    provisions = read_provisions(files_in(place)[role], role)
    return [each.task.task_id.value for each in provisions]


def collector_config(folder: LocalFolder) -> HpkeConfig:
    """Return the HPKE configuration of the folder's collector, to which results are sealed."""
    with open_collector(folder.config("collector")) as party:
        return keypair_of(party.database).config


def place_of(folder: LocalFolder, survey: Survey) -> Path:
    """Return the folder of a survey's files."""
    words = re.findall(r"\w+", survey.title.lower())
    return folder.surveys / ("-".join(words)[:_LONGEST_NAME].strip("-_") or "survey")


def is_asked(place: Path, text: str) -> bool | None:
    """Return whether a survey already has its files in a folder; None if another has them.

    A file that differs in what only its page shows replaces the one there. Raises `ParameterError`
    if its translations are others than those that the survey is bound to.
    """
    if not place.exists():
        return False
    before = read_text(place / SURVEY_FILE)
    if before == text:
        return True
    if not _asks_the_same(before, text):
        return None
    public = public_in(place)
    wording_of(text, survey_in(read_text(public), public), _now())
    (place / SURVEY_FILE).write_text(text, encoding="utf-8")
    return True


def _asks_the_same(one: str, other: str) -> bool:
    """Return whether two survey files differ in nothing but what only a page shows."""
    now, page_only = _now(), {*Wording.model_fields}
    first, second = (
        survey_from_toml(each, now).model_dump(exclude=page_only) for each in (one, other)
    )
    return first == second


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now(), UTC)


def files_in(place: Path) -> dict[Role, str]:
    """Return each party's file of a survey's tasks."""
    return {role: read_text(place / f"{role.name.lower()}.toml") for role in PARTIES}
