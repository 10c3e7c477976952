"""The operator's page: what `/health` says, for people, with the overall state at a glance.

It shows every member of the document by name, so it says no less than `prio status`.
"""

from collections.abc import Iterable

from fastapi import Response

from aggregator.service.telemetry.health import Health
from aggregator.service.web.pages.charts import sparkline
from aggregator.service.web.pages.frame import page
from aggregator.service.web.pages.html import Html, identifier, isolated, join, table, tag

_SEEN = "seen_seconds"
_OWN = ("version", "status", "faults", "role", _SEEN)
"""Members of the document that the heading shows already."""

_NAMES = {
    "store_bytes": "size of the store",
    "free_bytes": "free beside it",
    "hpke_keys": "HPKE keys",
    "newest_hpke_key_seconds": "age of the newest HPKE key",
}
"""Readable names, for members whose own name does not do."""

_MOST_COLUMNS = 8
"""Records with more members than this get a table each."""

_MOST_OPEN = 3
"""If there are more such tables than this, they are folded."""

_IDS = ("task_id", "job", "collection")
"""Members that hold an id, whose beginning is enough to tell it from others."""

_MOMENTS = ("last_", "oldest_", "seen_")
"""Durations whose names begin like this are ages: they count back from now."""

_LINKS = [("/", "This page"), ("/health", "As JSON"), ("/metrics", "Metrics")]
_COLUMNS = ("what", "how much")
_BYTES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_SPANS = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def operator_page(health: Health) -> Response:
    """Return the page of a service's state; always with status 200, so that browsers show it."""
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
        tag("p", "Seen ", _shown(_SEEN, found[_SEEN]), ".", class_="soft")
        if _SEEN in found
        else None,
        tag("h2", "State"),
        table("The service", _COLUMNS, facts, is_titled=True),
        *(part for name, value in nested for part in _section(name, value)),
        links=_LINKS,
    )


def _section(name: str, value: object) -> Iterable[Html]:
    """Yield a heading and tables for a member that has members itself."""
    title = _words(name).capitalize()
    match value:
        case dict():
            yield tag("h2", title)
            cells = ((_words(key), _shown(key, value[key])) for key in value)
            yield table(title, _COLUMNS, cells, is_titled=True)
        case list() if value:
            records: list[dict[str, object]] = value
            yield tag("h2", title)
            if len(records[0]) > _MOST_COLUMNS:
                is_open = len(records) <= _MOST_OPEN
                yield from (_folded(record, is_open=is_open) for record in records)
            else:
                rows = [[_shown(key, record[key]) for key in record] for record in records]
                yield table(title, map(_words, records[0]), rows, is_titled=True)
        case list():
            yield tag("h2", title)
            yield tag("p", "None.")
        case _:
            pass


def _folded(record: dict[str, object], *, is_open: bool) -> Html:
    """Return a record that unfolds under the value of its first member."""
    name, *others = record
    title = f"{_words(name)} {record[name]}"
    about = record.get("task_info")
    named = None if about is None else tag("span", ": ", isolated(str(about)), class_="soft")
    rows = [(_words(key), _shown(key, record[key])) for key in others]
    listed = table(title, _COLUMNS, rows, is_titled=True)
    head = tag("summary", f"{_words(name)} ", _shown(name, record[name]), named)
    return tag("details", head, listed, open=is_open)


def _words(name: str) -> str:
    """Return a member's name for a reader, without the unit, which stands with the value."""
    plain = name.removesuffix("_milliseconds").removesuffix("_seconds").removesuffix("_bytes")
    return _NAMES.get(name) or plain.replace("_", " ")


def _shown(name: str, value: object) -> Html:
    """Return a value for a reader, by the unit in which its name ends."""
    match value:
        case None:
            text = "none"
        case str() if name in _IDS and value:
            return identifier(value)
        case bool():
            text = "yes" if value else "no"
        case int() if name.endswith("_seconds"):
            ago = " ago" if name.startswith(_MOMENTS) else ""
            text = f"{_in_units(value, _SPANS, 's')}{ago}"
        case int() if name.endswith("_bytes"):
            text = _in_units(value, _BYTES, "bytes")
        case int() if name.endswith("_milliseconds"):
            text = f"{value:,} ms"
        case list() if name.startswith("per_"):
            numbers = [float(each) for each in value]
            said = f"now {numbers[-1]:,.6g}, at most {max(numbers):,.6g}"
            return join((sparkline(numbers, f"{_words(name)}: {said}"), f" {said}"))
        case int():
            text = f"{value:,}"
        case dict():
            lines = (
                tag("div", isolated(f"{_words(key)}: {_listed(each)}"))
                for key, each in value.items()
            )
            return join(lines) if value else isolated("none")
        case _:
            text = str(value) or "none"
    return isolated(text)


def _listed(value: object) -> str:
    """Return a nested member's value on one line."""
    if not isinstance(value, dict):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return ", ".join(f"{_words(key)} {_listed(each)}" for key, each in value.items())


def _in_units(value: int, units: Iterable[tuple[int, str]], smallest: str) -> str:
    for size, name in units:
        if value >= 2 * size:
            return f"{value / size:,.1f} {name}"
    return f"{value:,} {smallest}"
