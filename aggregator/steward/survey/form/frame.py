"""What stands around the questions of a page: its languages, who asks, and thanks."""

import re
from collections.abc import Sequence
from html import escape

from aggregator.steward.survey.about import About
from aggregator.steward.survey.form.texts import Texts
from aggregator.steward.survey.said import Own, Said

_MAIL = re.compile(r"[^\s@:/?#&%]+@[^\s@:/?#&%]+")


def switch(texts: Texts, languages: Sequence[str]) -> str:
    """Return the choice among the page's languages, each by its own name; empty for one."""
    if len(languages) == 1:
        return ""
    label = texts.tag("label", Said("language"), ' for="language"')
    options = "".join(
        f'<option value="{number}" lang="{language}" dir="{words["dir"]}">'
        f"{escape(words['name'])}</option>"
        for number, (language, words) in enumerate(zip(languages, texts.words, strict=True))
    )
    return f'<p class="language">{label} <select id="language">{options}</select></p>\n'


def who_asks(texts: Texts, about: Sequence[About]) -> str:
    """Return who asks, and why, as far as the survey says it; it is given in each language."""
    shown = []
    if about[0].introduction:
        shown.append(_paragraphs(texts, [each.introduction for each in about]))
    rows = []
    if about[0].organiser:
        rows.append((Said("asked_by"), texts.tag("bdi", [Own(each.organiser) for each in about])))
    if about[0].contact:
        rows.append((Said("contact"), _linked(texts, [each.contact for each in about])))
    if about[0].privacy_notice:
        notices = [each.privacy_notice for each in about]
        rows.append((Said("privacy_notice"), _linked(texts, notices)))
    if rows:
        lines = "".join(
            f"<div>{texts.tag('dt', said)} <dd>{what}</dd></div>" for said, what in rows
        )
        shown.append(f"<dl>{lines}</dl>")
    return "\n".join(["", *shown])


def keep_choice(texts: Texts) -> str:
    """Return the box by which a person has this device keep what is not sent."""
    box = '<input type="checkbox" id="keep" aria-describedby="keep-what">'
    label = texts.tag("span", Said("keep"))
    what = texts.tag("p", Said("keep_what"), ' class="soft" id="keep-what"')
    return f'<div hidden><label class="option" for="keep">{box} {label}</label>{what}</div>\n'


def ask_link(texts: Texts) -> str:
    """Return the field for the code of a personal link, which the page shows if it has none."""
    label = texts.tag("label", Said("link_code"), ' for="code"')
    field = (
        '<input type="text" id="code" name="code" dir="ltr" autocomplete="off" '
        'autocapitalize="none" spellcheck="false" aria-describedby="link-fault">'
    )
    fault = texts.tag("p", Said("link_slip"), ' class="fault" id="link-fault" role="alert" hidden')
    asked = texts.tag("p", Said("link_needed")) + f'<p class="written">{label} {field}</p>{fault}'
    use = texts.tag("button", Said("link_use"))
    return f'<form id="link" novalidate autocomplete="off" hidden>{asked}{use}</form>\n'


def thanks(texts: Texts, about: Sequence[About]) -> str:
    """Return what the survey says to who has answered; it is given in each language."""
    return _paragraphs(texts, [each.thanks for each in about]) if about[0].thanks else ""


def _paragraphs(texts: Texts, each: Sequence[str]) -> str:
    return texts.tag("p", [Own(one.strip()) for one in each], ' class="lines"')


def _linked(texts: Texts, each: Sequence[str]) -> str:
    """Return an address as a link, in a tab of its own: answers may be unsent in this one."""
    links = [_link(one) for one in each]
    if not all(links):
        return texts.tag("bdi", [Own(one) for one in each])
    more = (
        f' href="{escape(links[0])}" target="_blank" rel="noopener noreferrer"'
        f' data-h="{texts.number(links)}"'
    )
    return texts.tag("a", [Own(one) for one in each], more)


def _link(address: str) -> str:
    """Return where an address leads; empty if it is words."""
    if _MAIL.fullmatch(address):
        return f"mailto:{address}"
    return address if address.startswith("https://") and not re.search(r"\s", address) else ""
