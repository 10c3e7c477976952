"""A collector's documents and results as values to calculate with."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import aggregator
from aggregator.collector.documents import task_document
from aggregator.collector.results import (
    Batch,
    Noised,
    Selected,
    Tree,
    Variance,
    after_selection,
    combination,
    compare,
    mean,
    median,
    ratio,
    total,
)
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, make_task, task_text

TASK = make_task(privacy=LAPLACE)
LABELS = ["very good", "good", "poor", "very poor"]
GEOMETRIC: Mapping[str, str | int | bool] = {
    "mechanism": "TruncatedGeometric",
    "epsilon": "1",
    "delta": "99e-4",
    "public_threshold": 0,
    "public_buckets": "3",
}


def document(
    values: list[int | None], start: int = 0, task: Task = TASK, release: str = "first"
) -> dict[str, object]:
    result = {
        "version": 1,
        "task_id": str(task.task_id),
        "values": values,
        "report_count": 100,
        "interval": {"start": start, "end": start + TIME_PRECISION},
        "release": release,
    }
    text = json.dumps({"version": 1, "state": "finished", "result": result})
    read: dict[str, object] = json.loads(text)
    return read


def test_a_batch_has_its_labels_and_the_law_of_its_task() -> None:
    batch = Batch.of_document(TASK, document([40, 30, 20, 10]), LABELS, unit="answers")
    width = TASK.policy.mechanism.half_width(TASK.prio3.circuit, Fraction(95, 100))
    assert batch["poor"].interval().high == 20 + width
    assert (batch["poor"].label, batch["poor"].unit) == ("poor", "answers")
    assert batch.share("poor").value == Fraction(1, 5)
    assert (batch.start, batch.end) == (0, TIME_PRECISION)
    assert [row["label"] for row in batch.table().rows] == LABELS


def test_one_collection_read_twice_is_the_same_noise_and_two_are_not() -> None:
    first = Batch.of_document(TASK, document([40, 30, 20, 10]), LABELS)
    again = Batch.of_document(TASK, document([40, 30, 20, 10]), LABELS)
    other = Batch.of_document(TASK, document([40, 30, 20, 10], release="second"), LABELS)
    assert not (first.plain()[1] - again.plain()[1]).terms
    assert len((first.plain()[1] - other.plain()[1]).terms) == 2  # though of the same interval
    assert compare(first.share("good"), other.share("good")).is_larger is None


def test_each_section_of_a_report_has_the_law_of_its_own_noise() -> None:
    task = make_task(
        {"type": "Prio3Sections", "sections": "onehot:2 number:100"},
        {**LAPLACE, "epsilon": "2", "shares": "1/2 1/2"},
    )
    batch = Batch.of_document(task, document([40, 30, 2000], task=task), ["yes", "no", "hours"])
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    (_, narrow), (_, wide) = mechanism.half_widths(circuit, Fraction(95, 100))
    highs = [batch[label].interval().high for label in ("yes", "no", "hours")]
    assert highs == [40 + narrow, 30 + narrow, 2000 + wide]
    assert 30 * narrow < wide < 60 * narrow  # 2/1 against 100/1
    error = task_document(task)["error"]
    assert isinstance(error, dict)
    assert [run["values"] for run in error["sections"]] == [2, 1]
    assert [run["half_width"] for run in error["sections"]] == [narrow, wide]
    with pytest.raises(ParameterError, match="values: the task has 3, not 4"):
        Batch.of_document(task, document([1, 2, 3, 4], task=task))


def test_a_number_given_for_an_answer_is_not_divided_by_the_reports_of_everybody() -> None:
    task = make_task({"type": "Prio3Sections", "sections": "onehot:3 given:0,2,100"}, NO_NOISE)
    values: list[int | None] = [10, 30, 60, 200, 900]
    labels = ["works", "studies", "no answer", "hours of work", "hours of study"]
    batch = Batch.of_document(task, document(values, task=task), labels, unit="h")
    with pytest.raises(ParameterError, match="of those counted by 'works', not of all reports"):
        batch.share("hours of work")
    assert batch.share("no answer").value == Fraction(3, 5)
    assert batch.mean("hours of work").estimate == 20
    assert batch.mean("hours of work", "hours of study").estimate == Fraction(1100, 40)
    with pytest.raises(ParameterError, match="'works' is no number that is given"):
        batch.mean("works")
    with pytest.raises(ParameterError, match="name the numbers"):
        batch.mean()


def test_a_notebook_shows_what_is_promised_above_the_values() -> None:
    limited = make_task(privacy={**LAPLACE, "max_releases": 3})
    batch = Batch.of_document(limited, document([40, 30, 20, 10], task=limited), LABELS)
    lines = repr(batch).splitlines()
    assert lines[:2] == ["ε 0.5 a batch, 1.5 in all", "100 reports"]
    assert [line.partition(":")[0] for line in lines[2:]] == LABELS
    assert "ε 0.5 a batch, 1.5 in all" in batch._repr_html_()
    hidden = make_task(privacy=GEOMETRIC)
    some = Batch.of_document(hidden, document([60, None, None, 20], task=hidden), LABELS)
    assert "good: withheld\npoor: withheld\n" in repr(some)


def test_exact_results_have_no_noise() -> None:
    task = make_task(privacy=NO_NOISE)
    batch = Batch.of_document(task, document([4, 3, 2, 1], task=task), LABELS)
    assert batch["good"].interval().low == batch["good"].interval().high == 3


def test_values_above_a_threshold_know_it_and_withheld_ones_are_named() -> None:
    task = make_task(privacy=GEOMETRIC)
    batch = Batch.of_document(task, document([60, None, None, 20], task=task), LABELS)
    selected, *withheld, public = batch.quantities()
    assert isinstance(selected, Selected)
    assert (selected.threshold, selected.most, selected.label) == (16, 100, "very good")
    assert isinstance(public, Selected)
    assert public.threshold == 0
    assert [value.label for value in batch.shown] == ["very good", "very poor"]
    assert [(each.label, each.estimate) for each in withheld] == [("good", None), ("poor", None)]
    rows = batch.table().rows
    assert [row["method"] for row in rows][1:3] == ["withheld"] * 2
    assert [(row["value"], row["low"], row["high"]) for row in rows][1:3] == [(None, 0, 100)] * 2
    with pytest.raises(ParameterError, match="'poor' is withheld"):
        batch.share("poor")


def test_a_value_that_a_threshold_chose_knows_it_wherever_it_is_taken_from() -> None:
    task = make_task(privacy=GEOMETRIC)
    monday, tuesday = (
        Batch.of_document(task, document([60, 40, None, 20], task=task, release=release), LABELS)
        for release in ("monday", "tuesday")
    )
    shown = [monday["good"], monday.values["good"], monday.shown[1], monday.quantities()[1]]
    assert all(isinstance(value, Selected) for value in shown)
    assert len({value.interval().method for value in shown if value is not None}) == 1
    share, whole = monday.share("good").interval(), monday["good"].interval()
    assert (share.low, share.high) == (whole.low / 100, whole.high / 100)
    assert "given that the value passed" in share.method
    turned = (monday["good"] * -2).interval()
    assert (turned.low, turned.high) == (-2 * whole.high, -2 * whole.low)
    assert "given that the value passed" in compare(monday["good"], tuesday["good"]).interval.method


def test_sums_of_values_that_a_threshold_chose_are_refused_and_say_what_serves() -> None:
    task = make_task(privacy=GEOMETRIC)
    batch = Batch.of_document(task, document([60, 40, None, 20], task=task), LABELS)
    chosen, plain = batch["good"], Batch.of_document(TASK, document([40, 30, 20, 10]))["0"]
    assert isinstance(chosen, Selected)
    assert isinstance(plain, Noised)
    wrong: list[Callable[[Any], object]] = [
        lambda it: total([it, it]),
        lambda it: it + it,
        lambda it: it - 1,
        lambda it: 1 - it,
        lambda it: plain + it,
        lambda it: plain * it,
        lambda it: combination([(it, 2)]),
        lambda it: mean(it, 100),
        lambda it: ratio(it, plain),
        lambda it: Variance(plain, it, 100),
        lambda it: median([plain, it], [0, 1, 2]),
        lambda it: Tree([[plain, it]], []),
    ]
    for calculate in wrong:
        with pytest.raises(ParameterError, match=r"a Selected: .*`after_selection`"):
            calculate(chosen)
    whole = Batch.of_document(task, document([60, 40, 30, 20], task=task), LABELS)
    with pytest.raises(ParameterError, match="'very good' is a Selected"):
        whole.plain()
    (interval,) = after_selection([chosen.released * 2], 4)
    assert "Bonferroni over the 4" in interval.method


def test_labels_that_do_not_fit_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ParameterError, match="labels must be 4 different texts"):
        Batch.of_document(TASK, document([4, 3, 2, 1]), ["good", "poor"])
    with pytest.raises(ParameterError, match="labels must be 4 different texts"):
        Batch.of_document(TASK, document([4, 3, 2, 1]), ["a", "a", "b", "c"])
    with pytest.raises(ParameterError, match="there is no 'fair', only 0, 1, 2, 3"):
        Batch.of_document(TASK, document([4, 3, 2, 1]))["fair"]


def test_documents_that_are_no_result_of_the_task_are_refused() -> None:
    other = make_task(privacy=LAPLACE, id="A" * 43)
    with pytest.raises(ParameterError, match="not of the task"):
        Batch.of_document(other, document([4, 3, 2, 1]))
    with pytest.raises(ParameterError, match="no result yet"):
        Batch.of_document(TASK, {"result": None})
    with pytest.raises(ParameterError, match="has not the values"):
        Batch.of_document(TASK, {"task_id": str(TASK.task_id), "values": ["4"]})


def test_the_first_lines_of_the_page_on_results_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(aggregator.__file__).parents[1] / "docs" / "results.md").read_text("utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {
        "text_of_the_task_file": task_text(privacy=LAPLACE),
        "first_document": document([40, 30, 20, 10]),
        "second_document": document([10, 20, 30, 40], TIME_PRECISION, release="second"),
    }
    exec(code, names)  # noqa: S102 - our own page
    assert "cannot be concluded" in capsys.readouterr().out
    both = names["both"]
    assert isinstance(both, Noised)
    assert both.interval().high == 50 + 23
    assert len((tmp_path / "monday.csv").read_text("utf-8").splitlines()) == 5
