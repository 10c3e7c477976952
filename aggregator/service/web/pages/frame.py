"""The frame of every page: its style sheet, its landmarks, and the headers that confine it."""

import base64
import hashlib
from collections.abc import Sequence

from fastapi import Response

from aggregator.service.web.pages.html import Html, isolated, tag

_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#4a525c;--page:#fff;--card:#f4f6f8;
--edge:#c9d0d8;--accent:#2f6db3;--bar:#2f6db3;--link:#1a5494;--good:#12672f;--bad:#a51d1d}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebee;--soft:#b4bcc6;--page:#14171a;--card:#1f2429;
--edge:#454c55;--accent:#7db3ee;--bar:#3f77b8;--link:#9cc8fa;--good:#74d494;--bad:#ff9c94}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);
overflow-wrap:anywhere}
header,main,footer{max-width:60rem;margin:auto;padding:.75rem 1rem}
header{display:flex;flex-wrap:wrap;gap:.5rem 1.25rem;align-items:center;
border-bottom:1px solid var(--edge)}
header form{margin-left:auto}
a{color:var(--link)}
a:focus-visible,button:focus-visible,input:focus-visible,select:focus-visible,summary:focus-visible,
.scroll:focus-visible,.long:focus-visible,textarea:focus-visible{outline:3px solid var(--accent);
outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.2rem;margin-top:2rem}h3{font-size:1rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:1rem;
padding:0;list-style:none}
.cards{align-items:start}header:has(+main .cards),main:has(.cards){max-width:76rem}
.card{background:var(--card);border:1px solid var(--edge);border-radius:.5rem;padding:1rem}
.card h3{margin:0;font-size:1.1rem}
.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}
.big{font-size:1.5rem;font-weight:600}
.scroll{overflow-x:auto;background:
linear-gradient(to right,var(--page) 30%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(to left,var(--page) 30%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(to right,var(--edge),transparent) 0 0/1rem 100% no-repeat scroll,
linear-gradient(to left,var(--edge),transparent) 100% 0/1rem 100% no-repeat scroll}
.id{display:inline-block;max-width:11ch;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;
vertical-align:bottom;user-select:all}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.mark{display:inline-block;min-width:1.75rem;text-align:center;text-decoration:none;
border:1px solid var(--edge);border-radius:.25rem;margin:0 .2rem .2rem 0;color:var(--ink)}
.mark.collected{color:var(--good)}.mark.ready,.mark.waiting{color:var(--link)}
.mark.failed,.mark.too_few{color:var(--bad)}
.long{display:block;max-height:6rem;overflow:auto}
table{border-collapse:collapse;width:100%}
caption{text-align:left;color:var(--soft);padding:.25rem 0;position:sticky;left:0;
max-width:calc(100vw - 2rem)}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--edge);vertical-align:top;
font-variant-numeric:tabular-nums;overflow-wrap:break-word}
th.number,td.number{text-align:right;white-space:nowrap}thead th.number{white-space:normal}
tbody th{font-weight:500;min-width:9rem}td bdi,th bdi{overflow-wrap:anywhere}
td:has(bdi){min-width:7rem}td:last-child{min-width:9rem}.word{white-space:nowrap}
svg.chart{width:100%;height:auto;max-width:60rem}
.narrow{display:none}
@media(max-width:40rem){.wide{display:none}.narrow{display:block}
table:not(.cards-if-narrow) :is(th,td){min-width:0}
.cards-if-narrow :is(tbody,caption){display:block}
.cards-if-narrow thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards-if-narrow tbody tr{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.4rem 0;
border-bottom:1px solid var(--edge)}
.cards-if-narrow tbody :is(th,td){display:block;border:0;padding:0;min-width:0;max-width:100%;
text-align:left}
.cards-if-narrow tbody th{flex:0 0 100%;font-weight:600}
.cards-if-narrow td:empty{display:none}
.cards-if-narrow td::before{content:attr(data-name) " ";color:var(--soft)}}
form.row{display:flex;flex-wrap:wrap;gap:.4rem;align-items:center}
details{margin:.5rem 0}
@media print{header,.skip,form,.off-paper{display:none}.card,svg,tr{break-inside:avoid}
:root{color-scheme:light;--ink:#000;--soft:#333;--page:#fff;--card:#fff;--edge:#bbb;--accent:#2f6db3;
--bar:#2f6db3;--link:#000}
main{max-width:none;padding:0}
.card details::details-content{content-visibility:visible;height:auto}}
svg.spark{width:7.5rem;height:1.75rem}
.headline{font-size:1.15rem;font-weight:600;margin:.5rem 0}.headline small{font-weight:400}
.card p{margin:.5rem 0}.card summary,.trends{font-size:.9rem}
.trends{display:grid;grid-template-columns:repeat(auto-fill,minmax(6rem,1fr));gap:.25rem .75rem;
padding:0;margin:.5rem 0;list-style:none}
svg.trend{display:block;width:100%;max-width:7.5rem;height:2.5rem}
.cross td{font-variant-numeric:tabular-nums;min-width:0}.cross td small{display:block}
.cross{table-layout:fixed}.cross tbody th,.cross td:last-child{min-width:0}
.card{--page:var(--card)}.cross thead th{font-weight:500}
.card .cross{font-size:.85rem}.card .cross :is(th,td){padding:.2rem .15rem}
@media(max-width:40rem){.cross :is(th,td){padding:.2rem .15rem;font-size:.8rem;hyphens:auto}}
pre:focus-visible{outline:3px solid var(--accent)}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
.bar{fill:var(--bar)}.dot{fill:var(--accent)}.band{fill:var(--accent);fill-opacity:.22}
.line{stroke:var(--accent);stroke-width:2;fill:none}.whisker{stroke:var(--ink);stroke-width:1.5}
.grid{stroke:var(--edge)}.wanted{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:6 4}
meter{width:100%;height:1rem}
button,input,select,textarea{font:inherit;padding:.35rem .7rem;max-width:100%}
pre{background:var(--card);border:1px solid var(--edge);padding:.75rem;overflow-x:auto}
dt{font-weight:600}dd{margin:0 0 .6rem}
"""


def _policy(style: str, *, has_script: bool = False) -> str:
    """Return the content security policy of a page with this style sheet, and a script if any."""
    script = "script-src 'self'; connect-src 'self'; " if has_script else ""
    return (
        f"default-src 'none'; {_only(style)}; img-src 'self' data:; {script}"
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def _only(style: str) -> str:
    """Return the part of a policy that allows one style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"style-src 'sha256-{digest}'"


HEADERS = {
    "Content-Security-Policy": _policy(_STYLE),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`, with which browsers send forms with the origin `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of pages: no script but ours, no other host, no framing, no copy in a cache."""

Link = tuple[str, str]
"""A path and its name."""


def page(
    title: str,
    *content: Html | None,
    links: Sequence[Link] = (),
    aside: Html | None = None,
    status: int = 200,
    style: str = "",
    script: str | None = None,
) -> Response:
    """Return a whole page.

    Args:
        title: Its heading, which may be other people's text.
        content: What follows the heading.
        links: The links of the navigation.
        aside: The end of the navigation, such as the button that ends a session.
        status: The HTTP status.
        style: An addition to the style sheet.
        script: The path of the page's script, which may call only its own host.
    """
    sheet = _STYLE + style
    loaded = None if script is None else tag("script", src=script, defer=True)
    text = _document(title, content, links, aside, tag("style", Html(sheet)), loaded)
    policy = _policy(sheet, has_script=script is not None)
    headers = {**HEADERS, "Content-Security-Policy": policy}
    return Response(text, status, headers, "text/html; charset=utf-8")


def file(title: str, *content: Html | None, links: Sequence[Link] = (), style: str = "") -> str:
    """Return a whole page as a file that loads nothing; for the arguments see `page`."""
    sheet = _STYLE + style
    return _document(title, content, links, None, *_confinement(sheet))


def confined(title: str, content: Html, style: str, lang: str = "en") -> str:
    """Return a file that loads nothing, with a style sheet of its own and nothing but `content`."""
    head = tag("head", *_beginning(title), *_confinement(style))
    return _whole(tag("html", head, tag("body", content), lang=lang))


def _confinement(sheet: str) -> tuple[Html, Html]:
    """Return a file's style sheet, and before it its policy.

    It has no `frame-ancestors`, which has no meaning there.
    """
    policy = f"default-src 'none'; {_only(sheet)}; img-src data:; base-uri 'none'"
    said = tag("meta", http_equiv="Content-Security-Policy", content=policy)
    return said, tag("style", Html(sheet))


def _document(
    title: str,
    content: Sequence[Html | None],
    links: Sequence[Link],
    aside: Html | None,
    *last: Html | None,
) -> str:
    """Return a page as text; `last` comes at the end of its head."""
    head = tag(
        "head",
        *_beginning(f"{title[:80]} · Prio"),
        *last,
    )
    navigation = tag("nav", *(_link(each) for each in links), aria_label="Pages") if links else None
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("header", tag("strong", "Prio"), navigation, aside),
        tag("main", tag("h1", isolated(title)), *content, id="content"),
    )
    return _whole(tag("html", head, body, lang="en"))


def _beginning(title: str) -> tuple[Html, ...]:
    return (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
    )


def _whole(html: Html) -> str:
    return f"<!doctype html>\n{html}"


def _link(link: Link) -> Html:
    path, name = link
    return tag("span", tag("a", name, href=path), " ")
