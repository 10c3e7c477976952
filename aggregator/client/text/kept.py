"""Tosses that are kept: one small file for each person and question, written once and for ever.

A person whose toss was lost would toss again and could be in two tasks, and pay twice. So a file
is on disk before anything is sent, is never replaced, and one that cannot be read is an error and
no reason to toss anew. A file that is there may be another process's, which has not come to put
the folder on disk yet: who reads it does so.
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
    """Return where the toss of a person for a question is; the name tells neither at a glance."""
    named = hashlib.sha256(hashes.meaning + person.encode("utf-8", "surrogatepass"))
    return folder / f"{named.hexdigest()}.json"


def kept_tosses(
    folder: Path, hashes: TextHashes, people: Iterable[str], entropy: Entropy
) -> dict[str, Toss]:
    """Return the toss of each person, made now if there is none. It takes no answers.

    Args:
        folder: Of all files, which exists.
        hashes: The question's.
        people: Who they are, by names that stay.
        entropy: The operating system's, outside tests.

    Raises:
        ConfigurationError: A file cannot be read or written, or is none.
    """
    tosses = {person: _kept(place_of(folder, hashes, person), hashes, entropy) for person in people}
    try:
        _sync(folder)
    except OSError as error:
        raise ConfigurationError(f"the tosses in {folder}: {error.strerror}") from error
    return tosses


def _kept(place: Path, hashes: TextHashes, entropy: Entropy) -> Toss:
    """Return the toss of a file; its name is not on disk for certain."""
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
            f"the toss {place}: is not one of this question; nobody tosses twice, so restore it "
            "from a copy"
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
    """Write the toss whole, its content on disk, unless another process was first."""
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
    """Put the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
