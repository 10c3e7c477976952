"""Text questions in a survey file: what they take of the budget, and which tasks they become."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from aggregator.client.table_files.cells import CellError
from aggregator.client.table_files.table import Table
from aggregator.client.text.beside_survey import check_bound
from aggregator.dp.group import Group
from aggregator.dp.rationals import parse_rational
from aggregator.errors import ParameterError
from aggregator.steward.survey import Columns, plan, read_answers, survey_from_toml
from aggregator.steward.survey.bundle import task_tables, text_tables
from aggregator.steward.survey.texts import plan_texts
from aggregator.steward.survey.write_meaning import Meaning
from tests.support.surveys import VISITS, department
from tests.support.tasks import HELPER_URL, LEADER_URL, make_task
from tests.support.texts import WORD, Texts, texts_in

SURVEY = VISITS + WORD + department()


def test_a_text_question_takes_its_epsilon_out_of_the_budget_of_a_person() -> None:
    survey = survey_from_toml(SURVEY)
    assert [each.name for each in survey.texts] == ["word"]
    assert [each.question.name for each in survey.questions] == ["department"]
    (text,) = plan_texts(survey)
    of_report = parse_rational(str(plan(survey).privacy["epsilon"]), "epsilon")
    assert of_report + text.question.epsilon == survey.budget.epsilon == Fraction(1)


@pytest.mark.slow
def test_gaussian_noise_keeps_to_what_text_questions_leave_of_the_budget() -> None:
    visits = VISITS.replace("[budget]", 'tables = "all"\n[budget]\ndelta = "1e-6"')
    more = [department().replace('"department"', f'"department{number}"') for number in range(8)]
    survey = survey_from_toml(visits + WORD + "".join(more))
    planned = plan(survey)
    assert planned.mechanism.name == "DiscreteGaussian"
    of_report = planned.mechanism.guarantee(planned.sheet.circuit).epsilon
    assert of_report is not None
    (text,) = plan_texts(survey)
    assert of_report + text.question.epsilon <= Fraction(1)


def test_a_survey_of_text_questions_alone_spends_all_of_its_budget_on_them() -> None:
    half = WORD.replace('"1/4"', '"1/2"')
    survey = survey_from_toml(VISITS + half + half.replace('"word"', '"place"'))
    assert not survey.questions
    planned = plan_texts(survey)
    assert sum(each.question.epsilon for each in planned) == survey.budget.epsilon == 1
    (bound,) = {each.question.survey for each in planned}
    meaning = Meaning.from_json(bound)
    assert (meaning.title, meaning.asked, meaning.windows) == (
        "Visits",
        "patients",
        survey.windows,
    )
    assert dict(meaning.texts) == {each.asked.name: each.question.meaning.hex() for each in planned}
    with pytest.raises(ParameterError, match="not that of a survey"):
        Meaning.from_json(bound.replace('"texts":{', '"tables":[],"none":{'))


def test_its_tasks_are_a_group_of_the_surveys_people_and_windows() -> None:
    survey = survey_from_toml(SURVEY)
    (text,) = plan_texts(survey)
    tasks = [
        make_task(each.vdaf, each.privacy, **each.settings) for each in text_tables(survey, text)
    ]
    text.question.check(tasks)
    meaning = text.question.meaning.hex()
    assert [each.policy.group for each in tasks] == [Group(meaning, place) for place in range(8)]
    for task in tasks:
        assert task.policy.population == "patients"
        assert task.policy.max_releases == 52
        assert task.policy.window is not None
        assert task.policy.window.length * task.time_precision == 7 * 86_400
        assert task.title == "Visits, word"


def test_whoever_hands_out_files_cannot_put_another_text_question_beside_a_survey() -> None:
    """Nor one that costs more, nor the same one with tasks whose aggregators are one, nor none."""
    asked = SURVEY.replace("min_batch_size = 3", "min_batch_size = 64")
    survey = survey_from_toml(asked)
    tables = task_tables(survey, plan(survey))
    task = make_task(tables.vdaf, tables.privacy, **tables.settings)
    meaning = Meaning.of_task(task)
    check_bound(task, dict(meaning.texts), texts_in(asked))
    dearer = asked.replace('epsilon = "1/4"', 'epsilon = "3/4"')
    longer = asked.replace("windows = 52", "windows = 104")
    later = asked.replace("2026-11-02", "2026-11-09")
    assert dearer != asked != longer
    refused: dict[str, Texts] = {
        "word: the survey has it, and its files are missing": {},
        "more: the survey has no such question": texts_in(
            asked + WORD.replace('"word"', '"more"').replace('"1/4"', '"1/8"')
        ),
        "word: is another one than the survey's": texts_in(dearer),
        "word: its tasks have another leader than": texts_in(asked, leader=HELPER_URL),
        "word: its tasks have another helper than": texts_in(asked, helper=LEADER_URL),
        "word: its tasks have another max_releases than": texts_in(longer),
        "word: its tasks have another interval than": texts_in(later),
        "word: its tasks have a smaller min_batch_size": texts_in(asked, min_batch_size=1),
    }
    for said, texts in refused.items():
        with pytest.raises(ParameterError, match=f"text question {said}"):
            check_bound(task, dict(meaning.texts), texts)


def test_two_text_questions_of_one_text_have_different_hashes_and_tosses() -> None:
    other = WORD.replace('"word"', '"another"')
    first, second = plan_texts(survey_from_toml(SURVEY + other))
    assert first.question.meaning != second.question.meaning


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"1/4"', '"1"', "word: epsilon: text questions take 1 of the budget's 1"),
        ('epsilon = "1/4"\n', "", "question word: epsilon: missing"),
        ("buckets = 16", "buckets = 15", "question word: buckets: must be at least 16, not 15"),
        ("tasks = 8", "tasks = 7", "question word: tasks: must be at least 8, not 7"),
        ("tasks = 8", "weight = 2", "question word: weight: no such setting here"),
        ('"word"', '"department"', "question: 2 have the name 'department'"),
        ('epsilon = "1"', 'rho = "1"', "a text question takes epsilon, so budget needs epsilon"),
        (department(), "", "text questions take 1/4 of the budget's 1, and without others they"),
        ('asked = "patients"', 'asked = "patients"\ntexts = []', "texts: no such setting"),
    ],
)
def test_a_fault_in_a_text_question_is_told_with_its_name(old: str, new: str, said: str) -> None:
    assert old in SURVEY
    with pytest.raises(ParameterError, match=said):
        survey_from_toml(SURVEY.replace(old, new))


def test_whoever_wrote_nothing_is_read_like_everybody() -> None:
    survey = survey_from_toml(SURVEY)
    columns = Columns("time", "person", missing=("n/a",))
    names = ["time", "person", "department", "word"]
    rows = [
        ["2026-11-03", "1", "surgery", " Back "],
        ["2026-11-03", "2", "", "n/a"],
        ["2026-11-10", "1", "surgery", ""],
    ]
    questions = [each.question for each in survey.questions]
    read = read_answers(
        Table.of_rows(names, rows), questions, survey.windows, columns, survey.texts
    )
    assert read.count == 3
    first, second = (datetime(2026, 11, day, tzinfo=UTC) for day in (2, 9))
    assert read.persons == {first: ["1", "2"], second: ["1"]}
    assert read.written == {first: [{"word": "Back"}, {"word": ""}], second: [{"word": ""}]}
    other = Columns("time", "person", {"word": ["wort"]})
    with pytest.raises(CellError, match="column 'wort': not in the table"):
        read_answers(Table.of_rows(names, []), questions, survey.windows, other, survey.texts)
