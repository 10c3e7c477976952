"""Whatever lies in the place of a file of ours is named, and never waited for."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.errors import ConfigurationError
from aggregator.service.config import (
    NotPlain,
    check_plain,
    check_private,
    open_plain,
    plain_files,
    read_plain,
)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


OTHERS: dict[str, Callable[[Path], object]] = {
    "is a directory, and a file is needed: .* if a mount has made it": Path.mkdir,
    "is a FIFO, and a file is needed": lambda path: os.mkfifo(path, 0o600),
    "is a socket, and a file is needed": make_socket,
    "is a device, and a file is needed": lambda path: path.symlink_to("/dev/zero"),
    "is a link to /nowhere/file, and nothing is there": lambda path: path.symlink_to(
        "/nowhere/file"
    ),
    "is a link that leads back to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("said", OTHERS)
def test_what_is_no_file_is_named_by_all_that_would_open_it(
    tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    path = Path("it")
    OTHERS[said](path)
    for use in (
        check_plain,
        read_plain,
        lambda path: open_plain(path, os.O_RDWR),
        lambda path: open_plain(path, os.O_WRONLY | os.O_CREAT),
    ):
        with pytest.raises(NotPlain, match=said) as caught:
            use(path)
        assert caught.value.filename == "it"
    with pytest.raises(ConfigurationError, match=f"^it: {said}"):
        check_private(path)


def test_what_takes_the_place_of_a_file_after_a_look_is_not_waited_for_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it"
    os.mkfifo(path)
    monkeypatch.setattr(plain_files, "check_plain", lambda _: True)
    with pytest.raises(NotPlain, match="is a FIFO"):
        read_plain(path)


def test_a_file_a_link_to_one_and_no_file_are_told_apart(tmp_path: Path) -> None:
    path, link = tmp_path / "it", tmp_path / "link"
    assert not check_plain(path)
    with pytest.raises(FileNotFoundError):
        read_plain(path)
    os.close(open_plain(path, os.O_CREAT | os.O_WRONLY))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"held")
    link.symlink_to(path)
    assert check_plain(link)
    assert read_plain(link) == b"held"


def test_a_file_that_is_far_too_long_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_files, "MOST_BYTES", 3)
    (tmp_path / "it").write_bytes(b"four")
    with pytest.raises(NotPlain, match="holds more than 3 bytes"):
        read_plain(tmp_path / "it")
