"""Permits are those of the vectors, which any client and any maker of lists can be tested by."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.messages import PlaintextInputShare
from aggregator.protocol.permit_codes import code_of, name_of, secret_of
from aggregator.protocol.permit_lists import (
    Replacements,
    WindowList,
    listed,
    read_lists,
    write_lists,
)
from aggregator.protocol.permits import Permits, extensions_with

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "permits" / "permits.json").read_text("utf-8")
)
PERMITS = Permits(bytes.fromhex(VECTORS["domain"]))
SECRET = bytes.fromhex(VECTORS["secret"])


def test_the_task_extension() -> None:
    assert encode(PERMITS).hex() == VECTORS["extension"]
    assert decode(Permits, bytes.fromhex(VECTORS["extension"])) == PERMITS


@pytest.mark.parametrize("vector", VECTORS["permits"])
def test_a_secret_gives_an_opening_that_an_id_and_that_an_entry(vector: dict[str, Any]) -> None:
    opening = PERMITS.opening(SECRET, vector["window"], vector["number"])
    assert opening.hex() == vector["opening"]
    assert PERMITS.report_id(opening).hex() == vector["report_id"]
    entry = PERMITS.entry(PERMITS.report_id(opening))
    assert entry.hex() == vector["entry"]
    assert entry == PERMITS.entry_of(SECRET, vector["window"], vector["number"])


def test_a_code_and_a_name() -> None:
    assert code_of(SECRET) == VECTORS["code"]
    assert secret_of(VECTORS["code"]) == SECRET
    assert name_of(SECRET) == VECTORS["name"]


def test_the_helpers_plaintext() -> None:
    vector = {name: bytes.fromhex(value) for name, value in VECTORS["plaintext"].items()}
    share = PlaintextInputShare(extensions_with(vector["opening"]), vector["payload"])
    assert encode(share) == vector["encoded"]


def test_a_list() -> None:
    vector = VECTORS["list"]
    window, file = vector["window"], bytes.fromhex(vector["file"])
    entries = [PERMITS.entry_of(bytes.fromhex(each), window) for each in vector["secrets"]]
    made = listed(PERMITS.domain, {window: entries})
    assert write_lists([made]) == file
    assert read_lists(file + file) == (made, made)


def test_what_the_specification_leaves_to_us_is_fixed_too() -> None:
    """The digest of a window's list, and a file of replacements."""
    digest = WindowList(PERMITS.domain, 21)
    for entry in (b"a" * 16, b"b" * 16):
        digest.add(entry)
    hashed = b"prio permit list" + PERMITS.domain + bytes(7) + b"\x15" + b"a" * 16 + b"b" * 16
    assert digest.digest == hashlib.sha256(hashed).hexdigest()
    pairs = Replacements(PERMITS.domain, {21: [(b"a" * 16, b"b" * 16)]})
    assert encode(pairs) == (
        b"prio permit replacements 1\n"
        + PERMITS.domain
        + b"\0\0\0\1"
        + bytes(7)
        + b"\x15\0\0\0\1"
        + b"a" * 16
        + b"b" * 16
    )
    assert decode(Replacements, encode(pairs)) == pairs
