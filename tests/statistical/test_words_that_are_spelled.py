"""Words that nothing was tuned to, told letter by letter: simulated sums, on demand."""

import pydoc_data.topics
import re
from fractions import Fraction

import numpy as np
import pytest

from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import fingerprint
from aggregator.steward.text.spelled import named_from, spelled
from tests.support.text import spelled_tables


@pytest.mark.bench
@pytest.mark.parametrize(
    ("tasks", "length", "held"),
    [
        (16, 8192, 150),
        (16, 8192, 200),
        (16, 8192, 250),
        (64, 1024, 300),
        (64, 1024, 400),
        (64, 1024, 500),
    ],
)
def test_words_are_told_from_as_many_people_on_as_planned(
    tasks: int, length: int, held: int
) -> None:
    """Words of Python's own help, 35 of them, each held by this many of a million people."""
    rng = np.random.default_rng(held)
    topics = " ".join(pydoc_data.topics.topics.values()).lower()
    known = sorted(set(re.findall("[a-z]+", topics)))
    words = [str(each) for each in rng.permutation(known)[:35]]
    question = TextQuestion("A word?", Fraction(1), tasks, length)
    prints = tuple(sorted(fingerprint(each, question.meaning) for each in words))
    spelling = Spelling(question, prints)
    tables = spelled_tables(spelling, dict.fromkeys(words, held), rng, silent=10**6)
    names = [each for each in spelled(spelling, tables).names.values() if each is not None]
    planned = named_from(1, tasks, 16, 26)
    told = f"held by {held}, told {len(names)} of 35, planned from {planned} on"
    print(f"{tasks} of {length}: {told}")  # noqa: T201  a measurement, for the documents
    assert set(names) <= set(words)
    assert held < planned or len(names) >= 30
