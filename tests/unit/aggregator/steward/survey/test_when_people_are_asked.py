"""A survey begins with its first window and ends with its last, so all it takes can be released."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.client.survey.asked_survey import read_survey
from aggregator.clock import SystemClock
from aggregator.dap.profile import PROFILES
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from aggregator.protocol.reports import Timely
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import tasks_from_toml
from aggregator.steward.survey import Survey, survey_from_toml
from tests.support.commands import run_here
from tests.support.surveys import NOWADAYS, VISITS, department, task_of
from tests.support.tasks import PARTIES
from tests.support.texts import WORD, texts_in

ROOT = Path(__file__).parents[5]
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
WEEK = timedelta(days=7)
ASKED = VISITS + department() + WORD


def tasks() -> list[Task]:
    return [task_of(ASKED), *texts_in(ASKED)["word"][1]]


def survey(until: str, text: str = VISITS + department()) -> Survey:
    return survey_from_toml(text.replace("first =", f"until = {until}\nfirst ="))


@pytest.mark.parametrize(
    ("moment", "refused"),
    [
        (MONDAY - timedelta(hours=1), ReportError.TASK_NOT_STARTED),
        (MONDAY, None),
        (MONDAY + 52 * WEEK - timedelta(seconds=1), None),
        (MONDAY + 52 * WEEK, ReportError.TASK_EXPIRED),
    ],
)
def test_every_task_of_a_survey_takes_reports_of_its_windows_and_of_no_other_time(
    moment: datetime, refused: ReportError | None
) -> None:
    seconds = int(moment.timestamp())
    for task in tasks():
        assert task.policy.max_releases == 52
        assert Timely(seconds).refusal(task, task.time(seconds)) is refused


def test_what_was_answered_in_time_is_taken_after_the_end() -> None:
    """Rows of a table, and answers that waited on a device."""
    last = int((MONDAY + 52 * WEEK).timestamp()) - 1
    for task in tasks():
        assert Timely(last + 10 * DAY).refusal(task, task.time(last)) is None


def test_a_survey_may_end_earlier_and_then_releases_less() -> None:
    ends = survey("2026-11-23")
    assert (ends.releases, ends.closes) == (3, MONDAY + 3 * WEEK)
    task = task_of((VISITS + department()).replace("first", "until = 2026-11-23\nfirst"))
    assert task.policy.max_releases == 3
    assert task.closes == (MONDAY + 3 * WEEK).timestamp()


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("2027-11-08", "until: gives 53 windows, and the budget is for 52"),
        ("2026-11-10", "until: must be when a window ends, such as 2027-11-01T00:00:00"),
        ("2026-11-02", "until: must be when a window ends"),
        ("2026-10-05", "until: must be when a window ends"),
        ('"2026-11-23"', "until: must be a date"),
    ],
)
def test_an_end_that_no_budget_pays_for_or_within_a_window_is_refused(
    until: str, said: str
) -> None:
    with pytest.raises(ParameterError, match=re.escape(said)):
        survey(until)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2026-11-02", "1969-12-29", "first: must be in 1970 or later"),
        ("windows = 52", "windows = 999999", "windows: 999,999 of them end after the year 9999"),
        ("first = 2026-11-02", "until = 2026-11-02", "until: needs first"),
    ],
)
def test_times_that_no_task_can_have_are_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(said)):
        survey_from_toml((VISITS + department()).replace(old, new), MONDAY)


@pytest.mark.parametrize(
    ("window", "first"),
    [
        ("hour", datetime(2026, 11, 26, 21, tzinfo=UTC)),
        ("6 hours", datetime(2026, 11, 26, 21, tzinfo=UTC)),
        ("day", datetime(2026, 11, 26, tzinfo=UTC)),
        ("14 days", datetime(2026, 11, 26, tzinfo=UTC)),
        ("week", datetime(2026, 11, 23, tzinfo=UTC)),
        ("2 weeks", datetime(2026, 11, 23, tzinfo=UTC)),
    ],
)
def test_a_survey_that_does_not_say_when_it_begins_begins_with_the_window_that_holds_now(
    window: str, first: datetime
) -> None:
    text = NOWADAYS.replace("week", window) + department()
    elsewhere = datetime(2026, 11, 27, 0, 30, 1, 5, tzinfo=UTC).astimezone()
    for now in (elsewhere - timedelta(hours=3), datetime(2026, 11, 26, 21, 30, 1, 5, tzinfo=UTC)):
        assert survey_from_toml(text, now).first == first


SURVEYS = {
    str(path.relative_to(ROOT)): text
    for folder in ("examples", "docs", "README.md")
    for path in [ROOT / folder, *(ROOT / folder).rglob("*")]
    if path.suffix in (".md", ".toml")
    for text in [path.read_text("utf-8")]
    if "[[question]]" in text
}


@pytest.mark.parametrize("profile", PROFILES)
def test_all_tasks_of_a_survey_follow_the_draft_that_is_given(tmp_path: Path, profile: str) -> None:
    file, out = tmp_path / "survey.toml", tmp_path / "made"
    file.write_text(NOWADAYS + department() + WORD)
    done = run_here(
        *("survey", "new", file, "--out", out, *PARTIES, "--profile", profile),
    )
    assert done.returncode == 0, done.stderr
    asked = read_survey(out / "task.json")
    assert {task.profile.name for task in asked.tasks} == {profile}
    assert len(asked.tasks) == 1 + 8


@pytest.mark.parametrize("name", SURVEYS)
def test_a_year_on_people_can_answer_what_examples_and_documents_ask(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_year_on = SystemClock().now() + 366 * DAY
    monkeypatch.setattr(SystemClock, "now", lambda _: a_year_on)
    text = SURVEYS[name]
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if name.endswith("md") else [text]
    found = [block for block in blocks if re.search("^title", block, re.MULTILINE)]
    for number, block in enumerate(found):
        file, out = tmp_path / f"{number}.toml", tmp_path / f"made{number}"
        file.write_text(block)
        keys: list[str | Path] = []
        if 'answers = "by application"' in block:
            issuer = tmp_path / f"issuer{number}"
            run_here("issuer", "new", file, "--out", issuer)
            keys = ["--issuer-keys", issuer / "issuer-keys.json"]
        done = run_here("survey", "new", file, "--out", out, *PARTIES, *keys)
        assert done.returncode == 0, done.stderr
        files = [*out.glob("task.toml"), *out.glob("text/*/tasks.toml")]
        for task in (task for each in files for task in tasks_from_toml(each.read_text())):
            assert Timely(a_year_on).refusal(task, task.time(a_year_on)) is None
