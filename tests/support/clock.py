"""A clock that tests turn by hand."""


class ManualClock:
    """Stands still at `now`, in seconds, until it is advanced."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: int) -> None:
        self._now += seconds
