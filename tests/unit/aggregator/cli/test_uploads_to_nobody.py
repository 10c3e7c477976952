"""`prio survey upload` says at once, and once, that an aggregator cannot be reached."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.client import bulk
from tests.support.commands import run_here
from tests.support.ports import free_ports
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department


def test_that_nobody_is_there_is_said_before_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_LONGEST_PAUSE", 0.0)
    leader, helper = (f"http://127.0.0.1:{port}/" for port in free_ports(2))
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    survey = VISITS.replace("2026-11-02", day) + department()
    write_survey_folder(tmp_path / "made", survey, leader, helper)
    (tmp_path / "answers.csv").write_text(f"time,department\n{day},surgery\n")
    done = run_here("survey", "upload", tmp_path / "made" / "task.toml", tmp_path / "answers.csv")
    assert done.returncode == 3
    first, last = done.stderr.splitlines()
    gone = f"{leader} or {helper} could not be reached"
    assert first == f"prio: {gone}; trying again for a minute or so, or until Ctrl-C"
    assert last.startswith(f"prio: 1 report is not settled, as {gone} (unreachable)")
