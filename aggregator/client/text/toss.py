"""A client's toss: it draws the task of a question that a person is in, before reading any answer.

A text question promises the epsilon of one task, not of all together, and only the client can keep
that promise: no aggregator sees that two reports are of one person. So the toss is made once for a
person and a question, and its `number` is kept. A client that tossed again because it was not sure
that its report had arrived could put the person in two tasks, and they would pay twice.
The task does not depend on the answer; whether and when a report is sent must not either.
"""

import dataclasses
from typing import Self

from aggregator.client.text.amounts import drawn_below
from aggregator.client.text.hashing import TextHashes
from aggregator.entropy import Entropy


@dataclasses.dataclass(frozen=True, slots=True)
class Toss:
    """The number of the task that a person is in, kept for as long as the question is asked."""

    hashes: TextHashes
    number: int

    def __post_init__(self) -> None:
        self.hashes.key(self.number)  # raises if the question has no such task

    @classmethod
    def of(cls, hashes: TextHashes, entropy: Entropy) -> Self:
        """Toss; there is no answer among the arguments that it could depend on.

        Outside tests the entropy is the operating system's.
        """
        return cls(hashes, drawn_below(hashes.tasks, entropy))
