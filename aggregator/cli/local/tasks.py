"""Adds tasks to all three parties of one machine, as their operators would one by one."""

import re
from collections.abc import Mapping
from pathlib import Path

from aggregator.cli.local.folder import LocalFolder
from aggregator.cli.service.parties import open_aggregator, open_collector
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.provisioning import PARTIES
from aggregator.service.config import read_text
from aggregator.steward.survey import Survey

SURVEY_FILE = "survey.toml"
"""What a survey's task was made of, beside it."""

_LONGEST_NAME = 40


def hand_out(folder: LocalFolder, files: Mapping[Role, str]) -> None:
    """Give each party its file of some tasks; one that has it already changes nothing."""
    for role in (Role.LEADER, Role.HELPER):
        with open_aggregator(folder.config(role.name.lower())) as desk:
            desk.add_tasks(files[role])
    with open_collector(folder.config("collector")) as desk:
        desk.add_tasks(files[Role.COLLECTOR])


def collector_config(folder: LocalFolder) -> HpkeConfig:
    """Return the configuration to which the folder's collector has results sealed."""
    with open_collector(folder.config("collector")) as desk:
        return desk.keypair().config


def place_of(folder: LocalFolder, survey: Survey) -> Path:
    """Return the folder of a survey's files."""
    words = re.findall(r"\w+", survey.title.lower())
    return folder.surveys / ("-".join(words)[:_LONGEST_NAME].strip("-_") or "survey")


def is_asked(place: Path, text: str) -> bool:
    """Return whether a survey has its files already.

    Args:
        place: Its folder.
        text: What its file says.

    Raises:
        ParameterError: Another file of the same title has.
    """
    if not place.exists():
        return False
    if read_text(place / SURVEY_FILE) != text:
        raise ParameterError(
            f"title: {place} has the task of another survey of this title, or of one that begins "
            "like it, which no party can change: give this one another title"
        )
    return True


def files_in(place: Path) -> dict[Role, str]:
    """Return each party's file of a survey."""
    return {role: read_text(place / f"{role.name.lower()}.toml") for role in PARTIES}
