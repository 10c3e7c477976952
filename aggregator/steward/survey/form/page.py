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

from aggregator.client.module import LINKS_ORDER, SIGNED_ORDER, compact, for_page
from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.client.survey.texts import SpelledTexts
from aggregator.client.text.choices import ByChoice
from aggregator.dap.urls import read_endpoint
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import issuer_keys_to_table, task_for_clients
from aggregator.steward.survey.form.frame import ask_link, keep_choice, switch, thanks, who_asks
from aggregator.steward.survey.form.parts import Part
from aggregator.steward.survey.form.promises import what_happens
from aggregator.steward.survey.form.texts import Texts
from aggregator.steward.survey.form.written import WrittenPart, text_of
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.said import Own, Said
from aggregator.steward.survey.wording import Wording
from aggregator.steward.survey.write_meaning import Meaning

SCRIPTS = ("unsent.js", "language.js", "form.js")
"""The page's own scripts, in their order; before them that of links or permits, if it has one."""

_OF_PLACES = (
    "what",
    "no_script",
    "choose",
    "number",
    "write",
    "range",
    "asked_by",
    "contact",
    "privacy",
    "card",
    "scan",
)
"""How strings begin that nothing says but a place of the page, or what is printed."""

_POLICY = re.compile(r'<meta http-equiv="content-security-policy" content="([^"]*)">')

_SOURCE = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")
"""An origin that a policy can name. Source: W3C, Content Security Policy, "Source Lists"."""


def form_page(
    asked: AskedSurvey,
    wording: Wording | None = None,
    spelled: SpelledTexts = MappingProxyType({}),
    draft: str = "",
) -> str:
    """Return the page of a survey.

    Args:
        asked: The survey.
        wording: Who asks, and in which languages; without it, nobody says, and in English.
        spelled: The windows in which letters are asked for instead, by the question's name.
        draft: What tells drafts of a survey apart: a browser that answered another answers again.

    Raises:
        ParameterError: A page has no form for a question with this many labels; a policy cannot
            name the aggregators; or the tasks are bound to other translations.
    """
    origins, meaning = _origins(asked.first), Meaning.from_json(asked.meaning)
    wording = wording or Wording()
    wording.check_bound(meaning.translations)
    texts = Texts([wording.words_of(each) for each in wording.languages])
    titles = [Own(each) for each in wording.titles(meaning.title)]
    both = _parts(asked, meaning, wording, texts, spelled)
    count = sum(not part.is_hidden for part in both)
    fields = "".join(
        part.html(sum(not each.is_hidden for each in both[: number + 1]), count)
        for number, part in enumerate(both)
    )
    windows = [each for of_question in spelled.values() for each in of_question]
    about = wording.every_about
    title, heading = texts.tag("title", titles), texts.tag("h1", titles)
    above = switch(texts, wording.languages) + heading + who_asks(texts, about)
    happens = what_happens(asked, texts, about, windows)
    no_script = escape(texts.words[0]["no_script"])
    faults = texts.tag("p", Said("faults"))
    not_here = texts.tag("p", Said("not_here"), ' class="soft" id="not-here" hidden')
    keep, send = keep_choice(texts), texts.tag("button", Said("send"))
    after = texts.tag("h2", Said("thanks"), ' tabindex="-1"') + thanks(texts, about)
    keys, permits = asked.first.issuer_keys, asked.first.permits
    is_invited, is_signed = permits is not None and keys is None, keys is not None
    code = ask_link(texts) if is_invited else ""
    order = SIGNED_ORDER if is_signed else LINKS_ORDER if is_invited else ()
    script = for_page(has_texts=bool(asked.texts), permits=order)
    first = ["application.js"] if is_signed else ["link.js"] if is_invited else []
    script += "".join(compact(_file(name)) for name in (*first, *SCRIPTS))
    unused = [*([] if is_invited else ["link_"]), *([] if is_signed else ["permit_"])]
    style = _file("form.css")
    described = asked.sheet.data()
    data = json.dumps(
        {
            "name": f"{asked.digest.hex()} {draft}".rstrip(),
            "draft": draft,
            "task": None if asked.task is None else task_for_clients(asked.task),
            "window": {"seconds": meaning.windows.seconds, "offset": meaning.windows.offset},
            "questions": [
                part.data() | question
                for part, question in zip(both, described["questions"], strict=False)
            ],
            "texts": [part.data() for part in both[len(described["questions"]) :]],
            "tables": described["tables"],
            **({} if permits is None else {"invited": True}),
            **({} if keys is None else {"keys": issuer_keys_to_table(keys)}),
            "places": texts.places,
            "languages": [
                {
                    "tag": language,
                    "words": _needed(words, texts, unused),
                    "own": [each[number] for each in texts.own],
                }
                for number, (language, words) in enumerate(
                    zip(wording.languages, texts.words, strict=True)
                )
            ],
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
<html lang="{wording.language}" dir="{texts.words[0]["dir"]}">
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
{title}
<style>{style}</style>
<main>
{above}
<noscript><p>{no_script}</p></noscript>
{happens}
<form novalidate autocomplete="off">
<div id="faults" role="alert" hidden>{faults}<ul></ul></div>
{fields}{not_here if asked.texts else ""}{keep}{send}
</form>
{code}<section id="after" hidden>{after}</section>
<p id="status" role="status"></p>
<p id="again" class="soft"></p>
</main>
<script type="application/json" id="survey">{data.replace("<", chr(92) + "u003c")}</script>
<script type="module">{script}</script>
</html>
"""


def _parts(
    asked: AskedSurvey,
    meaning: Meaning,
    wording: Wording,
    texts: Texts,
    spelled: SpelledTexts,
) -> list[Part | WrittenPart]:
    """Return the questions in the page's order: those of the survey's own report first."""
    routing, sheet = asked.sheet.routing, meaning.sheet
    every = [wording.questions_in(each, sheet.questions) for each in wording.languages]
    parts = [
        Part(number, questions, texts, is_hidden=bool(needs))
        for number, (questions, needs) in enumerate(
            zip(zip(*every, strict=True), routing.needs, strict=True)
        )
    ]
    written = [
        WrittenPart(
            number,
            wording.texts_of(name, text_of(asked.texts[name][0], meaning.title, name)),
            *asked.texts[name],
            texts,
            needs=routing.texts[name],
            spelled=spelled.get(name, ()),
            amount=wording.amounts_of(name, asked.texts[name][0].amount),
            by=_asked_in(every, asked.texts[name][0].by),
        )
        for number, (name, _) in enumerate(meaning.texts, len(parts))
    ]
    return [*parts, *written]


def _asked_in(every: Sequence[Sequence[Question]], by: ByChoice | None) -> list[str]:
    """Return how the question is asked by which another one is counted, in each language."""
    named = (each for questions in every for each in questions if by and each.name == by.question)
    return [each.text or each.name for each in named]


def _needed(words: Mapping[str, str], texts: Texts, unused: Sequence[str]) -> Mapping[str, str]:
    """Return the strings that a script needs: not those of places that the page has not."""
    others = (*_OF_PLACES, *unused)
    return {
        name: text
        for name, text in words.items()
        if texts.is_used(name) or not name.startswith(others)
    }


def policy_of(page: str) -> str:
    """Return the content security policy that a page states, for its server to send as well."""
    found = _POLICY.search(page)
    assert found is not None, "every page states one"  # noqa: S101  as `form_page` makes them
    return unescape(found[1])


def fingerprint(page: str) -> str:
    """Return a page's SHA-256 in hexadecimal, by which pages are compared."""
    return hashlib.sha256(page.encode()).hexdigest()


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
