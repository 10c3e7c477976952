"""What a notebook sees of a released window: the same numbers as the decoder's, with intervals."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.question import TextQuestion
from aggregator.errors import ParameterError
from aggregator.results import Words, compare, documents_in
from aggregator.steward.text.found_strings import mean_in_words
from aggregator.steward.text.text_tasks import text_tasks_in
from tests.support.tasks import LAPLACE, make_task
from tests.support.text import question_tasks, released_beside, released_words, result_documents

QUESTION = TextQuestion("A fruit?", Fraction(4), 8, 128)
TASKS = question_tasks(QUESTION)
TURNED = "\u202epear"
HELD = {"fig": 500, TURNED: 300, "äpfel": 200}
STRINGS = ["plum", "ÄPFEL", TURNED, "fig", *(f"nobody's {number}" for number in range(100))]


def words() -> Words:
    tables = released_words(QUESTION, HELD, np.random.default_rng(1), silent=50)
    released = "\n".join(map(json.dumps, result_documents(TASKS, tables)))
    return Words.of_documents(TASKS[::-1], documents_in(released), STRINGS)


@pytest.mark.slow
def test_a_notebook_finds_what_people_wrote_with_intervals_and_what_nobody_explains() -> None:
    found = words()
    assert [each.names for each in found.found] == [("fig",), (TURNED,), ("äpfel",)]
    frame = found.frame().to_dict(as_series=False)
    assert frame["label"] == ["fig", r"\u202epear", "äpfel"]
    for place, (row, count) in enumerate(zip(found.table().rows, HELD.values(), strict=True)):
        each = found.found[place]
        assert (row["value"], row["low"], row["high"]) == (each.count, each.low, each.high)
        assert each.low < count < each.high
    assert abs(found.no_answer - 50) < 20
    assert abs(found.unexplained) < 200
    assert found.document["candidates"] == 104
    assert found.document["title"] == "A fruit?"
    assert "3 found of 104 candidates" in repr(found)
    axes = found.plot(most=2)
    assert [each.get_text() for each in axes.get_yticklabels()] == ["fig", r"\u202epear"]


def test_a_notebook_has_means_and_sums_of_the_numbers_beside_strings() -> None:
    grid = Grid(Fraction(-5), Fraction(1, 2), 40, clips=False)
    question = dataclasses.replace(QUESTION, amount=Amount("How much?", grid, "euros"))
    tasks = question_tasks(question)
    held = {"fig": (500, 40), TURNED: (300, 10), "äpfel": (200, 0)}
    tables = released_beside(question, held, np.random.default_rng(1))
    found = Words.of_documents(tasks, result_documents(tasks, tables), STRINGS, show=["plum"])
    assert found.title == "A fruit?"
    table = found.table()
    assert [(row["shows"], row["unit"]) for row in table.rows[:3]] == [
        ("count", ""),
        ("mean", "euros"),
        ("sum", "euros"),
    ]
    means = {"fig": 15.0, "\\u202epear": 0.0, "äpfel": -5.0}
    for each, row in zip(found.found, table.rows[1::3], strict=False):
        assert each.amount is not None
        assert (row["value"], row["low"], row["high"]) == (
            each.amount.mean,
            each.amount.low,
            each.amount.high,
        )
        assert each.amount.low <= means[str(row["label"])] <= each.amount.high
        assert -5 <= each.amount.low <= each.amount.high <= 15
    # At a higher confidence an interval is wider, and nobody knows the mean of what none wrote.
    wide = found.table(Fraction(999, 1000)).rows[4]
    assert float(str(wide["low"])) < float(str(table.rows[4]["low"]))
    plum = table.rows[-2]
    assert (plum["label"], plum["shows"], plum["low"], plum["high"]) == ("plum", "mean", -5, 15)
    assert mean_in_words(found.shown[0]) is None
    shown = mean_in_words(found.found[0])
    assert shown is not None
    assert 14 < float(shown[0]) <= 15
    axes = found.plot(most=2)
    assert [each.get_text() for each in axes.get_yticklabels()] == ["fig", r"\u202epear", "plum"]
    (amount,) = {each["label"] for each in found.table(jointly=True).rows[:3]}
    assert amount == "fig"
    document = json.loads(json.dumps(found.document))["found"][0]["amount"]
    assert sorted(document) == ["high", "low", "mean", "sum", "sum_high", "sum_low"]


def test_a_notebook_has_counts_and_shares_of_each_label() -> None:
    question = dataclasses.replace(QUESTION, by=ByChoice("age", ("young", "old")))
    tasks = question_tasks(question)
    held = {"fig": (500, 1), TURNED: (300, 0), "äpfel": (200, 1)}
    tables = released_beside(question, held, np.random.default_rng(1))
    found = Words.of_documents(tasks, result_documents(tasks, tables), STRINGS, show=["plum"])
    assert found.title == "A fruit?"
    rows = found.table().rows
    assert [(row["label"], row["group"], row["shows"]) for row in rows[:5]] == [
        ("fig", "", "count"),
        ("fig", "young", "count"),
        ("fig", "young", "share"),
        ("fig", "old", "count"),
        ("fig", "old", "share"),
    ]
    assert len(rows) == 5 * 4
    for row, truth in zip(rows[:5], (500, 0, 0, 500, 1), strict=True):
        assert float(str(row["low"])) <= truth <= float(str(row["high"]))
        assert float(str(row["low"])) >= 0
    wide = found.table(Fraction(999, 1000)).rows[3]
    assert float(str(wide["low"])) < float(str(rows[3]["low"]))
    document = json.loads(json.dumps(found.document))["found"][0]
    assert "amount" not in document
    young, old = document["by"]
    assert (young["label"], old["label"]) == ("young", "old")
    assert old["count"] == rows[3]["value"]
    assert old["share_low"] <= old["share"] <= old["share_high"] == 1
    assert "by" not in words().document["found"][0]  # type: ignore[index]  # a list of tables


def test_strings_of_one_release_are_compared_as_if_their_noise_were_at_its_worst() -> None:
    fig, _, apples = words().quantities
    alone = compare(fig, apples)
    both = fig.interval(Fraction(39, 40)), apples.interval(Fraction(39, 40))
    assert alone.is_larger
    # Each by itself at half the miss: not as if the noise of one release were two draws.
    assert alone.interval.low <= both[0].low - both[1].high
    joint = words().table(jointly=True).rows
    assert [row["jointly"] for row in joint] == [3, 3, 3]
    assert all(
        wide["low"] < row["low"] for wide, row in zip(joint, words().table().rows, strict=True)
    )


def test_what_is_not_one_question_or_no_list_is_refused() -> None:
    with pytest.raises(ParameterError, match="these 7 are not those of one text question"):
        Words.of_documents(TASKS[1:], [], STRINGS)
    with pytest.raises(ParameterError, match="strings: must be several"):
        Words.of_documents(TASKS, [], "fig")
    with pytest.raises(ParameterError, match="candidates: there must be at least one string"):
        Words.of_documents(TASKS, [], ["", "\t"])


def test_tasks_of_one_window_have_reports_of_different_hours_in_it() -> None:
    tasks = question_tasks(QUESTION, window={"window": 10})
    documents = result_documents(tasks, np.zeros((8, 128), np.int64))
    documents[3]["interval"] = {"start": 500, "end": 900}
    assert Words.of_documents(tasks, documents, STRINGS).found == ()
    # Collections say what was asked for.
    asked = [{"state": "finished", "query": {"start": 0, "end": 1000}, "result": documents[3]}]
    assert Words.of_documents(tasks, [*documents[:3], *asked, *documents[4:]], STRINGS).found == ()
    documents[3]["interval"] = {"start": 1000, "end": 1900}
    with pytest.raises(ParameterError, match="of different times"):
        Words.of_documents(tasks, documents, STRINGS)


def test_text_questions_among_a_partys_tasks_are_found_each_time_they_are_asked() -> None:
    again, other = question_tasks(QUESTION, 100), TextQuestion("A word?", Fraction(4), 8, 128)
    no_text = {"group": "alternatives", "group_place": 0}
    tasks = [
        make_task(privacy={**LAPLACE, **no_text}),
        *TASKS,
        *question_tasks(other, 200)[:-3],  # not all of it: nothing is decoded of five places
        *again[::-1],
    ]
    first, second = text_tasks_in(tasks)
    assert first.tasks == tuple(TASKS)
    assert second.tasks == tuple(again)
    assert first.hashes == second.hashes == QUESTION.hashes
    assert first.title == "A fruit?"
