"""What a survey costs, as a collector's pages say it: no less than people pay."""

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.survey_costs import survey_cost
from aggregator.protocol.task import Task
from aggregator.steward.survey import Meaning, survey_from_toml
from aggregator.steward.survey.texts import plan_texts
from tests.support.surveys import VISITS, department, task_of
from tests.support.text import question_tasks

WORD = '[[question]]\nname = "word"\nkind = "text"\nepsilon = "1/4"\nbuckets = 16\ntasks = 8\n'


def test_text_questions_that_a_collector_has_are_in_the_sums_for_one_task_each() -> None:
    survey = survey_from_toml(VISITS + WORD + department())
    task = task_of(VISITS + WORD + department())
    (planned,) = plan_texts(survey)
    first = Asked(question_tasks(planned.question)[0], None)
    whole = survey_cost(Asked(task, Meaning.of_task(task)), 2, {first_meaning(task): [(first, 3)]})
    assert whole is not None
    assert whole.document == {
        "questions": 1,
        "window": "epsilon 1",  # 3/4 and 1/4, which is what the budget says
        "so_far": "epsilon 9/4",
        "at_most": None,  # nothing limits these tasks
        "text_questions": ["word"],
        "left_out": [],
    }
    besides = str(whole.besides)
    assert "includes text questions (word), for each of which a person is in one task" in besides


def first_meaning(task: Task) -> str:
    return Meaning.of_task(task).texts[0][1]


def test_text_questions_that_a_collector_has_not_are_named() -> None:
    task = task_of(VISITS + WORD + department())
    whole = survey_cost(Asked(task, Meaning.of_task(task)), 1)
    assert whole is not None
    assert whole.document == {
        "questions": 1,
        "window": "epsilon 3/4",
        "so_far": "epsilon 3/4",
        "at_most": "epsilon 39",
        "text_questions": ["word"],
        "left_out": ["word"],
    }
    assert "Text questions are not in this and add to it: word." in str(whole.besides)


def test_a_survey_without_them_has_nothing_to_add() -> None:
    task = task_of(VISITS + department())
    whole = survey_cost(Asked(task, Meaning.of_task(task)), 1)
    assert whole is not None
    assert whole.besides is None
