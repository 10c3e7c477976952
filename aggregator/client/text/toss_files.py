"""Keeps tosses: one small file for each person and question, written once and for ever.

A person whose toss was lost would toss again, could be in two tasks, and would pay twice. So a
toss's file is on disk before anything is sent and is never replaced, and an unreadable file is an
error, not a reason to toss again. An existing file may be from another process that has not synced
the folder yet, so a reader syncs it too.
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from aggregator.client.text.hashing import TextHashes
from aggregator.client.text.toss import Toss
from aggregator.entropy import Entropy
from aggregator.errors import ConfigurationError

_VERSION = 1
_OWNER_ONLY = 0o600


def place_of(folder: Path, hashes: TextHashes, person: str) -> Path:
    """Return the file of a person's toss for a question; its name shows neither at a glance."""
    named = hashlib.sha256(hashes.meaning + person.encode("utf-8", "surrogatepass"))
    return folder / f"{named.hexdigest()}.json"


def kept_tosses(
    folder: Path, hashes: TextHashes, people: Iterable[str], entropy: Entropy
) -> dict[str, Toss]:
    """Return the toss of each person, made now if there is none; it does not see answers.

    A person's name must never change. The folder must exist; it serves all questions. A file that
    is unreadable or holds no toss is a ConfigurationError.
    """
    tosses = {person: _kept(place_of(folder, hashes, person), hashes, entropy) for person in people}
    try:
        _sync(folder)
    except OSError as error:
        raise ConfigurationError(f"the tosses in {folder}: {error.strerror}") from error
    return tosses


def _kept(place: Path, hashes: TextHashes, entropy: Entropy) -> Toss:
    """Return the toss in a file; the caller must still sync the file's name to disk."""
    try:
        if not place.exists():
            _write_once(place, hashes, Toss.of(hashes, entropy).number)
        text = place.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"the toss {place}: {error.strerror}") from error
    except ValueError:
        text = ""  # not UTF-8, and not JSON either
    number = _number(text, hashes)
    if number is None:
        raise ConfigurationError(
            f"the toss {place}: is not of this question; nobody tosses twice, so restore the "
            "file from a copy"
        )
    return Toss(hashes, number)


def _number(text: str, hashes: TextHashes) -> int | None:
    """Return the task that a file names; None if it is not a toss for this question."""
    try:
        document = json.loads(text)
        head = document["version"], document["question"]
        number = document["task"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if head != (_VERSION, hashes.meaning.hex()) or type(number) is not int:
        return None
    return number if 0 <= number < hashes.tasks else None


def _write_once(place: Path, hashes: TextHashes, number: int) -> None:
    """Write the whole toss and sync its content, unless another process was first."""
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    document = {"version": _VERSION, "question": hashes.meaning.hex(), "task": number}
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, place)
    finally:
        draft.unlink()


def _sync(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
