"""What a survey costs, as a collector's pages say it: no less than people pay."""

from aggregator.collector.pages.readings import Asked
from aggregator.collector.pages.together import together
from aggregator.steward.survey import Meaning
from tests.support.surveys import VISITS, department, task_of

WORD = '[[question]]\nname = "word"\nkind = "text"\nepsilon = "1/4"\nbuckets = 16\ntasks = 8\n'


def test_text_questions_are_named_which_cost_besides() -> None:
    task = task_of(VISITS + WORD + department())
    whole = together(Asked(task, Meaning.of_task(task)), 1)
    assert whole is not None
    assert whole.document == {
        "questions": 1,
        "window": "epsilon 3/4",
        "so_far": "epsilon 3/4",
        "at_most": "epsilon 39",
        "text_questions": ["word"],
    }
    assert "Text questions are not in this and add to it: word." in str(whole.besides)


def test_a_survey_without_them_has_nothing_to_add() -> None:
    task = task_of(VISITS + department())
    whole = together(Asked(task, Meaning.of_task(task)), 1)
    assert whole is not None
    assert whole.besides is None
