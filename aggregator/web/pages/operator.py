"""The operator's page: what `/health` says, for a person, and whether it is well at first sight.

It shows whatever the document has, by its members' names, so it says no less than `prio status`.
"""

from collections.abc import Iterable

from fastapi import Response

from aggregator.telemetry.health import Health
from aggregator.web.pages.frame import page
from aggregator.web.pages.html import Html, isolated, join, table, tag

_OWN = ("version", "status", "faults", "role")
"""Members of the document that the heading says."""

_LINKS = [("/", "This page"), ("/health", "As JSON"), ("/metrics", "Metrics")]
_BYTES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_SPANS = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def operator_page(health: Health) -> Response:
    """Return the page of a service's state; its status is 200, so that a browser shows it."""
    found = health.whole_document
    role = str(found.get("role", "service")).capitalize()
    if health.is_ready:
        verdict = tag("p", "Ready: nothing waits for too long.", class_="big good")
    else:
        verdict = tag("p", "Not ready:", class_="big bad")
    reasons = tag("ul", *(tag("li", isolated(fault)) for fault in health.faults))
    plain = {name: value for name, value in found.items() if not isinstance(value, dict | list)}
    facts = ((_words(name), _shown(name, plain[name])) for name in plain if name not in _OWN)
    nested = ((name, value) for name, value in found.items() if name not in _OWN)
    return page(
        role,
        verdict,
        reasons if health.faults else None,
        tag("h2", "State"),
        table("The service", ("what", "how much"), facts),
        *(part for name, value in nested for part in _section(name, value)),
        links=_LINKS,
    )


def _section(name: str, value: object) -> Iterable[Html]:
    """Give a heading and a table for a member that has members itself."""
    title = _words(name).capitalize()
    match value:
        case dict():
            yield tag("h2", title)
            yield table(title, map(_words, value), [[_shown(key, value[key]) for key in value]])
        case list() if value:
            records: list[dict[str, object]] = value
            yield tag("h2", title)
            rows = [[_shown(key, record[key]) for key in record] for record in records]
            yield table(f"{title}: {len(rows):,}", map(_words, records[0]), rows)
        case list():
            yield tag("h2", title)
            yield tag("p", "None.")
        case _:
            pass


def _words(name: str) -> str:
    """Return a member's name for a reader; its unit stands with the value."""
    return name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")


def _shown(name: str, value: object) -> Html:
    """Return a value for a reader, by the unit in which its name ends."""
    match value:
        case None:
            text = "none"
        case bool():
            text = "yes" if value else "no"
        case int() if name.endswith("_seconds"):
            text = _in_units(value, _SPANS, "s")
        case int() if name.endswith("_bytes"):
            text = _in_units(value, _BYTES, "bytes")
        case int():
            text = f"{value:,}"
        case dict():
            items = (
                tag("span", isolated(f"{_words(key)} "), _shown(key, each), tag("br"))
                for key, each in value.items()
            )
            return join(items) if value else isolated("none")
        case _:
            text = str(value)
    return isolated(text)


def _in_units(value: int, units: Iterable[tuple[int, str]], smallest: str) -> str:
    for size, name in units:
        if value >= 2 * size:
            return f"{value / size:,.1f} {name}"
    return f"{value:,} {smallest}"
