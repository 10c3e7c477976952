"""When an aggregator's HPKE key is replaced, and how long a retired one is taken.

Clients may keep a configuration for `cache_seconds`, so a retired key is taken for twice as long.
An upload that is sealed to it later is refused with `outdated_config`, and the client seals it
again.

Source: DAP, "HPKE Configuration Request" and "Uploading Reports".
"""

import dataclasses

from aggregator.dap.hpke_suites import REQUIRED, Suite
from aggregator.dap.times import DAY

UPLOAD_SECONDS = 600
"""How long an upload whose keys were checked may take until it is stored, clocks' skew included."""
MOST_KEYS = 200
"""How many keys there may be at once by the settings alone: the protocol has 256 ids, and some are
kept longer by what waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class HpkeRotation:
    """When keys change. All times are in seconds.

    Attributes:
        cache_seconds: How long clients may keep our configurations.
        age_seconds: How old the newest key may become; 0 to change it by command only.
        wait_seconds: How long reports may wait at the leader until the helper sees them.
        suites: Of which there is a key each, the one that we prefer first.
    """

    cache_seconds: int = DAY
    age_seconds: int = 30 * DAY
    wait_seconds: int = 14 * DAY
    suites: tuple[Suite, ...] = (REQUIRED,)

    def is_due(self, created_at: int, now: int) -> bool:
        """Return whether the newest key, made at `created_at`, is to be replaced."""
        return 0 < self.age_seconds <= now - created_at

    def is_overdue(self, created_at: int, now: int) -> bool:
        """Return whether the newest key was to be replaced so long ago that something is wrong."""
        return 0 < 2 * self.age_seconds <= now - created_at

    @property
    def most_keys(self) -> int:
        """How many keys there are at once, at least, when each is kept as long as it must be."""
        if not self.age_seconds:
            return len(self.suites)
        kept = 2 * self.cache_seconds + UPLOAD_SECONDS + self.wait_seconds
        return len(self.suites) * (1 + -(-kept // self.age_seconds))

    def is_taken(self, retired_at: int | None, now: int) -> bool:
        """Return whether uploads may be sealed to a key; it is not retired if that is None."""
        return retired_at is None or now < self.taken_until(retired_at)

    def taken_until(self, retired_at: int) -> int:
        """Return from when on uploads to a key that was retired at `retired_at` are refused."""
        return retired_at + 2 * self.cache_seconds
