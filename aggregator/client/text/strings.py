"""When two written answers are the same: a normal form, and a fingerprint of it.

Nothing here refuses a string. A client that failed on some answers would be silent because of the
answer, which is visible. So what UTF-8 cannot encode is replaced, and a string without a visible
character counts as no answer.
"""

import hashlib
import itertools
import unicodedata
from typing import Final

from aggregator.client.text.unassigned import unassigned

NORMALISATION: Final = 1
"""The version of `normal_form`, hashed into every fingerprint: those of another never match."""

DIGEST_SIZE: Final = 32
"""Bytes of the digest that binds fingerprints and keys to one question."""

_SPACES: Final = dict.fromkeys([*range(32), *range(127, 160)], " ")
"""Control characters, a set that Unicode has closed."""

_SHORT: Final = 256
"""Characters in which marks may change places at a cost that grows with their square."""

_DOMAIN: Final = b"prio text"
_FINGERPRINT_SIZE: Final = 4

FINGERPRINTS: Final = 2 ** (8 * _FINGERPRINT_SIZE)
"""How many fingerprints there are."""


def normal_form(answer: str) -> str:
    """Return what an answer is counted as.

    1. Lone surrogates become U+FFFD, as in a browser's `TextEncoder`.
    2. NFC(full case folding(NFD(answer))), which is Unicode's canonical caseless match (D145), by
       Unicode 14.0. An unassigned character stays and separates the text before it from the text
       after it: newer clients know it, older ones do not, and all must count alike.
    3. Every run of white space (`str.isspace`) or of control characters (Cc) becomes one space, and
       the spaces at both ends go.

    Hyphens, apostrophes and accents stay.
    """
    whole = answer.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if whole.isascii():
        folded = whole.lower()
    else:
        parts = unassigned().split(whole)
        parts[::2] = map(_folded, parts[::2])
        folded = "".join(parts)
    return " ".join(folded.translate(_SPACES).split())


def fingerprint(normal: str, meaning: bytes) -> int:
    """Return the fingerprint of a string in its normal form, 0 to 2^32 - 1.

    It is the first four bytes, big-endian, of SHA-256("prio text" || version || meaning || string
    in UTF-8); the version, that of the normal form, is one byte.

    Args:
        normal: The string, as `normal_form` returns it.
        meaning: The 32 bytes that stand for the question and all that is bound with it.
    """
    hashed = hashlib.sha256(_DOMAIN + bytes([NORMALISATION]) + meaning + normal.encode())
    return int.from_bytes(hashed.digest()[:_FINGERPRINT_SIZE], "big")


def composed(text: str) -> str:
    """Return NFC(text) by Unicode 14.0, in time that grows with its length and no faster.

    People, labels and answers are compared over years: a newer Python must not rename anybody.
    """
    if text.isascii():
        return text
    parts = unassigned().split(text)
    parts[::2] = map(_composed, parts[::2])
    return "".join(parts)


def _folded(part: str) -> str:
    return _composed(_ordered(part).casefold())


def _composed(part: str) -> str:
    return unicodedata.normalize("NFC", _ordered(part))


def _ordered(part: str) -> str:
    """Return NFD(part).

    Python's own moves each mark past those before it, one by one: a million of them, in one answer,
    would hold a server that takes answers for hours. What is in order costs it nothing.
    """
    if len(part) <= _SHORT:
        return unicodedata.normalize("NFD", part)
    decomposed = "".join(unicodedata.normalize("NFD", each) for each in part)
    runs = itertools.groupby(decomposed, lambda each: unicodedata.combining(each) > 0)
    return "".join(
        "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
        for are_marks, run in runs
    )
