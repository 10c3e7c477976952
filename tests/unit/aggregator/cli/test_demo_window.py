"""`prio demo --open` opens the collector's page where a browser has a window, and nowhere else."""

import io
import signal
import webbrowser
from pathlib import Path

import pytest
from rich.console import Console

from aggregator.cli import demo

URLS = {
    "collector": "http://127.0.0.1:8003/",
    "leader health": "http://127.0.0.1:9001/health",
    "helper health": "http://127.0.0.1:9002/health",
}


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_opened"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
    ],
)
def test_the_page_is_opened_on_a_desktop_and_named_everywhere(
    monkeypatch: pytest.MonkeyPatch,
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
    monkeypatch.setattr(demo.sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(demo, "console", Console(file=said, force_terminal=is_terminal))
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    monkeypatch.setattr(signal, "sigwait", lambda _: None)
    demo._stay_open(URLS, Path("collector.sqlite.token"))
    assert opened == ([URLS["collector"]] if is_opened else [])
    assert URLS["collector"] in said.getvalue()
    assert "collector.sqlite.token" in said.getvalue()
