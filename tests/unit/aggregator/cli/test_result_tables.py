"""A result on a terminal: values, error bars, what was withheld and by which rule."""

from fractions import Fraction

import pytest

from aggregator.cli.collector.tables import print_result
from aggregator.collector.documents import Document, result_document, with_post_processing
from aggregator.collector.results import Batch
from aggregator.collector.results.disclosure import disclose
from aggregator.collector.results.post_processing import Rule, post_process
from aggregator.collector.results.result import Result
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}


def result_of(task: Task, *sums: int) -> Result:
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    disclosure = disclose(task.policy, circuit, sums, 2000)
    return Result(
        values=disclosure.values,
        report_count=2000,
        interval=Interval.of(5, 1),
        release="ab" * 32,
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee(circuit),
        confidence=Fraction(95, 100),
        half_width=mechanism.half_width(circuit, Fraction(95, 100)),
        joint_half_width=mechanism.joint_half_width(circuit, Fraction(95, 100)),
        scale=mechanism.describe_scale(circuit),
        disclosure=disclosure,
    )


def printed(
    capsys: pytest.CaptureFixture[str], task: Task, result: Result, rule: Rule | None = None
) -> str:
    """Return what is printed, its lines joined."""
    collection: Document = {"result": result_document(task, result)}
    values = Batch.of_result(task, result, ["[red]", "b", "c", "d"]).quantities()
    print_result(with_post_processing(task, collection, rule), values)
    return " ".join(capsys.readouterr().out.split())


def test_noised_values_have_intervals_and_labels_as_they_were_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = make_task(privacy=LAPLACE)
    shown = printed(capsys, task, result_of(task, 1500, -3, 400, 98))
    assert "interval (95 %)" in shown
    assert "[red] │ 1,500 │ 1,484 to 1,516" in shown
    assert "b │ -3 │ -19 to 13" in shown
    assert "all at once: plus or minus 23" in shown


def test_values_of_a_section_have_the_interval_of_its_own_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vdaf = {"type": "Prio3Sections", "sections": "onehot:2 number:50 number:100"}
    task = make_task(vdaf, {**LAPLACE, "epsilon": "3", "shares": "3x1/3"})
    circuit, mechanism = task.prio3.circuit, task.policy.mechanism
    shown = printed(capsys, task, result_of(task, 1500, 500, 9000, 8000))
    widths = [width for _, width in mechanism.half_widths(circuit, Fraction(95, 100))]
    assert f"[red] │ 1,500 │ {1500 - widths[0]:,} to {1500 + widths[0]:,}" in shown
    assert f"b │ 500 │ {500 - widths[0]:,} to {500 + widths[0]:,}" in shown
    assert f"c │ 9,000 │ {9000 - widths[1]:,} to {9000 + widths[1]:,}" in shown
    assert f"d │ 8,000 │ {8000 - widths[2]:,} to {8000 + widths[2]:,}" in shown
    joint = mechanism.joint_half_width(circuit, Fraction(95, 100))
    assert f"all at once: plus or minus at most {joint:,}" in shown
    assert widths[0] < widths[1] < widths[2]


def test_a_label_does_not_turn_the_values_beside_it_around(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = make_task(privacy=LAPLACE)
    result = result_of(task, 1500, -3, 400, 98)
    values = Batch.of_result(task, result, ["a\u202e", "b", "c", "d"]).quantities()
    print_result({"result": result_document(task, result)}, values)
    shown = capsys.readouterr().out
    assert "a\\u202e" in shown
    assert "\u202e" not in shown


def test_post_processed_values_have_a_column_beside_the_raw_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = make_task(privacy=LAPLACE)
    result = result_of(task, 1500, -3, 400, 98)
    assert "b │ -3 │ -19 to 13 │ 0" in printed(capsys, task, result, Rule.CLAMP)
    shown = printed(capsys, task, result, Rule.SIMPLEX)
    assert "[red] │ 1,500 │ 1,484 to 1,516 │ 1,501" in shown
    assert "Post-processed: the nearest histogram" in shown
    exact = post_process(Rule.SIMPLEX, task.prio3.circuit, result.values, result.report_count)
    assert exact.values[2] == 400 + Fraction(2, 3)


def test_thresholds_are_told_with_what_they_withhold(capsys: pytest.CaptureFixture[str]) -> None:
    privacy = {**GEOMETRIC, "public_buckets": "1 2", "public_threshold": 3}
    task = make_task(privacy=privacy)
    shown = printed(capsys, task, result_of(task, 44, 5, 1, 1900), Rule.CLAMP)
    assert "[red] │ withheld │ │ withheld" in shown
    assert "shown: noised counts above 44, of the public buckets 1, 2 above 3; 2 withheld" in shown
    assert "before selection" in shown
    always = make_task(privacy={**GEOMETRIC, "public_buckets": "0"})
    assert "of the public buckets 0 always" in printed(
        capsys, always, result_of(always, 0, 0, 0, 9)
    )


def test_suppression_is_told_with_its_caveats(capsys: pytest.CaptureFixture[str]) -> None:
    privacy = {**NO_NOISE, "suppress_at_or_below": 5, "bound": False}
    task = make_task(privacy=privacy, min_batch_size=12)
    shown = printed(capsys, task, result_of(task, 3, 4, 93, 1900))
    assert "b │ withheld" in shown
    assert "93 │ exact" in shown
    assert "withheld: counts at or below 5, and those from which such a count follows" in shown
    assert "follows; 2 withheld" in shown
    assert "No guarantee: nothing is proved for Prio3Histogram." in shown
    assert "The collector sees every count" in shown
    assert "do not carry this privacy policy" in shown
