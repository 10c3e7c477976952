"""`prio survey check` says how far off results will be, of those who are asked."""

import json
import re
from pathlib import Path

import pytest

from tests.support.commands import run_here
from tests.support.surveys import VISITS

SMOKER = '[[question]]\nname = "smoker"\nkind = "yes-no"\n'
AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 100\n'


@pytest.mark.parametrize("is_routed", [True, False])
def test_the_error_of_a_number_that_not_everybody_is_asked_for_is_told_for_half(
    tmp_path: Path,
    is_routed: bool,  # noqa: FBT001  a parameter
) -> None:
    file = tmp_path / "survey.toml"
    many = VISITS.replace("min_batch_size = 3", "min_batch_size = 900")
    file.write_text(many + SMOKER + AGE + 'ask_if = { smoker = "yes" }\n' * is_routed)
    done = run_here("survey", "check", file)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^age .*, mean ± ([0-9.]+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    half = re.search(r"asked only if .*, and if half are asked, mean ± ([0-9.]+)", done.stdout)
    assert (half is not None) == is_routed
    if half is not None:
        assert 2 * float(found[1]) <= float(half[1]) <= 2.1 * float(found[1])


WORD = '[[question]]\nname = "word"\nkind = "text"\nepsilon = "1/2"\npeople = 100000\ntasks = 128\n'


def window(start: str, counts: list[float], name: str = "word") -> dict[str, object]:
    return {
        "name": name,
        "start": start,
        "found": [{"count": count, "deviation": 50.0} for count in counts],
        "threshold": 900.0,
        "no_answer": 0.0,
        "unexplained": 100_000 - sum(counts),
    }


@pytest.mark.slow
def test_what_will_be_found_of_words_is_told_by_the_last_window_of_each(tmp_path: Path) -> None:
    file, found = tmp_path / "survey.toml", tmp_path / "found.json"
    file.write_text(VISITS + SMOKER + WORD)
    last = window("2026-11-09T00:00:00+00:00", [50_000, 2000.0])
    before = window("2026-11-02T00:00:00+00:00", [5000.0 - each for each in range(19)])
    other = window("2026-11-16T00:00:00+00:00", [9000.0], "another")
    told = {}
    given = {"all": [last, before, other], "last": [last], "before": [before]}
    for name, windows in given.items():
        found.write_text(json.dumps({"version": 2, "texts": windows}))
        done = run_here("survey", "check", file, "--found", found, "--json")
        assert done.returncode == 0, done.stderr
        [told[name]] = json.loads(done.stdout)["texts"]
        assert told[name]["tail"] == "last window"
        assert told[name]["tasks"] == 128  # what `prio survey new` makes
    [told["guess"]] = json.loads(run_here("survey", "check", file, "--json").stdout)["texts"]
    assert told["guess"]["tail"] == "guessed"
    assert told["all"] == told["last"]
    assert len({each["found_from"] for each in told.values()}) == 3
    said = run_here("survey", "check", file, "--found", found).stdout
    assert re.search(r"^word: tasks = \d+ would find what [\d,]+ or more", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("more", "text", "said"),
    [
        (WORD, "[]", "found: not what `prio survey results --words"),
        (WORD, '{"texts": [{"name": "word", "start": 3}]}', "found: not what `prio survey results"),
        (WORD, '{"texts": []}', "found: has no window of the text question word"),
        (
            WORD,
            json.dumps({"texts": [{"name": "word", "start": "2026-11-02"}]}),
            "text question word: found: not what",
        ),
        (
            WORD,
            json.dumps({"texts": [window("2026-11-02", [500.0])]}),
            "text question word: found: no string of the window",
        ),
        ("", "{}", "found: the survey has no text question"),
    ],
)
def test_a_file_that_tells_nothing_of_the_last_window_is_refused(
    more: str, text: str, said: str, tmp_path: Path
) -> None:
    file, found = tmp_path / "survey.toml", tmp_path / "found.json"
    file.write_text(VISITS + SMOKER + more)
    found.write_text(text)
    done = run_here("survey", "check", file, "--found", found)
    assert done.returncode == 2
    assert said in done.stderr


def test_errors_are_for_as_many_people_as_are_named(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    many_people = VISITS.replace("min_batch_size = 3", "min_batch_size = 300")
    many_people = many_people.replace("max_reports = 1000", "max_reports = 100000")
    file.write_text(many_people + SMOKER + AGE + WORD.replace("people = 100000\n", ""))
    few, many = (
        json.loads(run_here("survey", "check", file, "--json", *options).stdout)
        for options in ((), ("--people", "30000"))
    )
    assert (few["people"], many["people"]) == (300, 30000)
    means = [document["parts"][1]["ways"][0] for document in (few, many)]
    assert [each["shows"] for each in means] == ["mean", "mean"]
    assert means[0]["error"] == pytest.approx(100 * means[1]["error"], rel=0.1)
    # What is asked stays the same, of words too.
    for document in (few, many):
        assert [each["ways"][0]["design"] for each in document["parts"]] == ["one answer", "sum"]
    assert [each["texts"][0]["people"] for each in (few, many)] == [300, 30000]
    assert few["texts"][0]["tasks"] == many["texts"][0]["tasks"]
    said = run_here("survey", "check", file, "--people", "30000").stdout
    assert "figure with 30,000 answers" in said


@pytest.mark.parametrize("people", ["2", "1001"])
def test_a_number_of_people_of_which_nothing_is_released_is_refused(
    people: str, tmp_path: Path
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(VISITS + SMOKER)
    done = run_here("survey", "check", file, "--people", people)
    assert done.returncode == 2
    assert "people: must be 3 (min_batch_size) to 1,000 (max_reports), not" in done.stderr


MANY = '[[question]]\nname = "many"\nkind = "number"\nlow = 0\nhigh = 10\n'


def test_why_a_design_was_chosen_although_another_is_more_exact_is_said_with_the_price(
    tmp_path: Path,
) -> None:
    file = tmp_path / "survey.toml"
    by = VISITS.replace("[budget]", 'by = "smoker"\n[budget]')
    by = by.replace("min_batch_size = 3", "min_batch_size = 300")
    file.write_text(by + SMOKER + MANY)
    said = run_here("survey", "check", file).stdout
    found = re.search(
        r'chosen for its tables: design = "histogram" would give mean ± ([0-9.]+), '
        r"and many by smoker no mean or sum$",
        said,
        re.MULTILINE,
    )
    assert found is not None, said
    # The promise is kept by who takes the advice.
    file.write_text(by + SMOKER + MANY + 'design = "histogram"\n')
    taken = run_here("survey", "check", file).stdout
    assert f"many (number): histogram, mean ± {found[1]}," in taken
    assert "many by smoker: many by smoker, " in taken
    assert "chosen for its tables" not in taken


def test_nothing_is_said_where_the_chosen_design_is_the_most_exact(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(VISITS + SMOKER + AGE)
    assert "chosen" not in run_here("survey", "check", file).stdout


def test_of_two_designs_that_say_nothing_of_so_few_no_error_is_compared() -> None:
    example = Path(__file__).parents[4] / "examples" / "ways-to-work.toml"
    few = run_here("survey", "check", example, "--people", "5").stdout
    assert "rather than histogram; with so few answers neither says anything of it" in few
    many = run_here("survey", "check", example, "--people", "500").stdout
    assert "rather than histogram, mean ± " in many
