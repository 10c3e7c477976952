"""The pages of one machine's services, and a file that links to them and logs in.

The collector's pages ask for a token. The link that carries it is in a file that only the folder's
owner can read, and neither on the terminal nor in a browser's arguments, where others could see it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from aggregator.cli.local.folder import WARNING, LocalFolder
from aggregator.service.storage.secrets.files import create_private, read_secret

FILE: Final = "pages.html"


def pages_of(folder: LocalFolder) -> list[tuple[str, str]]:
    """Return the services' pages, each address with its name."""
    return [
        (folder.url("collector"), "The collector"),
        (folder.status_url("leader"), "The leader"),
        (folder.status_url("helper"), "The helper"),
    ]


@contextmanager
def page_of_links(folder: LocalFolder) -> Iterator[str]:
    """Write the file with the links, and delete it after the block; yields its address."""
    from aggregator.service.web.pages.frame import file
    from aggregator.service.web.pages.html import tag

    token = urlencode({"token": read_secret(folder.token) or ""})
    (collector, _), *others = pages_of(folder)
    charts = [
        (f"{collector}login?{urlencode({'to': urlsplit(url).path})}#{token}", f"{name}: {what}")
        for name, place, what in _results(folder)
        for url in folder.chart_urls(place)
    ]
    all_results = (f"{collector}login#{token}", "All results, which the collector shows")
    links = [*charts, all_results, *others]
    place = folder.path / FILE
    place.unlink(missing_ok=True)
    content = file(
        "One machine's leader, helper and collector",
        tag("p", WARNING),
        tag("ul", *(tag("li", tag("a", name, href=url)) for url, name in links)),
        tag("p", "Links to results log in: give this file to nobody.", class_="soft"),
    )
    create_private(place, content)
    try:
        yield place.absolute().as_uri()
    finally:
        place.unlink(missing_ok=True)


def _results(folder: LocalFolder) -> list[tuple[str, Path, str]]:
    """Return each survey and rehearsal: its name, the folder of its files, and what it shows."""
    surveys = [(name, folder.surveys / name, "its results") for name in folder.survey_names]
    return [(each.name, each, "results of made-up answers") for each in folder.rehearsed] + surveys


def open_in_browser(*addresses: str) -> None:
    """Open pages where a person at this terminal can see them."""
    if not (sys.stdout.isatty() and _has_desktop()):
        return
    import webbrowser

    for address in addresses:
        webbrowser.open(address)


def _has_desktop() -> bool:
    """Return whether a browser would open its own window, and not take over this terminal."""
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
