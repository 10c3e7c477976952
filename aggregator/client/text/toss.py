"""A client's toss: in which one of a question's tasks a person is, before any answer is looked at.

The promise of a text question is one task's epsilon and not that of all together, and it is the
client who keeps to it: no aggregator can see that two reports are of one person. So a toss is made
once for a person and a question and is kept (`number` is all there is to keep): a client that
tossed again, not sure that its report had arrived, could be in two tasks, and would pay twice.
Which task it is does not depend on the answer; whether and when a report is sent must not either.
"""

import dataclasses
from typing import Self

from aggregator.client.text.hashing import TextHashes
from aggregator.entropy import Entropy

_DRAWN = 8
"""Bytes of a draw; the largest ones are drawn again, so that every task is as likely."""


@dataclasses.dataclass(frozen=True, slots=True)
class Toss:
    """The task that a person is in.

    Attributes:
        hashes: The question's.
        number: Of the task, from 0; kept by the client for as long as the question is asked.
    """

    hashes: TextHashes
    number: int

    def __post_init__(self) -> None:
        self.hashes.key(self.number)  # which refuses a task that the question has not

    @classmethod
    def of(cls, hashes: TextHashes, entropy: Entropy) -> Self:
        """Toss. It takes no answer, so that it cannot depend on one.

        Args:
            hashes: The question's.
            entropy: The operating system's, outside tests.
        """
        fair = 2 ** (8 * _DRAWN) // hashes.tasks * hashes.tasks
        while True:
            drawn = int.from_bytes(entropy.bytes(_DRAWN), "big")
            if drawn < fair:
                return cls(hashes, drawn % hashes.tasks)

    def measurement(self, answer: str | None) -> int:
        """Return the bucket to report to the task, for any string and for no answer."""
        return self.hashes.bucket(self.number, answer)
