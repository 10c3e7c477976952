"""Every step from what a person writes to an upload, to test a client in another language."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from typing_extensions import override

from aggregator.client.text.hashing import siphash
from aggregator.client.text.levels import entry_of
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.strings import fingerprint, normal_form
from aggregator.client.text.toss import Toss
from aggregator.client.vectors import WARNING, KnownEntropy, Recorded, client_vectors
from aggregator.entropy import Entropy
from aggregator.protocol.task import Task

ANSWERS: Final = ("Tea", "  Earl\tGREY ", "Stra\u00dfe", "e\u0301", "\ud83c", " ", "")
"""Folding, spaces, a longer folding, composition, a lone surrogate; and two that are no answer."""

_TOSSES: Final = 4


class _LargestFirst(Entropy):
    """Gives the largest number first, which may have to be drawn again, then a source's bytes."""

    def __init__(self, source: Entropy) -> None:
        self._source, self._is_first = source, True

    @override
    def bytes(self, size: int) -> bytes:
        """Return `size` bytes."""
        drawn = self._source.bytes(size)
        if self._is_first:
            self._is_first, drawn = False, b"\xff" * size
        return drawn


def text_vectors(
    question: TextQuestion, tasks: Sequence[Task], answers: Sequence[str], seconds: int
) -> dict[str, object]:
    """Return all that a client computes for these answers, bytes in hexadecimal.

    One toss serves them all. Of a question with an amount, some numbers are given beside the
    answers, each with what was drawn for its level; of one by another answer, its labels in turn.
    The time of the reports is in seconds since the epoch.
    """
    hashes = question.hashes
    entropy = KnownEntropy(b"prio text vectors" + question.meaning)
    tosses = [_toss(question, entropy) for _ in range(_TOSSES)]
    tosses.append(_toss(question, _LargestFirst(entropy)))
    number = tosses[0][0]
    given = [_answer(question, answer, place, entropy) for place, answer in enumerate(answers)]
    upload = client_vectors(tasks[number], [entries[number] for entries, _ in given], seconds)
    return {
        "version": 1,
        "warning": WARNING,
        "question": {
            "described": question.described.encode().hex(),
            "meaning": question.meaning.hex(),
            "task_info_digest_of": question.bound(number).encode().hex(),
        },
        "tosses": [{"drawn": drawn, "task": task} for task, drawn in tosses],
        "keys": [hashes.key(task).hex() for task in range(hashes.tasks)],
        "answers": [found for _, found in given],
        "upload": upload,
    }


def _toss(question: TextQuestion, entropy: Entropy) -> tuple[int, list[str]]:
    """Return a task, and all bytes that were drawn for it."""
    recorded = Recorded(entropy)
    return Toss.of(question.hashes, recorded).number, [each.hex() for each in recorded.given]


def _answer(
    question: TextQuestion, answer: str, at: int, entropy: Entropy
) -> tuple[list[int], dict[str, object]]:
    """Return what an answer reports to each task, and all that leads there."""
    hashes, normal = question.hashes, normal_form(answer)
    printed = fingerprint(normal, hashes.meaning)
    words = np.array([printed], np.uint32).byteswap()
    tasks = range(hashes.tasks)
    buckets = [hashes.bucket(task, answer) for task in tasks]
    found: dict[str, object] = {
        "utf16": answer.encode("utf-16-be", "surrogatepass").hex(),
        "normal": normal.encode().hex(),
        "fingerprint": printed.to_bytes(4, "big").hex(),
        "siphash": [
            int(siphash(hashes.key(task), words)[0]).to_bytes(8, "little").hex() for task in tasks
        ],
        "buckets": buckets,
    }
    if question.beside is None:
        return buckets, found
    given = {}
    if question.amount is not None:
        most, recorded = question.amount.grid.steps, Recorded(entropy)
        steps = (0, most, most // 2, 1, most - 1)[at % 5]
        level = question.amount.level(steps, recorded)
        given = {"steps": steps, "drawn": [each.hex() for each in recorded.given]}
    else:
        level = at % question.beside.levels
    entries = [entry_of(bucket, level, question.length) for bucket in buckets]
    return entries, found | given | {"level": level, "entries": entries}
