"""Links on paper: a QR code, and pages to print with one link or many.

Whoever draws a code knows its link, so it is drawn here, by a library, and nothing is fetched.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from aggregator.errors import ParameterError
from aggregator.service.web.pages.frame import confined
from aggregator.service.web.pages.html import Html, isolated, join, tag

if TYPE_CHECKING:
    from aggregator.steward.survey.wording import Wording

MOST_BYTES = 2_331
"""The bytes of the largest code of which 15 % may be unreadable (ISO/IEC 18004, level M)."""

_QUIET = 4
"""Blank modules around a code, which readers need (ISO/IEC 18004)."""

_STYLE = """
*{box-sizing:border-box}
:root{color-scheme:light}
body{margin:0;font:12pt/1.4 system-ui,sans-serif;color:#000;background:#fff;overflow-wrap:anywhere}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,8cm),1fr));gap:1px}
section{break-inside:avoid;padding:1cm .75cm;text-align:center;outline:1px dashed #767676}
h1,h2{font-size:1.2rem;line-height:1.2;margin:0 0 .5rem}
p{margin:.5rem 0}
div+div{margin-top:1rem}
svg{width:min(100%,5cm);height:auto}
code{font:.85rem/1.4 ui-monospace,monospace}
.alone{display:block;max-width:19cm;margin:auto}
.alone section{padding:1.5cm 1cm;outline:0}
.alone h1{font-size:2.2rem}.alone p{font-size:1.3rem}.alone svg{width:min(100%,11cm)}
.alone code{font-size:1.1rem}
.note{margin:1cm;font-weight:bold}
@media print{.note{display:none}}
@page{margin:1cm}
"""


class Printed(NamedTuple):
    """What stands above a code, in one language and its direction, `ltr` or `rtl`."""

    title: str
    text: str
    lang: str = "en"
    direction: str = "ltr"


def in_each_language(wording: "Wording", title: str, *names: str) -> list[Printed]:
    """Return a survey's title, and strings of its page by their names, in all its languages."""
    return [
        Printed(its_title, " ".join([words[name] for name in names]), language, words["dir"])
        for its_title, language, words in zip(
            wording.titles(title),
            wording.languages,
            map(wording.words_of, wording.languages),
            strict=True,
        )
    ]


def qr_code(link: str) -> Html:
    """Return the QR code of a link as an SVG document, black on white with its quiet zone.

    Raises `ParameterError` if the link is empty or too long.
    """
    import segno

    size = len(link.encode())
    if not 1 <= size <= MOST_BYTES:
        raise ParameterError(
            f"link: a QR code holds 1 to {MOST_BYTES:,} bytes, and this one has {size:,}"
        )
    code = segno.make_qr(link, error="m")
    width, height = code.symbol_size(border=_QUIET)
    rows = code.matrix_iter(border=_QUIET)
    dark = "".join(
        f"M{x} {y}h{length}v1h-{length}z" for y, row in enumerate(rows) for x, length in _runs(row)
    )
    return tag(
        "svg",
        tag("title", f"QR code of {link}"),
        tag("rect", width=width, height=height, fill="#fff"),
        tag("path", d=dark, fill="#000"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        shape_rendering="crispEdges",
        role="img",
    )


def _runs(row: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where each run of dark modules begins in a row, and how long it is."""
    place = 0
    for is_dark, run in groupby(row):
        length = sum(1 for _ in run)
        if is_dark:
            yield place, length
        place += length


def printed_links(
    said: Sequence[Printed],
    links: Sequence[str],
    note: str = "",
    below: Sequence[str] = (),
) -> str:
    """Return a page to print: a sheet for one link, or a card to cut out for each of several.

    Args:
        said: What the links are for and what to do with one, in one or more languages.
        links: The links, in the order of the cards.
        note: What whoever prints the cards is told in English, on the screen only.
        below: Lines below each link, in the first language.

    Raises:
        ParameterError: There is no link, or one that no code can hold.
    """
    if not links:
        raise ParameterError("link: there is none to print")
    alone = len(links) == 1
    cards = [
        tag(
            "section",
            *(_above(each, is_first=not number and each is said[0]) for each in said),
            qr_code(link),
            tag("p", tag("code", link, dir="ltr")),
            *(tag("p", isolated(line)) for line in below),
        )
        for number, link in enumerate(links)
    ]
    told = [tag("p", isolated(note), class_="note", lang="en", dir="ltr")] if note else []
    main = tag("main", *cards, class_="alone" if alone else None)
    return confined(said[0].title, join([*told, main]), _STYLE, said[0].lang)


def _above(said: Printed, *, is_first: bool) -> Html:
    heading = tag("h1" if is_first else "h2", isolated(said.title))
    text = tag("p", isolated(said.text))
    return tag("div", heading, text, lang=said.lang, dir=said.direction)
