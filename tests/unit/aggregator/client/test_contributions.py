"""One person's reports, counted on disk before they are sent."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from aggregator.client import Contributions, TooManyReports
from aggregator.errors import ConfigurationError, ParameterError
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

TWICE = make_task(privacy={**LAPLACE, "max_reports_per_person": 2})
OTHER = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, id="A" * 43)
HOUR = 36 * TIME_PRECISION


def test_the_bound_is_for_ever_if_nothing_is_known_about_batches(tmp_path: Path) -> None:
    state = Contributions(tmp_path / "reports.json")
    state.count(TWICE, 1, 1000)
    Contributions(tmp_path / "reports.json").count(TWICE, 1, 10**9)  # another start of the program
    with pytest.raises(TooManyReports, match=r"3 reports of one person .* 2 allowed"):
        state.count(TWICE, 1, 10**9)
    state.count(OTHER, 2, 1000)


def test_what_is_refused_is_not_counted(tmp_path: Path) -> None:
    state = Contributions(tmp_path / "reports.json")
    with pytest.raises(TooManyReports):
        state.count(TWICE, 3, 1000)
    state.count(TWICE, 2, 1000)


def test_with_batches_of_known_length_the_bound_is_per_batch(tmp_path: Path) -> None:
    state = Contributions(tmp_path / "reports.json", batch_seconds=HOUR)
    state.count(TWICE, 1, HOUR)
    state.count(TWICE, 1, 2 * HOUR - 1)
    state.count(TWICE, 2, 2 * HOUR)
    for moment in (HOUR, 2 * HOUR - 1, 2 * HOUR):
        with pytest.raises(TooManyReports, match="3 reports of one person in one batch"):
            state.count(TWICE, 1, moment)
    # Who stops naming the length is held to what was counted.
    with pytest.raises(TooManyReports, match="5 reports of one person for this task"):
        Contributions(tmp_path / "reports.json").count(TWICE, 1, 9 * HOUR)


def test_a_person_is_in_as_many_batches_as_the_task_allows(tmp_path: Path) -> None:
    task = make_task(privacy={**LAPLACE, "max_batches_per_person": 2})
    state = Contributions(tmp_path / "reports.json", batch_seconds=HOUR)
    for batch in (3, 5):
        state.count(task, 1, batch * HOUR)
    with pytest.raises(TooManyReports, match="in 3 batches, 2 allowed"):
        state.count(task, 1, 4 * HOUR)


def test_batches_that_the_leader_selects_have_no_length(tmp_path: Path) -> None:
    task = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, batch_mode="leader_selected")
    with pytest.raises(ParameterError, match="batch_seconds: the task is leader_selected"):
        Contributions(tmp_path / "reports.json", HOUR).count(task, 1, HOUR)
    state = Contributions(tmp_path / "reports.json")
    for moment in (HOUR, 99 * HOUR):
        state.count(task, 1, moment)
    with pytest.raises(TooManyReports, match=r"3 reports of one person for this task, 2 allowed$"):
        state.count(task, 1, 999 * HOUR)


@pytest.mark.parametrize("length", [0, -HOUR, TIME_PRECISION + 1])
def test_a_batch_is_made_of_whole_units_of_time(tmp_path: Path, length: int) -> None:
    with pytest.raises(ParameterError, match=f"batch_seconds: .* not {length}"):
        Contributions(tmp_path / "reports.json", length).count(TWICE, 1, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "tasks": {}}',
        '{"version": 1, "tasks": {"a": {"x": 1}}}',
    ],
)
def test_a_file_that_cannot_be_read_is_never_taken_for_a_new_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reports.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"reports\.json"):
        Contributions(path).count(TWICE, 1, 0)
    assert path.read_text() == text


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        Contributions(tmp_path / "no" / "reports.json").count(TWICE, 1, 0)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_cannot_be_put_on_disk_is_not_to_be_sent_and_leaves_the_old_file(
    tmp_path: Path, call: str
) -> None:
    path = tmp_path / "reports.json"
    state = Contributions(path)
    state.count(TWICE, 1, 0)
    before = path.read_text()
    failing = patch("os.fsync" if call == "fsync" else "pathlib.Path.replace", side_effect=OSError)
    with failing, pytest.raises(ConfigurationError):
        state.count(TWICE, 1, 0)
    assert path.read_text() == before
    state.count(TWICE, 1, 0)


def test_the_file_is_readable_by_its_owner_only_and_names_no_person(tmp_path: Path) -> None:
    path = tmp_path / "reports.json"
    Contributions(path).count(TWICE, 1, 250)
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text()) == {
        "version": 1,
        "tasks": {str(TWICE.task_id): {"2": 1}},
    }


def _count_one(path: Path) -> bool:
    try:
        Contributions(path).count(TWICE, 1, 0)
    except TooManyReports:
        return False
    return True


def test_processes_that_count_at_once_share_the_bound(tmp_path: Path) -> None:
    # The lock is of the open file, so two threads exclude each other as two processes do.
    with ThreadPoolExecutor(6) as pool:
        counted = list(pool.map(_count_one, [tmp_path / "reports.json"] * 12))
    assert sum(counted) == 2
