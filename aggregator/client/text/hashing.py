"""Which bucket of which task counts an answer.

A text question is several tasks of the type Prio3Histogram, all of one length; a person is in one
of them. Bucket 0 of each counts people who gave no answer: silent people report too, so the number
of reports does not reveal them. A string is in bucket 1 + SipHash-2-4(key of the task, fingerprint
as 4 bytes, big-endian) mod (length - 1); the hash's eight bytes are read as in SipHash's paper,
little-endian. The key of task g is the first 16 bytes of
SHA-256("prio text key" || g as 4 bytes, big-endian || meaning).

No privacy rests on the hash: keys are public, and anyone may test a list of strings. It has to
spread strings evenly and to be fast for the billions of strings that a decoder tries.
"""

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Final

from aggregator.client.text.strings import DIGEST_SIZE, fingerprint, normal_form
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Words = npt.NDArray[np.uint64]

NO_ANSWER: Final = 0
"""The bucket of people who gave no answer."""

FEWEST_BUCKETS, MOST_BUCKETS = 16, 2**20
FEWEST_TASKS, MOST_TASKS = 8, 1024
"""With fewer tasks the tail is so heavy that false strings pass for true ones."""

_DOMAIN: Final = b"prio text key"
_KEY_SIZE: Final = 16
_MAGIC: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


@dataclasses.dataclass(frozen=True, slots=True)
class TextHashes:
    """The hashes of one text question, the same for its clients and its decoder.

    `meaning` is 32 bytes that stand for the question and all that is bound with it. `length`
    includes bucket 0, for no answer.
    """

    meaning: bytes
    tasks: int
    length: int

    def __post_init__(self) -> None:
        if len(self.meaning) != DIGEST_SIZE:
            raise ParameterError(
                f"meaning must be a digest of {DIGEST_SIZE} bytes, not {len(self.meaning)}"
            )
        check_shape(self.tasks, self.length)

    @property
    def buckets(self) -> int:
        """How many buckets of a task hold strings."""
        return self.length - 1

    def key(self, task: int) -> bytes:
        """Return the public key of a task's hash."""
        if not 0 <= task < self.tasks:
            raise ParameterError(f"task must be from 0 to {self.tasks - 1}, not {task}")
        hashed = hashlib.sha256(_DOMAIN + task.to_bytes(4, "big") + self.meaning)
        return hashed.digest()[:_KEY_SIZE]

    def bucket(self, task: int, answer: str | None) -> int:
        """Return the bucket of an answer; None or a string of no visible character is no answer."""
        import numpy as np

        normal = "" if answer is None else normal_form(answer)
        prints = np.array([fingerprint(normal, self.meaning)], np.uint32)
        found = int(self.string_buckets(task, prints)[0]) + 1
        return found if normal else NO_ANSWER

    def string_buckets(
        self, task: int, prints: "npt.NDArray[np.uint32]"
    ) -> "npt.NDArray[np.int64]":
        """Return each fingerprint's bucket in a task, minus 1: 0 to `buckets` - 1."""
        import numpy as np

        hashed = siphash(self.key(task), prints.byteswap())
        return (hashed % np.uint64(self.buckets)).astype(np.int64)


def check_shape(tasks: int, length: int) -> None:
    """Refuse numbers of tasks and buckets that no question may have."""
    if not FEWEST_TASKS <= tasks <= MOST_TASKS:
        raise ParameterError(f"tasks must be from {FEWEST_TASKS} to {MOST_TASKS}, not {tasks}")
    if not FEWEST_BUCKETS <= length <= MOST_BUCKETS:
        raise ParameterError(
            f"buckets must be from {FEWEST_BUCKETS} to {MOST_BUCKETS}, not {length}"
        )


def initial_state(key: bytes) -> list[int]:
    """Return the four words that SipHash begins with."""
    halves = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")) * 2
    return [half ^ magic for half, magic in zip(halves, _MAGIC, strict=True)]


def siphash(key: bytes, words: "npt.NDArray[np.uint32]") -> "npt.NDArray[np.uint64]":
    """Return SipHash-2-4 of messages of four bytes, each given as a little-endian word.

    Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", section 2.
    """
    import numpy as np

    v0, v1, v2, v3 = (np.full(words.shape, each, np.uint64) for each in initial_state(key))
    block = words.astype(np.uint64) | np.uint64(4 << 56)  # the message and then its length
    v3 ^= block
    for _ in range(2):
        _round(v0, v1, v2, v3)
    v0 ^= block
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round(v0: "_Words", v1: "_Words", v2: "_Words", v3: "_Words") -> None:
    """Do one SipRound in place."""
    v0 += v1
    _rotate(v1, 13)
    v1 ^= v0
    _rotate(v0, 32)
    v2 += v3
    _rotate(v3, 16)
    v3 ^= v2
    v0 += v3
    _rotate(v3, 21)
    v3 ^= v0
    v2 += v1
    _rotate(v1, 17)
    v1 ^= v2
    _rotate(v2, 32)


def _rotate(word: "_Words", by: int) -> None:
    import numpy as np

    high = word >> np.uint64(64 - by)
    word <<= np.uint64(by)
    word |= high
