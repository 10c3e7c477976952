"""`prio demo --open` opens its pages where a browser has a window, and nowhere else."""

import io
import sys
import webbrowser
from pathlib import Path

import pytest
from rich.console import Console

from aggregator.cli.local import demo
from aggregator.cli.local.folder import LocalFolder
from aggregator.cli.local.services import Running


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_opened"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
    ],
)
def test_the_pages_are_opened_on_a_desktop_and_named_everywhere(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    is_terminal: bool,
    variables: dict[str, str],
    is_opened: bool,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    opened: list[str] = []
    said = io.StringIO()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(demo, "console", Console(file=said))
    monkeypatch.setattr(Running, "watch", lambda _: None)
    page = tmp_path / "demo.html"
    local = LocalFolder.made(tmp_path / "here")
    demo._stay_open(page, local, Running())
    assert opened == ([page.as_uri(), local.url("collector")] if is_opened else [])
    status = [local.status_url(party) for party in ("leader", "helper")]
    for named in (str(page), local.url("collector"), *status, str(local.token)):
        assert named in said.getvalue()
