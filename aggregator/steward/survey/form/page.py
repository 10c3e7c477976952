"""The page of a survey, as one file that needs no other and can lie anywhere.

Everybody who makes the page from the same task with the same version gets the same file, byte for
byte, so that a served page can be compared with it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape, unescape
from importlib.resources import files
from types import MappingProxyType

from aggregator.client.module import for_page
from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.client.survey.texts import SpelledTexts
from aggregator.dap.urls import read_endpoint
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_for_clients
from aggregator.steward.survey.form.parts import Part
from aggregator.steward.survey.form.promises import what_happens
from aggregator.steward.survey.form.translations import WORDS
from aggregator.steward.survey.form.written import WrittenPart, wording
from aggregator.steward.survey.write_meaning import Meaning

Words = Mapping[str, str]

_POLICY = re.compile(r'<meta http-equiv="content-security-policy" content="([^"]*)">')

_SOURCE = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")
"""An origin that a policy can name. Source: W3C, Content Security Policy, "Source Lists"."""


def form_page(
    asked: AskedSurvey,
    words: Words = WORDS,
    spelled: SpelledTexts = MappingProxyType({}),
    draft: str = "",
) -> str:
    """Return the page of a survey.

    Args:
        asked: The survey.
        words: Every string that is not the survey's own.
        spelled: The windows in which letters are asked for instead, by the question's name.
        draft: What tells drafts of a survey apart: a browser that answered another answers again.

    Raises:
        ParameterError: A page has no form for a question with this many labels; or a policy cannot
            name the aggregators.
    """
    origins, meaning = _origins(asked.first), Meaning.from_json(asked.meaning)
    title, sheet, texts = meaning.title, asked.sheet, asked.texts
    parts = [
        Part(number, question, words, is_hidden=bool(needs))
        for number, (question, needs) in enumerate(
            zip(meaning.sheet.questions, sheet.routing.needs, strict=True)
        )
    ]
    written = [
        WrittenPart(
            number,
            wording(texts[name][0], title, name),
            *texts[name],
            needs=sheet.routing.texts[name],
            spelled=spelled.get(name, ()),
        )
        for number, (name, _) in enumerate(meaning.texts, len(parts))
    ]
    both: list[Part | WrittenPart] = [*parts, *written]
    count = sum(not part.is_hidden for part in both)
    fields = "".join(
        part.html(words, sum(not each.is_hidden for each in both[: number + 1]), count)
        for number, part in enumerate(both)
    )
    windows = [each for of_question in spelled.values() for each in of_question]
    described = sheet.data()
    script = for_page(has_texts=bool(written)) + _file("form.js")
    style = _file("form.css")
    data = json.dumps(
        {
            "name": f"{asked.digest.hex()} {draft}".rstrip(),
            "draft": draft,
            "task": None if asked.task is None else task_for_clients(asked.task),
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
            f"connect-src {' '.join(origins)}",
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
{what_happens(asked, words, windows)}
<form novalidate autocomplete="off">
<div id="faults" role="alert" hidden><p>{escape(words["faults"])}</p><ul></ul></div>
{fields}{_not_here(words) if written else ""}<button>{escape(words["send"])}</button>
</form>
<section id="after" hidden><h2 tabindex="-1">{escape(words["thanks"])}</h2></section>
<p id="status" role="status"></p>
<p id="again" class="soft"></p>
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


def _not_here(words: Words) -> str:
    """Return the words shown instead of text questions by a browser that cannot ask them."""
    return f'<p class="soft" id="not-here" hidden>{escape(words["not_here"])}</p>\n'


def _origins(task: Task) -> list[str]:
    """Return the only origins that the page may talk to; refuse one that a policy cannot name."""
    origins = {
        "leader": read_endpoint(task.configuration.leader_aggregator_endpoint, "leader").origin,
        "helper": read_endpoint(task.configuration.helper_aggregator_endpoint, "helper").origin,
    }
    for name, origin in origins.items():
        if not _SOURCE.fullmatch(origin):
            raise ParameterError(
                f"{name}: a page's content security policy must name the host, which it can if "
                "that is letters, digits, - and ., not if it has _ or is an IPv6 address"
            )
    return sorted({*origins.values()})


def _file(name: str) -> str:
    return (files("aggregator.steward.survey.form") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
