"""The page of a survey, as one file that needs no other and can lie anywhere.

Everybody who makes the page from the same task with the same version gets the same file, byte for
byte, so that a served page can be compared with it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import urlsplit

from aggregator.client.module import PROFILES, joined_module, joined_text
from aggregator.client.survey.sheet import AnswerSheet
from aggregator.client.text.question import TextQuestion
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task, task_for_clients
from aggregator.steward.survey.form.promises import what_happens
from aggregator.steward.survey.form.words import WORDS, filled
from aggregator.steward.survey.form.written import WrittenPart, wording
from aggregator.steward.survey.meaning import Meaning
from aggregator.steward.survey.questions.base import Question, as_text
from aggregator.steward.survey.questions.labels import Choice, Multiple, YesNo
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale
from aggregator.steward.survey.texts import check_bound

Words = Mapping[str, str]
Texts = Mapping[str, tuple[TextQuestion, Sequence[Task]]]
"""Text questions by name, each with its tasks."""

_POLICY = re.compile(r'<meta http-equiv="content-security-policy" content="([^"]*)">')

MOST_OPTIONS = 200
"""The most labels of a question: nobody would read through more."""


def check_task(task: Task) -> None:
    """Refuse a task that a page cannot send reports to.

    Raises:
        ParameterError: The task is in a group, in which each person has one task, or its profile
            is one that the browser module does not speak.
    """
    group = task.policy.group
    if group is not None:
        raise ParameterError(
            f"group: the task has place {group.place} in {group.name!r}, and a person is in one "
            "place of a group; a page tosses for one of all, so make it from the task.toml of the "
            "survey that they belong to"
        )
    if task.profile not in PROFILES:
        raise ParameterError(
            f"a page speaks {' and '.join(each.name for each in PROFILES)}, not {task.profile.name}"
        )


def form_page(
    task: Task,
    meaning: Meaning,
    words: Words = WORDS,
    texts: Texts = MappingProxyType({}),
) -> str:
    """Return the page of a survey.

    Args:
        task: The survey's task.
        meaning: What the survey asks.
        words: Every string that is not the survey's own.
        texts: The survey's text questions.

    Raises:
        ParameterError: A page has no form for a question of this kind or with this many labels; the
            text questions are not those of the survey; or `check_task` raises it.
    """
    check_task(task)
    check_bound(task, meaning, texts)
    title, sheet = meaning.title, AnswerSheet.of_task(task)
    parts = [
        _Part(number, question, words, is_hidden=bool(needs))
        for number, (question, needs) in enumerate(
            zip(meaning.sheet.questions, sheet.needs, strict=True)
        )
    ]
    written = [
        WrittenPart(number, wording(texts[name][0], title, name), *texts[name])
        for number, (name, _) in enumerate(meaning.texts, len(parts))
    ]
    both: list[_Part | WrittenPart] = [*parts, *written]
    count = sum(not part.is_hidden for part in both)
    fields = "".join(
        part.html(words, sum(not each.is_hidden for each in both[: number + 1]), count)
        for number, part in enumerate(both)
    )
    described = sheet.data()
    modules = (joined_module(), joined_text()) if written else (joined_module(),)
    script = "".join(map(_inline, modules)) + _file("form.js")
    style = _file("form.css")
    data = json.dumps(
        {
            "task": task_for_clients(task),
            "window": {"seconds": meaning.windows.seconds, "offset": meaning.windows.offset},
            "questions": [
                part.data() | question
                for part, question in zip(parts, described["questions"], strict=True)
            ],
            "texts": [part.data() for part in written],
            "tables": described["tables"],
            "words": dict(words),
        },
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
    )
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            f"connect-src {' '.join(_origins(task))}",
            "img-src data:",
            "form-action 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
        )
    )
    return f"""<!doctype html>
<html lang="{escape(words["lang"])}" dir="{escape(words["dir"])}">
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{style}</style>
<main>
<h1>{escape(title)}</h1>
<noscript><p>{escape(words["no_script"])}</p></noscript>
{what_happens(task, words, [question for question, _ in texts.values()])}
<form novalidate autocomplete="off">
<div id="faults" role="alert" hidden><p>{escape(words["faults"])}</p><ul></ul></div>
{fields}{_not_here(words) if written else ""}<button>{escape(words["send"])}</button>
</form>
<section id="after" hidden><h2 tabindex="-1">{escape(words["thanks"])}</h2></section>
<p id="status" role="status"></p>
</main>
<script type="application/json" id="survey">{data.replace("<", chr(92) + "u003c")}</script>
<script type="module">{script}</script>
</html>
"""


def policy_of(page: str) -> str:
    """Return the content security policy that a page states, for its server to send as well."""
    found = _POLICY.search(page)
    assert found is not None, "every page states one"  # noqa: S101  as `form_page` makes them
    return unescape(found[1])


def fingerprint(page: str) -> str:
    """Return a page's SHA-256 in hexadecimal, by which pages are compared."""
    return hashlib.sha256(page.encode()).hexdigest()


class _Part:
    """One question of the page.

    Attributes:
        is_hidden: Whether it appears only once other questions are answered.
    """

    def __init__(self, number: int, question: Question, words: Words, *, is_hidden: bool) -> None:
        self._number, self._question, self._words = number, question, words
        self.is_hidden = is_hidden
        self._labels = _labels_of(question, words)
        if len(self._labels) > MOST_OPTIONS:
            raise ParameterError(
                f"question {question.name}: a page shows at most {MOST_OPTIONS} labels, "
                f"not {len(self._labels)}"
            )

    @property
    def _text(self) -> str:
        return self._question.text or self._question.name

    def _names(self) -> dict[str, str]:
        """Return the values of names in braces, in the words about this question."""
        match self._question:
            case Number(low=low, high=high, step=step):
                return {"low": as_text(low), "high": as_text(high), "step": as_text(step)}
            case Multiple(labels=labels, at_most=at_most):
                return {"most": str(at_most or len(labels))}
            case _:
                return {}

    def data(self) -> dict[str, object]:
        """Return the question's data for the script."""
        return {"text": self._text, "names": self._names()}

    def html(self, words: Words, place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first."""
        number = self._number
        said = filled(words["question"], number=str(place), count=str(count))
        is_some, is_number = (
            isinstance(self._question, Multiple),
            isinstance(self._question, Number),
        )
        kind = "checkbox" if is_some or is_number else "radio"
        fields = [self._option(kind, str(value), label) for value, label in enumerate(self._labels)]
        if is_some:
            fields.append(self._option(kind, "none", words["none"]))
        if is_number:
            unit = getattr(self._question, "unit", "")
            fields.append(
                f'<div class="amount"><input id="q{number}-number" name="q{number}-number" '
                f'type="text" inputmode="decimal" aria-labelledby="q{number}-legend" '
                f'aria-describedby="q{number}-hint q{number}-fault"> {escape(unit)}</div>\n'
            )
        fields.append(self._option(kind, "skip", words["skip"]))
        return (
            f'<fieldset aria-describedby="q{number}-hint q{number}-fault"'
            f"{' hidden' if self.is_hidden else ''}>"
            f'<legend id="q{number}-legend"><small>{escape(said)}</small>{escape(self._text)}'
            f'</legend>\n<p class="soft" id="q{number}-hint">{escape(self._hint())}</p>\n'
            f'<p class="fault" id="q{number}-fault" hidden></p>\n{"".join(fields)}</fieldset>\n'
        )

    def _hint(self) -> str:
        words = self._words
        match self._question:
            case Number(step=step):
                name = "number" if step == 1 else "number_in_steps"
                return filled(words[name], **self._names())
            case Multiple(labels=labels, at_most=at_most):
                is_bound = at_most is not None and at_most < len(labels)
                name = "choose_at_most" if is_bound else "choose_some"
                return filled(words[name], **self._names())
            case _:
                return words["choose_one"]

    def _option(self, kind: str, value: str, label: str) -> str:
        name = f"q{self._number}"
        return (
            f'<label class="option" for="{name}-{value}"><input type="{kind}" name="{name}" '
            f'id="{name}-{value}" value="{value}"> <span>{escape(label)}</span></label>\n'
        )


def _labels_of(question: Question, words: Words) -> Sequence[str]:
    match question:
        case Choice(labels=labels) | Multiple(labels=labels):
            return labels
        case YesNo():
            return (words["yes"], words["no"])
        case Scale(points=points):
            return points
        case Bins(labels=labels, unit=unit):
            return [f"{label} {unit}".rstrip() for label in labels]
        case Number():
            return ()
        case _:
            kind = question.model_dump()["kind"]
            raise ParameterError(f"question {question.name}: a page has no form for a {kind}")


def _not_here(words: Words) -> str:
    """Return the words shown instead of text questions by a browser that cannot ask them."""
    return f'<p class="soft" id="not-here" hidden>{escape(words["not_here"])}</p>\n'


def _origins(task: Task) -> list[str]:
    """Return the only origins that the page may talk to."""
    urls = (
        task.configuration.leader_aggregator_endpoint,
        task.configuration.helper_aggregator_endpoint,
    )
    return sorted({f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, urls)})


def _inline(module: str) -> str:
    """Return a module without imports and exports, to be put before the page's own script."""
    lines = module.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("import ", "export ")))


def _file(name: str) -> str:
    return (files("aggregator.steward.survey.form") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
