"""What pages say of a result: as one would say it, and no more than the noise lets one say."""

import html
import random
import re
from fractions import Fraction

import pytest

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.changes import Changed
from aggregator.collector.pages.sentences import change, groups_that_differ, most_frequent
from aggregator.collector.results import Noised
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.steward.survey import Figure, Meaning
from tests.support.collector_world import survey_task

LAW = DiscreteLaplaceLaw(2, Fraction(10))
TASK = survey_task(("good", "poor"), "How is it?")
WEEKLY = Asked(TASK, Meaning.of_task(TASK))


def text(markup: str | None) -> str:
    return html.unescape(re.sub("<[^>]*>", "", markup or ""))


def counted(label: str, value: int, group: str = "") -> Figure:
    noised = Noised.released(value, LAW, (label, group), label=label)
    return Figure("count", noised, is_wanted=True, group=group)


@pytest.mark.parametrize(
    ("rose", "fell", "left", "said"),
    [
        (["good"], [], ["fair", "poor"], "Only “good” rose; for the others two weeks cannot tell."),
        ([], ["poor"], ["good"], "Only “poor” fell; for the others two weeks cannot tell."),
        (["good"], ["poor"], ["fair"], "“good” rose and “poor” fell; for the others two weeks"),
        (["good", "fair"], ["poor"], [], "“good” and “fair” rose and “poor” fell."),
        ([], [], ["good", "poor"], "Whether anything rose or fell, two weeks cannot tell."),
        ([], [], [""], "Whether it rose or fell, two weeks cannot tell."),
        ([""], [], [], "It rose."),
        (["a", "b", "c", "d", "e"], [], [], "“a”, “b” and 3 more rose."),
    ],
)
def test_a_change_is_said_as_one_would_say_it(
    rose: list[str], fell: list[str], left: list[str], said: str
) -> None:
    assert text(change(Changed("last week", rose, fell, left), WEEKLY)).startswith(said)


def test_other_people_s_labels_are_text_in_sentences() -> None:
    said = change(Changed("", ["<b>good</b>"], [], ["poor"]), WEEKLY)
    assert said is not None
    assert "<b>" not in said
    assert "&lt;b&gt;good" in said


def test_an_answer_is_the_most_frequent_only_if_all_others_surely_are_less_frequent() -> None:
    far = [counted("a", 900), counted("b", 500), counted("c", 100)]
    assert most_frequent(tuple(far)) == ["a"]
    near = [counted("a", 100), counted("b", 890), counted("c", 900)]
    assert most_frequent(tuple(near)) == ["b", "c"]


def test_the_answer_that_is_most_frequent_in_truth_is_among_those_that_are_named() -> None:
    """Of 400 releases of six answers that are nearly equal, more than 40 miss below 10^-4."""
    made = random.Random(3)  # noqa: S311  made-up noise
    missed = 0
    for _ in range(400):
        noise = [
            sum(round(10 * made.expovariate(1) * made.choice((-1, 1))) for _ in range(2))
            for _ in range(6)
        ]
        truth = [100, 99, 99, 98, 97, 97]
        shown = [
            counted(str(place), value + added)
            for place, (value, added) in enumerate(zip(truth, noise, strict=True))
        ]
        missed += "0" not in most_frequent(tuple(shown))
    assert missed <= 40


def test_groups_differ_only_if_the_noise_cannot_explain_it() -> None:
    day, night, noon = (
        counted("late", count, group)
        for group, count in (("day", 100), ("night", 900), ("noon", 110))
    )
    differ = groups_that_differ(((day, night), (day, noon), (noon, night)))
    assert [(more.group, less.group) for more, less in differ] == [
        ("night", "day"),
        ("night", "noon"),
    ]
