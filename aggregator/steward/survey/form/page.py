"""The page of a survey, as one file that needs no other and can lie anywhere.

It is the same file, byte for byte, for everybody who makes it from the same task with the same
version, so that a page that is served can be compared with it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from importlib.resources import files
from urllib.parse import urlsplit

from aggregator.client.module import PROFILES, joined_module
from aggregator.client.survey.sheet import AnswerSheet
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task, task_for_clients
from aggregator.steward.survey.form.words import WORDS, filled
from aggregator.steward.survey.meaning import Meaning
from aggregator.steward.survey.questions.base import Question, as_text
from aggregator.steward.survey.questions.labels import Choice, Multiple, YesNo
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale

Words = Mapping[str, str]

_POLICY = re.compile(r'<meta http-equiv="content-security-policy" content="([^"]*)">')

MOST_OPTIONS = 200
"""A question with more labels is nothing that a person reads through."""


def form_page(task: Task, meaning: Meaning, words: Words = WORDS) -> str:
    """Return the page of a survey.

    Args:
        task: Of the survey.
        meaning: What it asks.
        words: Every string that is not the survey's own.

    Raises:
        ParameterError: A question is of a kind, or has more labels, than a page has a form for, or
            a task follows what the module of browsers does not speak.
    """
    if task.profile not in PROFILES:
        raise ParameterError(
            f"a page speaks {' and '.join(each.name for each in PROFILES)}, not {task.profile.name}"
        )
    title, sheet = meaning.title, AnswerSheet.of_task(task)
    parts = [
        _Part(number, question, words, is_hidden=bool(needs))
        for number, (question, needs) in enumerate(
            zip(meaning.sheet.questions, sheet.needs, strict=True)
        )
    ]
    shown = [part for part in parts if not part.is_hidden]
    fields = "".join(
        part.html(sum(not each.is_hidden for each in parts[: number + 1]), len(shown))
        for number, part in enumerate(parts)
    )
    described = sheet.data()
    script = _module() + _file("form.js")
    style = _file("form.css")
    data = json.dumps(
        {
            "task": task_for_clients(task),
            "window": {"seconds": meaning.windows.seconds, "offset": meaning.windows.offset},
            "questions": [
                part.data() | question
                for part, question in zip(parts, described["questions"], strict=True)
            ],
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
{_what(task, words)}
<form novalidate autocomplete="off">
<div id="faults" role="alert" hidden><p>{escape(words["faults"])}</p><ul></ul></div>
{fields}<button>{escape(words["send"])}</button>
</form>
<section id="after" hidden><h2 tabindex="-1">{escape(words["thanks"])}</h2></section>
<p id="status" role="status"></p>
</main>
<script type="application/json" id="survey">{data.replace("<", chr(92) + "u003c")}</script>
<script type="module">{script}</script>
</html>
"""


def policy_of(page: str) -> str:
    """Return the content security policy that a page states, to be said by its server, too."""
    found = _POLICY.search(page)
    assert found is not None, "every page states one"  # noqa: S101  as `form_page` makes them
    return unescape(found[1])


def fingerprint(page: str) -> str:
    """Return what a page is compared by: its SHA-256, in hexadecimal."""
    return hashlib.sha256(page.encode()).hexdigest()


class _Part:
    """One question of the page.

    Attributes:
        is_hidden: Whether it is not asked before others are answered.
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
        """Return what stands for the names in braces of the words about this question."""
        match self._question:
            case Number(low=low, high=high, step=step):
                return {"low": as_text(low), "high": as_text(high), "step": as_text(step)}
            case Multiple(labels=labels, at_most=at_most):
                return {"most": str(at_most or len(labels))}
            case _:
                return {}

    def data(self) -> dict[str, object]:
        """Return what the script says of it."""
        return {"text": self._text, "names": self._names()}

    def html(self, place: int, count: int) -> str:
        """Return its fields; of so many that are shown at first it is the one at a place."""
        words, number = self._words, self._number
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


def _what(task: Task, words: Words) -> str:
    """Return what happens to the answers, closed until somebody asks."""
    configuration = task.configuration
    leader, helper = (
        f"<bdi>{escape(urlsplit(url).netloc)}</bdi>"
        for url in (
            configuration.leader_aggregator_endpoint,
            configuration.helper_aggregator_endpoint,
        )
    )
    is_noisy = task.policy.mechanism.is_noisy
    said = [
        filled(escape(words[name]), leader=leader, helper=helper)
        for name in (
            "what_split",
            "what_trust",
            "what_noise" if is_noisy else "what_exact",
            "what_page",
            "what_seen",
            "what_kept",
        )
    ]
    points = "".join(f"<li>{each}</li>" for each in said)
    return f"<details><summary>{escape(words['what'])}</summary><ul>{points}</ul></details>"


def _origins(task: Task) -> list[str]:
    """Return whom the page may talk to; nobody else."""
    urls = (
        task.configuration.leader_aggregator_endpoint,
        task.configuration.helper_aggregator_endpoint,
    )
    return sorted({f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, urls)})


def _module() -> str:
    """Return the module without its exports, to stand before the page's own script."""
    lines = joined_module().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("export "))


def _file(name: str) -> str:
    return (files("aggregator.steward.survey.form") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
