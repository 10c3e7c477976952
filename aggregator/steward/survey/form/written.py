"""The page's part for a question answered in people's own words: its fields and its tasks."""

import json
from collections.abc import Sequence

from aggregator.client.survey.routing import Needs
from aggregator.client.text.fitting import SpelledWindow
from aggregator.client.text.question import TextQuestion
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_for_clients
from aggregator.steward.survey.form.parts import fieldset, labelled_number, option, range_names
from aggregator.steward.survey.form.texts import Texts
from aggregator.steward.survey.questions.base import NumberField
from aggregator.steward.survey.said import Own, Said

MOST_CHARACTERS = 200
"""The most characters of a field. Every string counts, but a longer one is never written twice."""
_NAMES = {"most": str(MOST_CHARACTERS)}


class WrittenPart:
    """One text question of the page; if hidden, it appears only once others are answered.

    The text is given in each language, and so is the number that is asked for beside it, or the
    question by whose answers it is counted, if there is one.
    """

    def __init__(
        self,
        number: int,
        asked: Sequence[str],
        question: TextQuestion,
        tasks: Sequence[Task],
        texts: Texts,
        *,
        needs: Needs,
        spelled: Sequence[SpelledWindow],
        amount: Sequence[NumberField],
        by: Sequence[str],
    ) -> None:
        self._amount, self._by = amount, [Own(each) for each in by]
        self._spelled, self._texts = spelled, texts
        self._needs, self.is_hidden = needs, bool(needs)
        self._number, self._text = number, [Own(each) for each in asked]
        self._question, self._tasks = question, tasks

    def data(self) -> dict[str, object]:
        """Return the question's data for the script; the survey's own report has none of it."""
        of_amount = {"grid": self._amount[0].grid.data()} if self._amount else {}
        return {
            "kind": "text",
            "text": self._texts.data(self._text),
            "names": _NAMES | (range_names(self._amount[0]) if self._amount else {}),
            **of_amount,
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

    def html(self, place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first.

        Nobody else may learn what is written: some browsers send text that they check for spelling,
        or complete, to their makers.
        """
        name = f"q{self._number}"
        hints: list[Said | Sequence[Own]] = [Said("write", _NAMES)]
        if len(self._text) > 1:
            hints.append(Said("write_apart"))
        if self._by:
            hints += [Said("write_by"), self._by]
        field = (
            f'<div class="written"><input id="{name}-text" name="{name}-text" type="text" '
            f'dir="auto" maxlength="{MOST_CHARACTERS}" autocomplete="off" autocapitalize="none" '
            'autocorrect="off" spellcheck="false" writingsuggestions="false" '
            f'aria-labelledby="{name}-legend" aria-describedby="{name}-hint {name}-fault"></div>\n'
        )
        if self._amount:
            field += labelled_number(self._texts, name, f"{name}-number", self._amount)
        skip = option(self._texts, "checkbox", name, "skip", Said("skip"))
        return fieldset(
            self._texts,
            name,
            question=(self._text, place, count),
            hints=hints,
            fields=field + skip,
            is_hidden=self.is_hidden,
        )


def text_of(question: TextQuestion, survey: str, name: str) -> str:
    """Return how a survey's text question is asked: its title without survey and name."""
    asked = question.title.removeprefix(f"{survey}, {name}").removeprefix(": ")
    return asked or name
