"""`--replace`: a changed survey in place of its former draft, at the same address."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from aggregator.cli.local import replacing
from aggregator.cli.local.folder import PARTIES, LocalFolder
from aggregator.cli.service.parties import Party
from aggregator.cli.service.taking_part import take_part
from aggregator.cli.steward.survey_form import page_of
from aggregator.client.survey.asked_survey import read_survey
from aggregator.dap.ids import TaskId
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from tests.support.commands import Done, run_here
from tests.support.surveys import NOWADAYS, department
from tests.support.texts import WORD

FIRST = NOWADAYS + department(text="Which one?") + WORD


class Drafts:
    """A folder of `prio up` in which one survey is asked."""

    def __init__(self, path: Path) -> None:
        self.file = path / "survey.toml"
        self.folder = LocalFolder.made(path / "here")
        self.place = self.folder.surveys / "visits"

    def ask(self, text: str, *options: str) -> Done:
        self.file.write_text(text)
        return run_here("survey", "new", self.file, "--up", self.folder.path, *options)

    def ids(self) -> set[TaskId]:
        return {each.task_id for each in read_survey(self.place / "task.toml").tasks}

    def page(self) -> dict[str, object]:
        page = page_of(self.place / "task.toml")
        found: dict[str, object] = json.loads(re.findall(r'id="survey">(.*)</script>', page)[0])
        return found

    def states(self, party: str) -> dict[str, str]:
        """Return what a party's list says of each task, by its id."""
        listed = run_here("task", "list", "--config", self.folder.config(party)).stdout
        return {line.split()[0]: line for line in listed.splitlines()}


@pytest.fixture
def drafts(tmp_path: Path) -> Drafts:
    drafts = Drafts(tmp_path)
    asked = drafts.ask(FIRST)
    assert asked.returncode == 0, asked.stderr
    return drafts


def test_without_the_option_it_is_refused_with_the_way_out(drafts: Drafts) -> None:
    before = drafts.ids()
    done = drafts.ask(FIRST.replace("Which one?", "Where?"))
    assert done.returncode == 2
    assert "--replace ends it and asks this one at its address; or give this one another" in (
        done.stderr
    )
    assert drafts.ids() == before


def test_the_former_draft_ends_everywhere_and_its_files_are_put_aside(drafts: Drafts) -> None:
    former, path = drafts.ids(), drafts.folder.form_url("visits")
    for number, words in enumerate(("Where?", "And where?"), 1):
        text = FIRST.replace("Which one?", words)
        done = drafts.ask(text, "--replace")
        assert done.returncode == 0, done.stderr
        aside = drafts.folder.replaced / f"visits-{number}" / "task.toml"
        assert f"has ended, with 0 answers; it is {aside} now" in done.stdout
        assert {each.task_id for each in read_survey(aside).tasks} == former
        for party in ("leader", "helper"):
            states = drafts.states(party)
            assert all("ended" in states[str(each)] for each in former)
            assert all("open" in states[str(each)] for each in drafts.ids())
        assert set(drafts.states("collector")) == {str(each) for each in drafts.ids()}
        assert drafts.folder.form_url("visits") == path
        assert drafts.folder.survey_names == ["visits"]
        # What is unchanged is asked already.
        assert drafts.ask(text, "--replace").returncode == 0
        assert not drafts.ids() & former
        former = drafts.ids()


def test_the_page_of_each_draft_asks_those_again_who_answered_another(drafts: Drafts) -> None:
    pages = [drafts.page()]
    for words in ("Where?", "And where?"):
        drafts.ask(FIRST.replace("Which one?", words), "--replace")
        pages.append(drafts.page())
    # What a browser remembers is by the name, and for text questions by the draft.
    assert len({each["name"] for each in pages}) == 3
    assert [each["draft"] for each in pages] == ["", "1", "2"]
    done = drafts.ask(FIRST, "--replace")
    assert "--person-column person --state sent-4" in done.stdout


def test_what_a_party_refused_is_no_draft(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path)
    for _ in range(2):
        refused = drafts.ask(FIRST.replace('epsilon = "1"', 'epsilon = "9"'))
        assert "this aggregator accepts at most epsilon 8" in refused.stderr
    assert drafts.ask(FIRST).returncode == 0


@pytest.mark.parametrize("party", PARTIES)
def test_a_draft_that_a_party_refuses_leaves_the_former_as_it_is(
    drafts: Drafts, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    """Whichever does: those asked before it have taken the new one by then."""
    former, page = drafts.ids(), drafts.page()

    def refuse(taking: Party, text: str, *, rehearses: bool) -> list[Task]:
        if taking.settings.role == party:
            raise ParameterError("no such thing here")
        return take_part(taking, text, rehearses=rehearses)

    monkeypatch.setattr("aggregator.cli.local.tasks.take_part", refuse)
    changed = FIRST.replace("Which one?", "Where?")
    done = drafts.ask(changed, "--replace")
    assert done.returncode == 2
    assert "no such thing here; the former draft is asked as before" in done.stderr
    assert (drafts.ids(), drafts.page()) == (former, page)
    for each in PARTIES:
        states = drafts.states(each)
        assert set(states) == {str(task_id) for task_id in former}
        assert not any("ended" in state for state in states.values())
    assert not any(drafts.folder.next.iterdir())
    monkeypatch.undo()
    assert drafts.ask(changed, "--replace").returncode == 0
    assert drafts.page()["draft"] == "1"
    assert not any(drafts.folder.next.iterdir())
    asked = {str(each) for each in drafts.ids()}
    for each in PARTIES:
        states = drafts.states(each).items()
        assert {task_id for task_id, state in states if "ended" not in state} == asked


def test_a_survey_with_another_title_is_not_a_draft_of_it(drafts: Drafts) -> None:
    done = drafts.ask(FIRST.replace("Visits", "Visits?"), "--replace")
    assert done.returncode == 2
    assert "has another survey, 'Visits', whose title begins like that of this one" in done.stderr
    assert not drafts.folder.replaced.exists()


@pytest.mark.parametrize(
    ("address", "agrees", "is_asked"),
    [("127.0.0.1", False, False), ("0.0.0.0", False, True), ("0.0.0.0", True, True)],  # noqa: S104  no server
)
def test_if_others_may_have_answered_somebody_is_asked(
    drafts: Drafts, monkeypatch: pytest.MonkeyPatch, address: str, *, agrees: bool, is_asked: bool
) -> None:
    with sqlite3.connect(drafts.folder.path / "leader.sqlite") as store:
        (task,) = store.execute("SELECT min(id) FROM tasks").fetchone()
        store.execute("INSERT INTO report_counters VALUES (?, 'upload', 'stored', 0, 3)", (task,))
    store.close()
    own = drafts.folder.config("leader")
    own.write_text(own.read_text().replace('listen = "127.0.0.1', f'listen = "{address}', 1))
    for party in PARTIES:  # whoever listens there has to allow it
        config = drafts.folder.config(party)
        config.write_text(f"{config.read_text()}\n[tls]\ninsecure_http = true\n")
    questions: list[str] = []

    def answer(question: str) -> bool:
        questions.append(question)
        return agrees

    monkeypatch.setattr("aggregator.cli.steward.survey._agrees", answer)
    done = drafts.ask(FIRST.replace("Which one?", "Where?"), "--replace")
    assert [each.startswith("3 answers came by an address") for each in questions] == (
        [True] if is_asked else []
    )
    refused = is_asked and not agrees
    assert ("has 3 answers, so it stays as it is" in done.stderr) is refused
    assert drafts.folder.replaced.exists() is not refused
    assert replacing.drafts_before(drafts.folder, "visits") == (0 if refused else 1)


def test_drafts_of_a_survey_whose_name_goes_on_are_not_counted(drafts: Drafts) -> None:
    for name in ("visits-1", "visits-2", "visits-2-1", "visits-in-may-1"):
        (drafts.folder.replaced / name).mkdir(parents=True)
    found = [replacing.drafts_before(drafts.folder, each) for each in ("visits", "visits-2")]
    assert found == [2, 1]


def test_it_goes_on_when_only_the_new_files_were_still_to_be_put_in_place(drafts: Drafts) -> None:
    changed = FIRST.replace("Which one?", "Where?")
    assert drafts.ask(changed, "--replace").returncode == 0
    asked = drafts.ids()
    drafts.place.rename(drafts.folder.next / "visits")
    assert drafts.ask(changed, "--replace").returncode == 0
    assert (drafts.ids(), drafts.page()["draft"]) == (asked, "1")


@pytest.mark.parametrize("party", PARTIES)
def test_it_goes_on_after_it_was_interrupted(
    drafts: Drafts, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    kind = "collector" if party == "collector" else "aggregator"
    opened = getattr(__import__("aggregator.cli.local.tasks", fromlist=["x"]), f"open_{kind}")

    def killed(config: Path) -> object:
        if config.stem == party:
            raise KeyboardInterrupt
        return opened(config)

    monkeypatch.setattr(f"aggregator.cli.local.tasks.open_{kind}", killed)
    changed = FIRST.replace("Which one?", "Where?")
    assert drafts.ask(changed, "--replace").returncode != 0
    monkeypatch.undo()
    done = drafts.ask(changed, "--replace")
    assert done.returncode == 0, done.stderr
    assert drafts.page()["draft"] == "1"
    assert not any(drafts.folder.next.iterdir())
    asked = {str(each) for each in drafts.ids()}
    for each in PARTIES:
        states = drafts.states(each).items()
        assert {task_id for task_id, state in states if "ended" not in state} == asked
