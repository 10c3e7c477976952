"""Signs each permit of a person once, without seeing it.

A person's answers would count twice if the issuer signed twice for one place. So what it answers
for a person, a domain, a window and a number is kept before it leaves, and is the answer for ever:
a request that is repeated, since its answer was lost, gets the same bytes.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Protocol

from aggregator.clock import Clock, SystemClock
from aggregator.codec import decode, encode
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import LocalError, ParameterError
from aggregator.issuer.private_keys import PrivateKeys
from aggregator.protocol.blind_signing import blind_sign
from aggregator.protocol.permit_requests import NO_SIGNATURE, PermitAnswer, PermitRequest, Place
from aggregator.protocol.task import Task

AHEAD = 4
"""How many windows from now on a person may have permits of, unless the application says more."""


class AlreadyIssued(LocalError):
    """Everything that was asked for was given out before, for other bytes: on another device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """What was answered: SHA-256 of what was to be signed, and its signature, still blinded."""

    asked: bytes
    answer: bytes


class Store(Protocol):
    """Where an application keeps what was answered; methods may be called by several threads.

    What is kept tells nobody which report a permit lets count, but it does tell who got permits.
    """

    def get(self, user: str, place: Place) -> Issued | None:
        """Return what is kept for a place of a person; None if nothing is."""

    def keep(self, user: str, place: Place, issued: Issued) -> Issued:
        """Keep an answer for good, unless one is kept for the place already; return the one kept.

        Both in one step (`INSERT … ON CONFLICT DO NOTHING`, then read, in a transaction), and on
        the disk when this returns: otherwise one person gets two permits.
        """


class Issuer:
    """Issues the permits of some tasks."""

    def __init__(
        self,
        keys: PrivateKeys,
        tasks: Sequence[Task],
        store: Store,
        *,
        ahead: int = AHEAD,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        """Take the tasks whose permits are given out.

        Args:
            keys: The keys that the tasks were made with.
            tasks: Those of a survey, say; people get permits of all their domains.
            store: Where answers are kept.
            ahead: Permits are given out for the window of now and so many after it.
            clock: The machine's by default.
            entropy: The system's by default; it only blinds what is computed.

        Raises:
            ParameterError: A task's permits are not signed with these keys.
        """
        self._keys, self._store, self._ahead = keys, store, ahead
        self._clock = SystemClock() if clock is None else clock
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._tasks: dict[bytes, Task] = {}
        for task in tasks:
            if task.permits is None or task.issuer_keys != keys.public:
                raise ParameterError(
                    f"tasks: the permits of {task.title!r} are not signed with these keys"
                )
            self._tasks.setdefault(task.permits.domain, task)

    def issue(self, user: str, body: bytes) -> bytes:
        """Return the answer to a request of a person, whom the application knows by a login.

        Args:
            user: Who asks, by a name that the person keeps; compared byte for byte.
            body: The request.

        Raises:
            DecodeError: The body is no request for permits.
            ParameterError: It asks for what nobody gets; the message names it.
            AlreadyIssued: See there. Some of what was asked for may have been issued before: then
                its places in the answer are zeros.
        """
        request = decode(PermitRequest, body)
        for place, _ in request.wanted:
            self._check(place)
        answers = [self._issued(user, place, blinded) for place, blinded in request.wanted]
        if all(each == NO_SIGNATURE for each in answers):
            raise AlreadyIssued("permits: were given out before, to another device of the person")
        return encode(PermitAnswer(answers))

    def first_windows(self) -> dict[bytes, int]:
        """Return the number of the first window for which permits are given out, by domain.

        What is kept of windows before it may be deleted, and should be: it tells who got permits.
        Only if the clock were set back would anybody be asked for it again.
        """
        return {domain: self._window_now(task) for domain, task in self._tasks.items()}

    def _window_now(self, task: Task) -> int:
        return task.permit_window_at(task.time(self._clock.now()))

    def _check(self, place: Place) -> None:
        """Refuse a place of which nobody gets a permit now."""
        task = self._tasks.get(place.domain)
        if task is None:
            raise ParameterError("domain: no task here has it")
        most = task.policy.max_reports_per_person
        if place.number >= most:
            raise ParameterError(f"number: must be from 0 to {most - 1}, not {place.number}")
        now = self._window_now(task)
        last = now if task.policy.window is None else now + self._ahead
        if not now <= place.window <= last:
            raise ParameterError(f"window: must be from {now} to {last}, not {place.window}")
        if self._keys.of_window(place.window) is None:
            raise ParameterError(f"window: {place.window} has no key")

    def _issued(self, user: str, place: Place, blinded: bytes) -> bytes:
        asked = hashlib.sha256(blinded).digest()
        kept = self._store.get(user, place)
        key = self._keys.of_window(place.window)
        if kept is None and key is not None:
            made = Issued(asked, blind_sign(key, blinded, self._entropy))
            kept = self._store.keep(user, place, made)
        return kept.answer if kept is not None and kept.asked == asked else NO_SIGNATURE
