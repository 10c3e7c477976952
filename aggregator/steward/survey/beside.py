"""The survey file beside a survey's task, from which its page has all that is not in the task."""

from collections.abc import Sequence
from datetime import datetime

from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.errors import ParameterError
from aggregator.steward.survey.model import Survey, survey_from_toml
from aggregator.steward.survey.texts import title_of
from aggregator.steward.survey.wording import Wording
from aggregator.steward.survey.write_meaning import Meaning

SURVEY_FILE = "survey.toml"
"""What the file is called there."""


def wording_of(text: str, asked: AskedSurvey, now: datetime) -> Wording:
    """Return what a survey file says besides what is asked.

    Raises `ParameterError` if the file has a fault, asks anything else than the survey, or lacks a
    translation that the survey is bound to.
    """
    survey = survey_from_toml(text, now)
    meaning = Meaning.from_json(asked.meaning)
    for name, own, other in (
        ("title", survey.title, meaning.title),
        ("asked", survey.asked, meaning.asked),
        ("question", [each.question for each in survey.questions], meaning.sheet.questions),
        ("question", _texts_in(survey), sorted(each.title for each, _ in asked.texts.values())),
    ):
        if own != other:
            raise ParameterError(f"{name}: must be as people are asked: its task is of another")
    survey.check_bound(meaning.translations)
    return survey


def unbound(wording: Wording, asked: AskedSurvey) -> list[str]:
    """Return the languages that were added after the tasks were made, which bind all others."""
    bound = dict(Meaning.from_json(asked.meaning).translations)
    return [each for each in wording.translations if each not in bound]


def _texts_in(survey: Survey) -> Sequence[str]:
    return sorted(title_of(survey, each) for each in survey.texts)
