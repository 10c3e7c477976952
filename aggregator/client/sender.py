"""What a client needs of an aggregator's answers, whatever sends its requests.

An answer that does not come from an aggregator, such as a proxy's, is treated as a network failure:
it settles nothing, and the same bytes are sent again later.
"""

from typing import Protocol

REPORTS_PER_REQUEST = 200
"""How many reports a client sends together, by default."""


class Later(Exception):
    """There is no usable answer now; there may be one later, after `wait` seconds at least."""

    def __init__(self, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class TooLarge(Exception):
    """An aggregator, or something before it, takes no request of this size."""


class Refused(Exception):
    """An aggregator refused the whole request, by a name of the draft.

    Attributes:
        reason: The name, such as `unrecognizedTask`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Sender(Protocol):
    """Sends requests to aggregators."""

    clock_ahead: int | None
    """Seconds by which this machine's clock was ahead of the last answer's; None: unknown."""

    def date_of(self, url: str) -> int | None:
        """Return what time the last answer of a URL said it was, in seconds since the epoch.

        None if it did not say, or came from a cache.
        """

    def get(self, url: str, message: str, limit: int) -> bytes:
        """Return a message of at most `limit` bytes, past any cache.

        Raises:
            Later, Refused: See there.
        """

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        """Send a message; return the one that answers it, or nothing.

        Raises `Later`, `Refused` or `TooLarge`.
        """
