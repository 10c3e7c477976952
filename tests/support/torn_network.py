"""A network before a service that loses requests and answers, carries some twice, and some late."""

import random
import threading
from contextlib import suppress

import httpx

from tests.support.faulty_peer import Call

LOST, UNANSWERED, REPEATED, LATE = 0.1, 0.25, 0.35, 0.45
"""Where the chances end that a request is lost, not answered, carried twice, or carried later."""


class TornNetwork:
    """The fault of a `FaultyPeer`, drawn from a seed.

    Attributes:
        carried: The path and the body of each request that came, once for each time.
    """

    def __init__(self, seed: int) -> None:
        self.is_calm = False
        self.carried: list[tuple[str, bytes]] = []
        self._choose = random.Random(seed)  # noqa: S311  no secret
        self._late: list[Call] = []
        self._lock = threading.Lock()

    def __call__(self, call: Call) -> None:
        """Carry a request, perhaps."""
        with self._lock:
            self.carried.append((call.path, call.body))
            fate = 1.0 if self.is_calm else self._choose.random()
            late = self._late.pop() if self._late and fate > LATE else None
            if REPEATED <= fate < LATE:
                self._late.append(call)
        if late is not None:
            with suppress(httpx.TransportError):  # nobody waits for it any more
                late.ask_behind()
        if fate < LOST or REPEATED <= fate < LATE:
            call.write(())
            return
        if fate < UNANSWERED:
            call.ask_behind()
            call.write(())
            return
        if fate < REPEATED:
            call.ask_behind()
        call.pass_on()
