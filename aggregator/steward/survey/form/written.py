"""The page's part for a question answered in people's own words: its fields and its tasks."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from aggregator.client.survey.routing import Needs
from aggregator.client.text.fitting import SpelledWindow
from aggregator.client.text.question import TextQuestion
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_for_clients
from aggregator.steward.survey.form.translations import filled

MOST_CHARACTERS = 200
"""The most characters of a field. Every string counts, but a longer one is never written twice."""


class WrittenPart:
    """One text question of the page; if hidden, it appears only once others are answered."""

    def __init__(
        self,
        number: int,
        text: str,
        question: TextQuestion,
        tasks: Sequence[Task],
        needs: Needs = (),
        spelled: Sequence[SpelledWindow] = (),
    ) -> None:
        self._spelled = spelled
        self._needs, self.is_hidden = needs, bool(needs)
        self._number, self._text = number, text
        self._question, self._tasks = question, tasks

    def _names(self) -> dict[str, str]:
        """Return the values of names in braces, in the words about this question."""
        return {"most": str(MOST_CHARACTERS)}

    def data(self) -> dict[str, object]:
        """Return the question's data for the script; the survey's own report has none of it."""
        return {
            "kind": "text",
            "text": self._text,
            "names": self._names(),
            "needs": self._needs,
            "nothing": [],
            "description": json.loads(self._question.to_json(self._tasks)),
            "tasks": [task_for_clients(each) for each in self._tasks],
            "spelled": [
                {
                    "description": json.loads(each.spelling.to_json(each.tasks)),
                    "tasks": [task_for_clients(task) for task in each.tasks],
                }
                for each in self._spelled
            ],
        }

    def html(self, words: Mapping[str, str], place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first.

        Nobody else may learn what is written: some browsers send text that they check for spelling,
        or complete, to their makers.
        """
        name = f"q{self._number}"
        said = filled(words["question"], number=str(place), count=str(count))
        return (
            f'<fieldset aria-describedby="{name}-hint {name}-fault"'
            f"{' hidden' if self.is_hidden else ''}>"
            f'<legend id="{name}-legend"><small>{escape(said)}</small>{escape(self._text)}'
            f'</legend>\n<p class="soft" id="{name}-hint">'
            f"{escape(filled(words['write'], **self._names()))}</p>\n"
            f'<p class="fault" id="{name}-fault" hidden></p>\n'
            f'<div class="written"><input id="{name}-text" name="{name}-text" type="text" '
            f'dir="auto" maxlength="{MOST_CHARACTERS}" autocomplete="off" autocapitalize="none" '
            'autocorrect="off" spellcheck="false" writingsuggestions="false" '
            f'aria-labelledby="{name}-legend" aria-describedby="{name}-hint {name}-fault"></div>\n'
            f'<label class="option" for="{name}-skip"><input type="checkbox" name="{name}" '
            f'id="{name}-skip" value="skip"> <span>{escape(words["skip"])}</span></label>\n'
            "</fieldset>\n"
        )


def wording(question: TextQuestion, survey: str, name: str) -> str:
    """Return how a survey's text question is asked: its title without survey and name."""
    asked = question.title.removeprefix(f"{survey}, {name}").removeprefix(": ")
    return asked or name
