"""What `prio` writes for clients in other languages."""

import json
from pathlib import Path

from aggregator.client.module import (
    integrity_of,
    joined_links,
    joined_signed,
    joined_survey,
    joined_text,
)
from tests.support.commands import run_here
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department
from tests.support.tasks import task_text


def test_vectors_are_of_the_measurements_given_or_of_the_two_furthest_apart(
    tmp_path: Path,
) -> None:
    task = tmp_path / "task.toml"
    task.write_text(task_text())
    given = json.loads(run_here("client-vectors", task, "2").stdout)
    assert [report["measurement"] for report in given["reports"]] == [2]
    both = json.loads(run_here("client-vectors", task).stdout)
    assert [report["measurement"] for report in both["reports"]] == [0, 3]
    assert "0 to 3" in run_here("client-vectors", task, "4").stderr


def test_vectors_of_a_text_question_are_of_what_people_write(tmp_path: Path) -> None:
    survey = VISITS + department() + '[[question]]\nname = "word"\nkind = "text"\n'
    write_survey_folder(tmp_path / "made", f'{survey}epsilon = "1/4"\nbuckets = 16\ntasks = 8\n')
    folder = tmp_path / "made" / "text" / "word"
    written = json.loads(run_here("client-vectors", folder, "Earl\u00a0Grey ").stdout)
    assert [bytes.fromhex(each["normal"]) for each in written["answers"]] == [b"earl grey"]
    assert len(written["upload"]["reports"]) == 1
    (folder / "text.json").unlink()
    assert "text.json" in run_here("client-vectors", folder).stderr


def test_the_module_is_written_with_the_hash_by_which_a_page_holds_on_to_it(
    tmp_path: Path,
) -> None:
    out = tmp_path / "prio.js"
    done = run_here("client-module", "--out", out)
    assert done.stderr.strip() == integrity_of(out.read_text("utf-8"))
    assert run_here("client-module").stdout == out.read_text("utf-8")
    for option, text in (
        ("--text", joined_text()),
        ("--survey", joined_survey()),
        ("--links", joined_links()),
        ("--signed", joined_signed()),
    ):
        part = run_here("client-module", option)
        assert part.stderr.strip() == integrity_of(part.stdout)
        assert part.stdout == text
    both = run_here("client-module", "--survey", "--text")
    assert (both.returncode, both.stderr.count("give one of this")) == (2, 1)
