"""What an index would show of the package: its links lead somewhere, or are words only."""

import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.support.processes import ROOT

SOURCE = "https://forge.example/prio/blob/v0.1.0"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def built(folder: Path, source: str = "") -> Message:
    """Build the wheel as a publisher does, and return its metadata."""
    subprocess.run(  # noqa: S603  our own command
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PRIO_SOURCE_URL": source},
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def links_of(metadata: Message) -> list[tuple[str, str]]:
    assert metadata["Description-Content-Type"] == "text/markdown"
    return LINK.findall(metadata.get_payload())


@pytest.mark.slow
def test_a_package_that_is_built_without_an_address_has_no_dead_link(tmp_path: Path) -> None:
    metadata = built(tmp_path)
    links = links_of(metadata)
    assert links
    assert all(path.startswith("https://") for _, path in links), links
    assert "People answer questions at a link" in metadata.get_payload()
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL"))
    assert urls.keys() == {"DAP", "VDAF"}


@pytest.mark.slow
def test_with_an_address_every_link_of_the_readme_leads_to_its_file_there(tmp_path: Path) -> None:
    metadata = built(tmp_path, SOURCE + "/")
    links = links_of(metadata)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(links) == len(LINK.findall(readme))
    for mark, path in links:
        raw = SOURCE.replace("/blob/", "/raw/") if mark else SOURCE
        if not path.startswith(raw):
            assert f"]({path})" in readme  # it leads elsewhere, as in the repository
            assert path.startswith("https://")
            continue
        assert (ROOT / path.removeprefix(f"{raw}/").partition("#")[0]).exists(), path
    assert f"Source, {SOURCE}" in metadata.get_all("Project-URL")


@pytest.mark.slow
def test_an_address_that_is_no_url_builds_nothing(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        built(tmp_path, "javascript:alert(1)")


ONLY_POSIX = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")

CLIENT = f"""
import os, sys
sys.modules |= dict.fromkeys({ONLY_POSIX!r})  # as where there are none
import aggregator.client
from aggregator.client import Outbox, Reporter, SurveyClient
with __import__("contextlib").closing(Outbox(sys.argv[1], 2**20)) as outbox:
    assert outbox.tasks() == []
"""


def test_the_client_in_python_uses_nothing_that_only_posix_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLIENT, tmp_path / "outbox.sqlite"]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  our own command
