"""Gets the signed permits of a person from the issuer, ahead of time, and keeps them.

    store = PermitStore(outbox, tasks)
    store.refresh(fetch)     # at login, and never because somebody wants to answer

The issuer sees who gets permits and when, so the moment must not be that of an answer. For all
tasks and the next windows they are asked for in one request.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from aggregator.client import held_permits
from aggregator.client.held_permits import Asked
from aggregator.client.outbox import Outbox
from aggregator.clock import Clock, SystemClock
from aggregator.codec import DecodeError, decode, encode
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.blind_signing import blind, unblind
from aggregator.protocol.permit_requests import NO_SIGNATURE, PermitAnswer, PermitRequest, Place
from aggregator.protocol.permits import SIZE
from aggregator.protocol.signed_permits import is_signed, signed_text
from aggregator.protocol.task import Task

AHEAD = 4
"""For how many windows after that of now permits are asked."""

Fetch = Callable[[bytes], bytes | None]
"""Sends a request to the application's issuer, as whoever is logged in; returns the answer.

None if it said that all of it was given to another device of the person (`AlreadyIssued`, a 409).
"""


class PermitStore:
    """The signed permits of one person, in the outbox that their reports wait in."""

    def __init__(
        self,
        outbox: Outbox,
        tasks: Sequence[Task],
        *,
        person: str = "",
        ahead: int = AHEAD,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        """Take the tasks whose permits are wanted.

        Args:
            outbox: Where permits are kept, and from where `put` takes them with a report.
            tasks: All of a survey, say: those of its text questions, too.
            person: Whose permits these are, as `put` names the person; empty where the outbox is
                one person's and `put` names nobody.
            ahead: See `AHEAD`; no more than the issuer's.
            clock: The machine's by default; a survey's (`SurveyClient.clock`) is right where that
                is wrong.
            entropy: The system's by default.

        Raises:
            ParameterError: A task has no signed permits.
        """
        self._outbox, self._person, self._ahead = outbox, person, ahead
        self._clock = SystemClock() if clock is None else clock
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._tasks: dict[bytes, Task] = {}
        for task in tasks:
            if task.permits is None or task.issuer_keys is None:
                raise ParameterError(f"tasks: {task.title!r} has no signed permits")
            self._tasks.setdefault(task.permits.domain, task)

    def refresh(self, fetch: Fetch) -> int:
        """Ask for the permits of now and the next windows that are missing; return how many came.

        If the answer is lost, the same bytes are asked for again next time. Nothing is sent if
        nothing is missing.

        Raises:
            PeerError: The answer is none, or has a signature that is not of what was asked; the
                others are kept.
            OutboxFull: There is no room for them.
        """
        person, now = self._person, self._clock.now()
        known = self._outbox.within(lambda execute: held_permits.known_places(execute, person))
        asked = [self._asked(each) for each in self._wanted(now) if each not in known]
        self._outbox.within(lambda execute: held_permits.ask(execute, person, asked))
        waiting = self._outbox.within(partial(self._unanswered, now=now))
        if not waiting:
            return 0
        body = encode(PermitRequest([(each.place, each.blinded.sent) for each in waiting]))
        answer = fetch(body)
        nothing = [NO_SIGNATURE] * len(waiting)
        signatures = nothing if answer is None else _signatures(answer, len(waiting))
        answered: list[tuple[Asked, bytes | None]] = []
        for each, signature in zip(waiting, signatures, strict=True):
            if signature == NO_SIGNATURE:
                answered.append((each, None))
            elif (made := self._finished(each, signature)) is not None:
                answered.append((each, made))
        self._outbox.within(partial(held_permits.keep, holder=person, answered=answered))
        if len(answered) < len(waiting):
            raise PeerError("permits: the issuer's signature is not of what it was asked for")
        return sum(signature is not None for _, signature in answered)

    def held(self) -> int:
        """Return how many permits of now and the next windows are held and were not used."""
        wanted = [*self._wanted(self._clock.now())]

        def count(execute: held_permits.Execute) -> int:
            found = [held_permits.held(execute, self._person, each) for each in wanted]
            return sum(each is not None for each in found)

        return self._outbox.within(count)

    def _wanted(self, seconds: int) -> Iterator[Place]:
        for domain, task in self._tasks.items():
            now = task.permit_window_at(task.time(seconds))
            last = now if task.policy.window is None else now + self._ahead
            for window in range(now, last + 1):
                if task.issuer_keys is not None and task.issuer_keys.of_window(window) is not None:
                    for number in range(task.policy.max_reports_per_person):
                        yield Place(domain, window, number)

    def _asked(self, place: Place) -> Asked:
        """Draw a permit, and blind it."""
        opening = self._entropy.bytes(SIZE)
        modulus, text = self._signed(place, opening)
        return Asked(place, opening, blind(modulus, text, self._entropy))

    def _finished(self, asked: Asked, signature: bytes) -> bytes | None:
        """Return the signature of a permit; None if it is of anything else."""
        modulus, text = self._signed(asked.place, asked.opening)
        made = unblind(modulus, signature, asked.blinded.inverse)
        return made if is_signed(modulus, text, made) else None

    def _signed(self, place: Place, opening: bytes) -> tuple[bytes, bytes]:
        """Return the modulus that signs a permit, and what it signs."""
        task = self._tasks[place.domain]
        modulus = None if task.issuer_keys is None else task.issuer_keys.of_window(place.window)
        if modulus is None or task.permits is None:
            raise ParameterError(f"window: {place.window} has no key")
        report_id = task.permits.report_id(opening, place.window)
        return modulus, signed_text(place.domain, place.window, report_id)

    def _unanswered(self, execute: held_permits.Execute, now: int) -> list[Asked]:
        """Forget windows that are over; return what these tasks still wait for."""
        for domain, task in self._tasks.items():
            window = task.permit_window_at(task.time(now))
            held_permits.forget_before(execute, self._person, domain, window)
        found = held_permits.unanswered(execute, self._person)
        return [each for each in found if each.place.domain in self._tasks]


def _signatures(answer: bytes, count: int) -> Sequence[bytes]:
    """Return the signatures of an answer, or raise `PeerError`."""
    try:
        found = decode(PermitAnswer, answer).signatures
    except DecodeError as error:
        raise PeerError(f"permits: the issuer's answer: {error}") from error
    if len(found) != count:
        raise PeerError(f"permits: the issuer answered {len(found)} of {count}")
    return found
