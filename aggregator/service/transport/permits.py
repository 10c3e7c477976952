"""Permits for work that waits for other parties: how much of it runs at once, and for which tasks.

Each piece of work holds a permit until it ends, or a part of one if it is small; then the next may
begin, whatever the others do. Shares are fair: a task with little in progress comes before one with
much, and among equals the one that waited longest. A host that leaves us waiting holds at most
`per_host` permits. Once a host has not answered, one piece of work at a time asks it, ever more
rarely, and all such hosts together hold at most half of the permits.
"""

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import nsmallest

import anyio

from aggregator.service.config import SMALL_JOBS
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable

LONGEST_REST_SECONDS = 60

WHOLE = SMALL_JOBS
"""The parts of a permit: so many small pieces of work may take the place of a large one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """Work of one task that could begin: which host it waits for, and how many pieces."""

    task: bytes
    host: str
    pieces: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Outage:
    """How many times in a row a host has not answered, and when it is asked again."""

    failures: int
    until: float


class Permits:
    """The permits of one driver."""

    def __init__(
        self,
        total: int,
        per_host: int,
        now: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Give out permits.

        Args:
            total: How many there are.
            per_host: How many of them may wait for one host.
            now: Tells the time, in seconds.
            jitter: Draws from [0, 1), so that drivers that failed together do not return together.
        """
        self._total = total
        self._per_host = per_host
        self._now = now
        self._jitter = jitter
        self._tasks: Counter[bytes] = Counter()
        self._hosts: Counter[str] = Counter()
        self._outages: dict[str, _Outage] = {}
        self._turns: dict[bytes, int] = {}
        self._changed = anyio.Event()

    @property
    def is_free(self) -> bool:
        """Whether nobody holds one, or a part of one."""
        return self._tasks.total() < self._total * WHOLE

    def shares(
        self, demands: Iterable[Demand], begin: Callable[[bytes], int] = lambda _: WHOLE
    ) -> Counter[bytes]:
        """Return how many pieces of work of each task may begin now.

        Args:
            demands: What could begin.
            begin: Is called with the task of each piece, before it is known whether others may
                begin; it returns how many parts of a permit the piece takes, 0 if there is none.
        """
        demands = self._foremost(demands)
        tasks, hosts = self._tasks.copy(), self._hosts.copy()
        turns = self._turns.copy()
        turn = max(turns.values(), default=0)
        shares: Counter[bytes] = Counter()
        while tasks.total() < self._total * WHOLE:
            demands = [
                each
                for each in demands
                if shares[each.task] < each.pieces and self._admits(each.host, hosts)
            ]
            if not demands:
                break
            chosen = min(demands, key=lambda each: (tasks[each.task], turns.get(each.task, 0)))
            parts = begin(chosen.task)
            if not parts:
                demands.remove(chosen)
                continue
            shares[chosen.task] += 1
            tasks[chosen.task] += parts
            hosts[chosen.host] += parts
            turns[chosen.task] = turn = turn + 1
        return shares

    def may_begin(self, demands: Iterable[Demand]) -> bool:
        """Return whether any of this work may begin now."""
        return self.is_free and any(self._admits(each.host, self._hosts) for each in demands)

    def _foremost(self, demands: Iterable[Demand]) -> list[Demand]:
        """Return those that come first at each host, as many as there could be permits for."""
        of_host: defaultdict[str, list[Demand]] = defaultdict(list)
        for each in demands:
            of_host[each.host].append(each)
        return [
            each
            for host, some in of_host.items()
            if self._admits(host, self._hosts)
            for each in nsmallest(self._total * WHOLE, some, key=self._turn_of)
        ]

    def _turn_of(self, demand: Demand) -> tuple[int, int]:
        return self._tasks[demand.task], self._turns.get(demand.task, 0)

    def take(self, task: bytes, host: str, parts: int = WHOLE) -> None:
        """Take the permit of a piece of work that begins, or parts of one."""
        self._tasks[task] += parts
        self._hosts[host] += parts
        self._turns[task] = 1 + max(self._turns.values(), default=0)

    def give_back(self, task: bytes, host: str, parts: int = WHOLE) -> None:
        """Give back what a piece of work that has ended took."""
        self._tasks[task] -= parts
        self._hosts[host] -= parts
        self.wake()

    def wake(self) -> None:
        """Let `wait` end now."""
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a permit is given back or `wake` is called."""
        with anyio.move_on_after(seconds):
            await self._changed.wait()
        self._changed = anyio.Event()

    @contextmanager
    def asking(self, host: str) -> Iterator[None]:
        """Note whether `host` answers requests made inside; a refusal is an answer too."""
        try:
            yield
        except PeerRefused:
            self._outages.pop(host, None)
            raise
        except PeerUnreachable as error:
            self._failed(host, error.retry_after or 0)
            raise
        except anyio.get_cancelled_exc_class():
            self._failed(host, 0)
            raise
        self._outages.pop(host, None)

    def _admits(self, host: str, hosts: Counter[str]) -> bool:
        outage = self._outages.get(host)
        if outage is None:
            return hosts[host] < self._per_host * WHOLE
        rest = outage.until - self._now()
        # A rest longer than the longest means that the clock was set back.
        is_time = rest <= 0 or rest > LONGEST_REST_SECONDS
        in_doubt = sum(hosts[each] for each in self._outages)
        return is_time and not hosts[host] and in_doubt < max(1, self._total // 2) * WHOLE

    def _failed(self, host: str, asked: float) -> None:
        before = self._outages.get(host, _Outage(0, 0))
        now = self._now()
        if now < before.until:
            return  # this request was sent before the failure that we know of
        delay = min(LONGEST_REST_SECONDS, 1 << min(before.failures, 6)) * (1 - self._jitter() / 2)
        rest = max(delay, min(asked, LONGEST_REST_SECONDS))
        self._outages[host] = _Outage(before.failures + 1, now + rest)
