"""Tosses that are kept: the same for ever, and never made anew because a file is broken."""

import os
from pathlib import Path

import pytest

from aggregator.client.text.hashing import TextHashes
from aggregator.client.text.toss_files import kept_tosses, place_of
from aggregator.errors import ConfigurationError
from tests.support.entropy import SeededEntropy

HASHES = TextHashes(bytes(32), 64, 128)


def test_a_person_tosses_once_for_a_question_whatever_a_later_toss_would_be(tmp_path: Path) -> None:
    people = [f"person {number}" for number in range(40)]
    first = kept_tosses(tmp_path, HASHES, people, SeededEntropy(b"one"))
    assert kept_tosses(tmp_path, HASHES, people, SeededEntropy(b"other")) == first
    assert len({toss.number for toss in first.values()}) > 10
    assert len(list(tmp_path.iterdir())) == len(people)  # no drafts are left


@pytest.mark.parametrize(
    "text", ["", "[]", "\xff", '{"version": 1, "question": "00", "task": 3}', '{"task": 3}']
)
def test_a_broken_toss_is_an_error_and_no_reason_to_toss_again(tmp_path: Path, text: str) -> None:
    kept_tosses(tmp_path, HASHES, ["eve"], SeededEntropy(b"1"))
    place = place_of(tmp_path, HASHES, "eve")
    place.write_text(text, "latin-1")
    with pytest.raises(ConfigurationError, match="nobody tosses twice"):
        kept_tosses(tmp_path, HASHES, ["eve"], SeededEntropy(b"2"))
    assert place.read_text("latin-1") == text


def test_a_toss_that_another_process_has_linked_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may not have come to that, and a power cut would let the person toss again."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(os.fstat(file).st_ino))
    tosses = kept_tosses(tmp_path, HASHES, ["eve"], SeededEntropy(b"1"))
    synced.clear()
    both = kept_tosses(tmp_path, HASHES, ["eve", "bob"], SeededEntropy(b"2"))
    assert both["eve"] == tosses["eve"]
    bobs = place_of(tmp_path, HASHES, "bob").stat().st_ino
    assert synced == [bobs, tmp_path.stat().st_ino]
