"""What of a survey enters a synthetic table, and what is left out for which reason."""

import itertools
import json

import numpy as np
import pytest

from aggregator.dp.certified import to_float
from aggregator.errors import ParameterError
from aggregator.steward.survey import plan, survey_from_toml
from aggregator.steward.survey.synthetic import tables
from aggregator.steward.survey.synthetic.agreement import agreed, deviations
from aggregator.steward.survey.synthetic.best import Best
from aggregator.steward.survey.synthetic.tables import layout_of, planned_layout, released_of
from tests.support.synthetic_surveys import (
    GAUSSIAN,
    LAPLACE,
    meaning_of,
    planned,
    release,
    survey_text,
)

KINDS = """
[[question]]
name = "sat"
kind = "scale"
high = 3
[[question]]
name = "ok"
kind = "yes-no"
ask_if = { reasons = "price" }
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65]
[[question]]
name = "rooms"
kind = "number"
high = 3
low = 1
step = 0.5
design = "histogram"
[[question]]
name = "region"
kind = "tree"
design = "leaves"
regions = [
  {label = "N", below = [{label = "a"}, {label = "b"}]},
  {label = "S", below = [{label = "c"}]},
]
[[question]]
name = "levels"
kind = "tree"
design = "every level"
low = 0
high = 4
leaves = 4
branches = 2
[[question]]
name = "km"
kind = "number"
low = 0
high = 100
[[question]]
name = "costs"
kind = "vector"
column = [{name = "cost", high = 5000}]
[[question]]
name = "window"
kind = "yes-no"
"""
NAMES = ("sat", "ok", "age", "rooms", "region")
# A number has the rows of its tables.
PAIRS = [
    pair[::-1] if pair[1] == "rooms" else pair
    for pair in itertools.combinations(NAMES, 2)
    if pair != ("rooms", "region")
]
HEAD = survey_text({}, tables=json.dumps(PAIRS))
MULTIPLE = '[[question]]\nname = "reasons"\nkind = "multiple"\nlabels = ["price", "place"]\n'


def test_each_kind_stands_in_a_row_as_an_upload_reads_it_or_is_left_out_with_a_reason() -> None:
    asked = plan(survey_from_toml(HEAD + MULTIPLE + KINDS))
    layout = planned_layout(meaning_of(asked), asked.mechanism)
    assert {each.name: each.written for each in layout.columns} == {
        "sat": (1, 2, 3, None),
        "ok": ("yes", "no", None),
        "age": ("0 to under 18", "18 to 65", None),
        "rooms": (1.0, 1.5, 2, 2.5, 3, None),
        "region": ("a", "b", "c", None),
    }
    assert set(layout.left_out) == {"reasons", "levels", "km", "costs", "window"}
    for name, words in {
        "reasons": "yes-no questions",
        "levels": 'design = "leaves"',
        "km": 'design = "histogram"',
        "costs": "only sums",
        "window": "a column of this name",
    }.items():
        assert words in layout.left_out[name]
        with pytest.raises(ParameterError, match=f"{name} is not in the table"):
            layout.column(name)
    assert layout.notes == (
        "ok is asked by the answer to reasons, which is left out: rows cannot keep to that",
    )
    assert layout.not_asked == [("rooms", "region")]
    assert len(layout.pairs) == len(PAIRS) == 9
    assert layout.columns[layout.column("sat")].label_place("2") == 1
    with pytest.raises(ParameterError, match="has no answer 'four'"):
        layout.columns[0].label_place("four")


@pytest.mark.parametrize("budget", [GAUSSIAN, LAPLACE])
def test_values_and_variances_are_those_of_the_release(budget: str) -> None:
    sizes = {"a": 3, "b": 2, "c": 4}
    asked = planned(sizes, budget)
    answers = np.random.default_rng(1).integers(0, [4, 3, 5], (500, 3))
    batch = release(asked, answers, 1)
    released = released_of(meaning_of(asked), [batch])
    plain = batch.plain()
    flat = [*released.ones, *(each.ravel() for each in released.tables)]
    assert np.concatenate(flat).tolist() == [float(each.value) for each in plain]
    own, pairs = released.layout.variances
    found = [
        *np.repeat(own, [4, 3, 5]),
        *np.repeat(pairs, [each.size for each in released.tables]),
    ]
    assert found == pytest.approx([each.law.variance() for each in plain])
    assert released.people == 500


def test_a_weight_is_in_the_variances() -> None:
    text = survey_text({"a": 3, "b": 2}).replace('name = "b"', 'name = "b"\nweight = 2')
    asked = plan(survey_from_toml(text))
    layout = planned_layout(meaning_of(asked), asked.mechanism)
    (a, b), _ = layout.variances
    assert b == pytest.approx(a / 4, rel=0.01)


def test_windows_are_added_up_with_their_noise() -> None:
    asked = planned({"a": 3, "b": 2})
    random = np.random.default_rng(2)
    batches = [
        release(asked, random.integers(0, [4, 3], (size, 2)), size, day)
        for day, size in enumerate((300, 500))
    ]
    both = released_of(meaning_of(asked), batches)
    one = released_of(meaning_of(asked), batches[:1])
    assert both.people == 800
    assert both.layout.variances[0] == pytest.approx(2 * one.layout.variances[0])
    values = [float(each.value) for batch in batches for each in batch.plain()[:4]]
    assert both.ones[0].tolist() == [a + b for a, b in zip(values[:4], values[4:], strict=True)]


def test_nothing_is_known_of_what_goes_with_what_without_tables() -> None:
    asked = plan(survey_from_toml(survey_text({"a": 2, "b": 2}, tables="[]")))
    batch = release(asked, np.zeros((10, 2), dtype=np.int64), 1)
    with pytest.raises(ParameterError, match='tables = "all"'):
        released_of(meaning_of(asked), [batch])


@pytest.mark.parametrize("budget", [GAUSSIAN, LAPLACE])
def test_estimates_and_their_deviations_are_those_with_exact_laws(budget: str) -> None:
    sizes = {"a": 3, "b": 2, "c": 4, "d": 2}
    asked = planned(sizes, budget)
    answers = np.random.default_rng(3).integers(0, [4, 3, 5, 3], (900, 4))
    batch = release(asked, answers, 3)
    released = released_of(meaning_of(asked), [batch])
    layout = released.layout
    made = agreed(layout, released.ones, released.tables, released.people)
    best = Best(layout, asked.sheet.circuit, [batch])
    for column, counts in enumerate(made.ones):
        exact = [float(each.value) for each in best.one(column)]
        assert counts.tolist() == pytest.approx(exact, abs=0.02)
    of_cells = deviations(layout)
    for place, (pair, table) in enumerate(zip(layout.pairs, made.tables, strict=True)):
        cells = best.pair(pair.of, pair.by)
        exact_table = [[float(cell.value) for cell in row] for row in cells]
        assert table == pytest.approx(np.array(exact_table), abs=0.02)
        assert of_cells[place] == pytest.approx(cells[0][0].law.variance() ** 0.5, rel=1e-4)
        turned = best.pair(pair.by, pair.of)
        assert turned[1][0].value == cells[0][1].value


def test_a_value_without_noise_has_nearly_no_variance() -> None:
    asked = planned({"a": 2, "b": 2})
    layout = layout_of(meaning_of(asked), [None] * asked.sheet.circuit.output_len)
    assert layout.variances[0].max() < 1e-3


def test_a_law_of_a_plan_is_that_of_its_mechanism() -> None:
    asked = planned({"a": 3, "b": 2})
    layout = planned_layout(meaning_of(asked), asked.mechanism)
    law = layout.laws[0]
    assert law is not None
    assert layout.variances[0][0] == pytest.approx(to_float(law.variance()))


def test_a_question_of_too_many_answers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_LABELS", 3)
    sizes = {"many": 4, "a": 3, "b": 3}
    asked = plan(survey_from_toml(survey_text(sizes, tables='[["many", "a"], ["a", "b"]]')))
    layout = planned_layout(meaning_of(asked), asked.mechanism)
    assert [each.name for each in layout.columns] == ["a", "b"]
    assert "at most 3" in layout.left_out["many"]
    assert len(layout.pairs) == 1
