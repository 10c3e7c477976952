"""`prio demo --open` ends at pages that show what it has collected."""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.support.look import Page
from tests.support.patience import PATIENCE_SECONDS


@pytest.mark.slow
def test_the_demo_stays_open_with_both_data_sets_on_the_collector_s_page() -> None:
    command = [sys.executable, "-m", "aggregator.cli", "demo", "--open"]
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        running = subprocess.Popen(  # noqa: S603  our own command
            command, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        try:
            assert running.stdout is not None
            for line in running.stdout:
                said.append(line)
                if line.startswith("Ctrl-C"):
                    break
            beside, pages, token, leader = (
                re.search(pattern, "".join(said))
                for pattern in (
                    r"beside the truth: (\S+)",
                    r"pages: (\S+)",
                    r"token is in (\S+)",
                    r"the leader is doing: (\S+)",
                )
            )
            assert beside, "".join(said)
            assert pages
            assert token
            assert leader
            _look(pages[1], Path(token[1]), leader[1])
            _compare(Path(beside[1]), pages[1], leader[1])
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0
    assert not Path(token[1]).exists()


def _look(pages: str, token: Path, leader: str) -> None:
    with httpx.Client(base_url=pages, trust_env=False, timeout=PATIENCE_SECONDS) as browser:
        form = Page(browser.get("login").text).form("/login")
        form |= {"token": token.read_text(encoding="utf-8").strip()}
        answer = browser.post("login", data=form, follow_redirects=True)
        assert answer.status_code == 200
        page = Page(answer.text)
        assert len(page.all("li")) == 2
        assert "5,912 reports" in page.all("main")[0].text
        assert len(Page(answer.text).all("svg")) >= 2
    assert "Ready" in httpx.get(leader, trust_env=False, timeout=PATIENCE_SECONDS).text


def _compare(file: Path, pages: str, leader: str) -> None:
    """Look at the page of the demo itself, and follow its links as far as the login page."""
    page = Page(file.read_text(encoding="utf-8"))
    rows = [each.text for each in page.all("tr")]
    assert any(each.startswith("count excellent3,275") for each in rows)  # as in the CSV
    assert any(each.startswith("sum doctor_visits16,834") for each in rows)
    held = re.search(r"(\d+) of 19 intervals hold the truth", page.elements[0].text)
    assert held
    assert 10 <= int(held[1]) <= 19
    links = [each.attributes["href"] for each in page.all("a")]
    assert {pages, leader} <= set(links)
    questions = [each for each in links if "/questions/" in each]
    assert len(questions) == 6
    for each in questions:
        answer = httpx.get(each, trust_env=False, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/login?to={quote('/' + each.removeprefix(pages))}"
