"""A synthetic table of a survey: what it says, whom it contradicts, and when it is refused."""

import csv
import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from aggregator.collector.results import Batch
from aggregator.errors import ParameterError
from aggregator.steward.survey import Plan, plan, survey_from_toml
from aggregator.steward.survey.synthetic import making
from aggregator.steward.survey.synthetic.making import MOST_ROWS, synthetic_of
from aggregator.steward.survey.synthetic.synthetic import RULES, Synthetic
from aggregator.steward.survey.synthetic.told import Told
from tests.support.synthetic_surveys import Entries, meaning_of, planned, release, survey_text

pytestmark = pytest.mark.slow

SIZES = {"a": 3, "b": 3, "c": 3}


def alike(people: int, sizes: int = 3) -> Entries:
    """Answers to questions of three labels, of which the second mostly repeats the first."""
    random = np.random.default_rng(1)
    answers = random.integers(0, 4, (people, sizes))
    answers[:, 1] = np.where(random.random(people) < 0.8, answers[:, 0], answers[:, 1])
    return answers


def made(asked: Plan, *batches: Batch, **options: object) -> Synthetic:
    told = Told(
        ("2026-01-01",), ("2026-01-01",), "a promise", tuple(str(each.start) for each in batches)
    )
    return synthetic_of(meaning_of(asked), batches, told, **options)  # type: ignore[arg-type]  # as tests name them


ONE_IN_A_MILLION = 1 - Fraction(1, 10**6)
ASKED = planned(SIZES)


@cache
def the_release() -> Batch:
    return release(ASKED, alike(20_000), 1)


@cache
def the_table() -> Synthetic:
    return made(ASKED, the_release())


def test_a_table_has_a_stamped_row_for_each_report() -> None:
    rows = the_table().rows()
    assert len(rows) == 20_000
    assert list(rows[0]) == ["a", "b", "c", "window", "synthetic"]
    assert {row["synthetic"] for row in rows} == {
        "not a person: drawn from noised sums of Made up, 2026-01-01"
    }
    assert {row["a"] for row in rows} == {"a 0", "a 1", "a 2", None}
    assert the_table().frame().shape == (20_000, 5)


def test_one_release_gives_one_table_and_another_seed_another() -> None:
    again = made(ASKED, the_release())
    assert (again.entries == the_table().entries).all()
    assert (made(ASKED, the_release(), seed=7).entries != the_table().entries).any()
    fewer = made(ASKED, the_release(), rows=50)
    assert fewer.entries.shape == (50, 3)
    # The number of rows does not change what they are drawn from.
    assert fewer.count({"a": "a 1"}).synthetic == the_table().count({"a": "a 1"}).synthetic


@pytest.mark.parametrize("rows", [0, MOST_ROWS + 1])
def test_no_other_number_of_rows_is_drawn(rows: int) -> None:
    with pytest.raises(ParameterError, match="rows must be an integer from 1 to 10000000"):
        made(ASKED, the_release(), rows=rows)


def test_a_count_stands_beside_the_released_one_and_its_interval_where_there_is_one() -> None:
    one = the_table().count({"a": "a 1"})
    two = the_table().count({"b": "b 1", "a": "a 1"})
    three = the_table().count({"a": "a 1", "b": "b 1", "c": "no answer"})
    for count in (one, two):
        assert count.released is not None
        assert count.synthetic in count.released.interval(ONE_IN_A_MILLION)
        assert "released" in repr(count)
    assert three.released is None
    assert "without an interval" in repr(three)
    assert the_table().count({"a": "a 1", "b": "b 1"}).synthetic == pytest.approx(two.synthetic)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "name one question"),
        ({"d": "1"}, "no question 'd'"),
        ({"a": "b 1"}, "a has no answer 'b 1'"),
    ],
)
def test_an_unknown_answer_is_refused(answers: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        the_table().count(answers)


def test_all_counts_of_one_and_two_answers_are_listed_with_what_was_released() -> None:
    rows = the_table().pairs.rows
    assert len(rows) == 3 * 4 + 3 * 16
    assert {row["pair"] for row in rows} == {"a", "b", "c", "a by b", "a by c", "b by c"}
    by_cell = {(row["pair"], row["cell"]): row for row in rows}
    row = by_cell["a by b", "a 1, b 1"]
    released = the_table().count({"a": "a 1", "b": "b 1"}).released
    assert released is not None
    assert row["value"] == pytest.approx(float(released.value))
    assert row["low"] < row["value"] < row["high"]  # type: ignore[operator]  # numbers
    outside = [row["outside"] for row in rows if " by " in str(row["pair"])]
    assert outside.count("yes") / len(outside) == pytest.approx(the_table().outside, abs=0.03)


def test_files_are_named_and_stamped_and_what_must_be_known_is_beside_them(tmp_path: Path) -> None:
    table = made(ASKED, the_release(), rows=200)
    file = tmp_path / "visits.synthetic.csv"
    table.to_csv(file)
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 200
    assert all(row["synthetic"].startswith("not a person") for row in rows)
    about = json.loads((tmp_path / "visits.synthetic.about.json").read_text())
    assert about["rules"] == list(RULES)
    assert (about["rows"], about["reports"]) == (200, 20_000)
    assert (about["tau"], about["z"]) == (table.tau, table.found)
    parquet = tmp_path / "visits.synthetic.parquet"
    table.to_parquet(parquet)
    assert pl.read_parquet(parquet).rows() == [tuple(row.values()) for row in table.rows()]
    # The same once more gives the same bytes.
    before = file.read_bytes()
    made(ASKED, the_release(), rows=200).to_csv(file)
    assert file.read_bytes() == before
    for write in (table.to_csv, table.to_parquet):
        with pytest.raises(ParameterError, match="must end in"):
            write(tmp_path / "visits.csv")


def test_nothing_is_made_of_noise_unless_that_is_wanted() -> None:
    few = release(ASKED, alike(50), 2)
    with pytest.raises(ParameterError, match="take each question by itself"):
        made(ASKED, few)
    table = made(ASKED, few, although_noise=True)
    assert table.is_weak
    assert any("weak" in each for each in table.warnings)
    assert not the_table().warnings


def test_windows_together_know_more_than_one() -> None:
    answers = alike(4000)
    days = [release(ASKED, answers[1000 * day :][:1000], day, day) for day in range(4)]
    one, all_days = made(ASKED, days[0], although_noise=True), made(ASKED, *days)
    assert all_days.people == 4000
    assert all_days.tau == pytest.approx(one.tau / 2)
    assert all_days.found > one.found
    count = all_days.count({"a": "a 1", "b": "b 1"})
    single = one.count({"a": "a 1", "b": "b 1"})
    assert count.released is not None
    assert single.released is not None
    assert count.released.law.variance() == pytest.approx(4 * single.released.law.variance())


def test_what_is_asked_of_some_is_in_no_row_of_others() -> None:
    text = survey_text({"a": 3, "b": 3, "c": 3})
    text = text.replace('name = "b"', 'name = "b"\nask_if = { a = ["a 0", "a 1"] }')
    text = text.replace('name = "c"', 'name = "c"\nask_if = { b = "b 2" }')
    asked = plan(survey_from_toml(text))
    answers = alike(3000)
    answers[answers[:, 0] > 1, 1] = 3
    answers[answers[:, 1] != 2, 2] = 3
    table = made(asked, release(asked, answers, 3), rows=30_000, although_noise=True)
    assert table.is_masked
    a, b, c = table.entries.T
    assert ((a <= 1) | (b == 3)).all()
    assert ((b == 2) | (c == 3)).all()
    assert (c < 3).any()
    # All pairs depend on each other by who is asked, except that of a and nothing.
    assert not table.layout.filters[0]
    assert table.layout.filters[2] == {0, 1}


def test_with_more_routes_than_can_be_followed_rows_are_corrected() -> None:
    count = 7
    text = survey_text({f"q{place}": 2 for place in range(2 * count)})
    for place in range(count):
        name = f'name = "q{place + count}"'
        text = text.replace(name, f'{name}\nask_if = {{ q{place} = "q{place} 0" }}')
    asked = plan(survey_from_toml(text))
    answers = np.random.default_rng(4).integers(0, 3, (3000, 2 * count))
    for place in range(count):
        answers[answers[:, place] != 0, place + count] = 2
    table = made(asked, release(asked, answers, 4), although_noise=True)
    assert not table.is_masked
    for place in range(count):
        rows = table.entries
        assert ((rows[:, place] == 0) | (rows[:, place + count] == 2)).all()


def test_a_question_in_no_table_is_independent_and_named() -> None:
    asked = plan(survey_from_toml(survey_text({"a": 3, "b": 3, "c": 3}, tables='[["a", "b"]]')))
    table = made(asked, release(asked, alike(5000), 5))
    assert table.alone == ["c"]
    assert table.layout.not_asked == [("a", "c"), ("b", "c")]
    assert any("in no table" in line for line in table.lines())
    joint, c = table.mixture.pair(0, 2), table.mixture.one(2)
    assert joint == pytest.approx(np.outer(table.mixture.one(0), c))


def test_too_many_answers_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MOST_ENTRIES", 11)
    with pytest.raises(ParameterError, match="have 12 answers together"):
        made(ASKED, the_release())
