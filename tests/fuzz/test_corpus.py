"""What fuzzing has found to take a new way through a decoder is taken again, every time."""

from pathlib import Path

import pytest

from tests.support.decoders import DECODERS

CORPUS = Path(__file__).parent / "corpus"


def test_each_decoder_has_a_corpus_and_there_is_no_other() -> None:
    assert {file.stem for file in CORPUS.glob("*.hex")} == DECODERS.keys()


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_of_the_corpus_ends_a_decoder_but_by_its_own_error(name: str) -> None:
    found = [bytes.fromhex(line) for line in (CORPUS / f"{name}.hex").read_text().splitlines()]
    for data in (*DECODERS[name].seeds, *found):
        DECODERS[name].check(data)
