"""`prio survey invite` makes links and lists that fit each other, and keeps nothing it need not."""

import csv
import re
import stat
from pathlib import Path

import pytest

from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.clock import SystemClock
from aggregator.protocol.permit_codes import secret_of
from aggregator.protocol.permit_lists import PermitList, read_lists, read_replacements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.survey.form.translations import shipped
from aggregator.written_times import IN_UTC
from tests.support.commands import Done, run_here
from tests.support.permitted import permitted
from tests.support.signed import signed_task
from tests.support.surveys import department
from tests.support.tasks import PARTIES

PAGE = "https://hospital.example/form.html"
SURVEY = f"""
title = "Visits"
asked = "visitors"
window = "week"
min_batch_size = 10
answers = "by invitation"

[budget]
epsilon = "4"
windows = 4

{department()}

[[question]]
name = "word"
kind = "text"
epsilon = "3"
buckets = 16
tasks = 8
"""


def new(folder: Path, text: str = SURVEY, *options: str | Path, name: str = "made") -> Done:
    survey = folder / f"{name}-survey.toml"
    survey.write_text(text)
    return run_here("survey", "new", survey, "--out", folder / name, *PARTIES, *options)


def invite(folder: Path, *options: str | Path, made: str = "made") -> Done:
    return run_here(
        "survey", "invite", folder / made / "task.toml", "--out", folder / "links", *options
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    done = new(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "one answer for each personal link (`prio survey invite`) in each window" in done.stdout
    return tmp_path


def rows(folder: Path, name: str = "links/links.csv") -> list[dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return [*csv.DictReader(file)]


def lists(folder: Path) -> dict[bytes, PermitList]:
    return {each.domain: each for each in read_lists((folder / "links/permits.list").read_bytes())}


def entries(task: Task, code: str, windows: range) -> list[bytes]:
    assert task.permits is not None
    secret = secret_of(code)
    return [task.permits.entry_of(secret, each) for each in windows]


def asked_in(folder: Path, made: str = "made") -> AskedSurvey:
    return read_survey(folder / made / "task.toml")


def this_window(task: Task) -> int:
    return task.permit_window_at(task.time(SystemClock().now()))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_survey_by_invitation_has_a_domain_and_each_text_question_one_for_all_its_tasks(
    folder: Path,
) -> None:
    asked = asked_in(folder)
    assert asked.task is not None
    assert asked.task.permits is not None
    of_word = {each.permits for each in asked.texts["word"][1]}
    assert len(of_word) == 1
    assert asked.task.permits not in of_word
    assert None not in of_word


def test_links_and_lists_fit_each_other_in_every_domain_and_window(folder: Path) -> None:
    (folder / "people.csv").write_text("name,windows\nAda,\n=1+1,\n")
    done = invite(folder, "--people", folder / "people.csv", "--page", PAGE)
    assert done.returncode == 0, done.stderr
    made = rows(folder)
    assert [(each["name"], each["number"]) for each in made] == [("Ada", "1"), ("'=1+1", "2")]
    assert all(each["link"] == f"{PAGE}#p={each['code']}" for each in made)
    asked = asked_in(folder)
    found = lists(folder)
    assert len(found) == 2
    for task in asked.tasks:
        assert task.permits is not None
        windows = range(this_window(task), this_window(task) + 4)
        assert list(found[task.permits.domain].windows) == list(windows)
        for each in made:
            for window, entry in zip(windows, entries(task, each["code"], windows), strict=True):
                assert entry in found[task.permits.domain].windows[window]
        assert found[task.permits.domain].count == 8


def test_columns_are_known_in_any_case_as_a_mail_merge_knows_them(folder: Path) -> None:
    people, links = folder / "people.csv", folder / "links"
    for made in ("Link", "NUMBER", "code"):
        people.write_text(f"name,{made}\nAda,https://elsewhere.example\n")
        done = invite(folder, "--people", people, "--page", PAGE)
        assert f"rename {made!r} in the table" in done.stderr
    people.write_text("windows,Windows\n,\n")
    assert "several such" in invite(folder, "--people", people, "--page", PAGE).stderr
    assert not links.exists()
    task = asked_in(folder).task
    day = IN_UTC.moment(task.permits_from(this_window(task) + 1))[:10]
    after = IN_UTC.moment(task.permits_from(this_window(task) + 2))[:10]
    people.write_text(f"name,Windows\nAda,{day}..{after}\nBob,\n")
    assert invite(folder, "--people", people, "--page", PAGE).returncode == 0
    assert [[*each] for each in rows(folder)] == [["name", "number", "code", "link"]] * 2
    for each in lists(folder).values():
        assert [len(some) for some in each.windows.values()] == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("table", "same"),
    [("name\nAda\nBob\nAda\n", 1), ("name\nAda\nada\n", 0), ("windows,x\n,\n,\n", 0)],
)
def test_rows_that_are_alike_are_told(folder: Path, table: str, same: int) -> None:
    (folder / "people.csv").write_text(table)
    done = invite(folder, "--people", folder / "people.csv", "--page", PAGE)
    assert ("1 row like another one" in done.stderr) is bool(same)


def test_links_and_key_are_their_owners_and_the_command_says_how_dangerous_they_are(
    folder: Path,
) -> None:
    done = invite(folder, "--count", "3", "--page", PAGE)
    assert [mode(folder / "links" / name) for name in ("links.csv", "key")] == [0o600, 0o600]
    assert "most dangerous files" in done.stderr
    assert "prio permits add --config leader.toml" in done.stdout
    said = done.stdout + done.stderr
    assert not any(each["code"] in said for each in rows(folder))


def test_a_lost_link_is_the_same_again_and_more_people_go_on_with_the_numbers(
    folder: Path,
) -> None:
    invite(folder, "--count", "3", "--page", PAGE)
    links = [each["link"] for each in rows(folder)]
    assert invite(folder, "--again", "2").stdout == f"{links[1]}\n"
    before = lists(folder)
    done = invite(folder, "--count", "2", "--more")
    assert done.returncode == 0, done.stderr
    assert [each["number"] for each in rows(folder, "links/links-from-4.csv")] == ["4", "5"]
    after = lists(folder)
    for domain, known in before.items():
        for window, some in known.windows.items():
            assert {*some} < {*after[domain].windows[window]}
    assert [each["link"] for each in rows(folder)] == links
    assert "must be from 1 to 5" in invite(folder, "--again", "6").stderr


def test_a_replaced_link_is_another_and_its_pairs_begin_with_the_window_of_now(
    folder: Path,
) -> None:
    invite(folder, "--count", "2", "--page", PAGE)
    codes = [rows(folder)[1]["code"]]
    list_before = (folder / "links/permits.list").read_bytes()
    for generation in (1, 2):
        done = invite(folder, "--replace", "2")
        assert done.returncode == 0, done.stderr
        link = done.stdout.strip()
        assert re.fullmatch(rf"{re.escape(PAGE)}#p=[0-9a-z-]{{34}}", link)
        other = link.partition("#p=")[2]
        assert other not in codes
        pairs = read_replacements((folder / f"links/replace-2-{generation}.list").read_bytes())
        tasks = {each.permits.domain: each for each in asked_in(folder).tasks if each.permits}
        assert {each.domain for each in pairs} == tasks.keys()
        for each in pairs:
            task = tasks[each.domain]
            windows = range(this_window(task), this_window(task) + 4)
            new = entries(task, other, windows)
            expected = [
                pair for old in codes for pair in zip(entries(task, old, windows), new, strict=True)
            ]
            found = [pair for window in windows for pair in each.windows[window]]
            assert sorted(found) == sorted(expected)
        codes.append(other)
    assert invite(folder, "--again", "2").stdout.strip().endswith(codes[-1])
    # Added once more, it must not let a link count whose former one was used.
    invite(folder)
    assert (folder / "links/permits.list").read_bytes() == list_before


def test_cards_keep_no_key_no_number_and_no_order(folder: Path) -> None:
    done = invite(folder, "--count", "4", "--cards", "--page", PAGE)
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in (folder / "links").iterdir()) == [
        "cards.html",
        "permits.list",
    ]
    assert mode(folder / "links/cards.html") == 0o600
    page = (folder / "links/cards.html").read_text()
    codes = re.findall(r"#p=([0-9a-z-]{34})</code>", page)
    assert len({*codes}) == 4
    assert page.count("<svg") == 4
    assert "shuffle" in page
    (task, *_) = asked_in(folder).tasks
    assert task.permits is not None
    window = this_window(task)
    listed = lists(folder)[task.permits.domain].windows[window]
    assert listed == sorted(entries(task, each, range(window, window + 1))[0] for each in codes)
    assert "no links whose key was kept" in invite(folder, "--again", "1").stderr


TRANSLATED = f"""language = "de"
{SURVEY}
[translations.ar]
title = "الزيارات"
[translations.ar.question.department]
text = "القسم"
labels = ["الجراحة", "الطب"]
[translations.ar.question.word]
text = "ماذا يؤلمك"
"""


def test_cards_speak_all_languages_of_the_survey(tmp_path: Path) -> None:
    assert new(tmp_path, TRANSLATED).returncode == 0
    invite(tmp_path, "--count", "2", "--cards", "--page", PAGE)
    page = (tmp_path / "links/cards.html").read_text("utf-8")
    for language, direction, title in (("de", "ltr", "Visits"), ("ar", "rtl", "الزيارات")):
        words = shipped(language)
        head = f'<div lang="{language}" dir="{direction}">'
        said = f"{words['card']} {words['scan']}"
        found = re.findall(f"{head}<h[12]><bdi>{title}</bdi></h[12]><p><bdi[^>]*>{said}<", page)
        assert len(found) == 2, language
    assert shipped("en")["card"] not in page


def test_a_panel_that_rotates_has_links_for_its_own_windows(folder: Path) -> None:
    task = asked_in(folder).first
    window = task.policy.window
    assert window is not None
    length = window.length * task.time_precision
    starts = [task.opens + number * length for number in range(5)]
    lines = [f"{a}..{b}" for a, b in ((starts[0], starts[1]), (starts[1], starts[4]))]
    (folder / "people.csv").write_text("windows\n" + "\n".join(lines) + "\n")
    done = invite(folder, "--people", folder / "people.csv", "--page", PAGE)
    assert done.returncode == 0, done.stderr
    assert task.permits is not None
    found = lists(folder)[task.permits.domain]
    assert [len(each) for each in found.windows.values()] == [1, 1, 1, 1]


def test_a_changed_survey_keeps_its_links_and_lists_what_is_new(folder: Path) -> None:
    invite(folder, "--count", "2", "--page", PAGE)
    invite(folder, "--replace", "1")
    changed = SURVEY.replace('name = "word"', 'name = "other"')
    former = folder / "made" / "task.toml"
    done = new(folder, changed, "--permits-of", former, name="changed")
    assert done.returncode == 0, done.stderr
    old, fresh = asked_in(folder), asked_in(folder, "changed")
    assert old.first.permits == fresh.first.permits
    done = invite(folder, made="changed")
    assert done.returncode == 0, done.stderr
    found = lists(folder)
    permits = fresh.texts["other"][1][0].permits
    assert permits is not None
    assert permits.domain in found
    # What never was listed has the link that is good now.
    code = invite(folder, "--again", "1").stdout.partition("#p=")[2].strip()
    window = this_window(fresh.first)
    entry = permits.entry_of(secret_of(code), window)
    assert entry in found[permits.domain].windows[window]


def test_links_stay_only_if_the_windows_do(folder: Path) -> None:
    former = folder / "made" / "task.toml"
    other = SURVEY.replace('window = "week"', 'window = "day"')
    done = new(folder, other, "--permits-of", former, name="changed")
    assert "permits-of: the survey's windows must be those" in done.stderr
    opened = SURVEY.replace("by invitation", "by open link")
    done = new(folder, opened, "--permits-of", former, name="opened")
    assert "permits-of: the survey file must have answers" in done.stderr


def test_what_cannot_be_invited_is_refused(folder: Path) -> None:
    opened = SURVEY.replace("by invitation", "by open link")
    assert "ten thousand false answers" in new(folder, opened, name="opened").stdout
    done = invite(folder, "--count", "2", "--page", PAGE, made="opened")
    assert 'answers = "by invitation"' in done.stderr
    signed = folder / "signed.toml"
    signed.write_text(task_to_toml(signed_task()))
    done = run_here(
        *("survey", "invite", signed, "--out", folder / "links", "--count", "2", "--page", PAGE),
        *("--windows", "2", "--first", "2023-11-15", "--i-run-no-aggregator"),
    )
    assert "counts permits that an issuer signs" in done.stderr
    assert not (folder / "links").exists()
    for options, said in (
        (("--count", "2"), "page: missing"),
        (("--count", "2", "--cards", "--more"), "cards: need --count"),
        (("--again", "1", "--count", "1"), "each stands alone"),
        (("--more",), "more: needs"),
        ((), "no links whose key was kept"),
        (("--count", "2", "--page", PAGE, "--first", "2200-01-01"), "first: the survey is over"),
    ):
        assert said in invite(folder, *options).stderr
    (folder / "people.csv").write_text("code\n1\n")
    done = invite(folder, "--people", folder / "people.csv", "--page", PAGE)
    assert "the column 'code' is made by this command" in done.stderr
    (folder / "people.csv").write_text("name,windows\nAda,1970-01-01..1970-02-01\n")
    done = invite(folder, "--people", folder / "people.csv", "--page", PAGE)
    assert "line 2: windows: has none of the windows" in done.stderr
    assert not (folder / "links").exists()


def test_links_of_a_task_without_noise_are_never_made_by_who_runs_an_aggregator(
    tmp_path: Path,
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "task.toml").write_text(task_to_toml(permitted(window=None)))
    options = ("--count", "2", "--page", PAGE)
    assert "i-run-no-aggregator: the task has no noise" in invite(tmp_path, *options).stderr
    done = invite(tmp_path, *options, "--i-run-no-aggregator")
    assert done.returncode == 0, done.stderr
    assert [len(each) for each in next(iter(lists(tmp_path).values())).windows.values()] == [2]
