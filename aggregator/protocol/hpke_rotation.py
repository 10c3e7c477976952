"""When an aggregator's HPKE key is replaced, and how long a retired one is still accepted.

Clients may keep a configuration for `cache_seconds`, so a retired key is accepted for twice as
long. An upload that is sealed to it later is refused with `outdated_config`, and the client seals
it again.

Source: DAP, "HPKE Configuration Request" and "Uploading Reports".
"""

import dataclasses

from aggregator.dap.hpke_suites import REQUIRED, Suite
from aggregator.dap.times import DAY

UPLOAD_SECONDS = 600
"""The longest time from checking an upload's keys to storing it, clock skew included."""
MOST_KEYS = 200
"""The most keys at once that settings may lead to: the protocol has 256 ids, and reports that wait
keep some keys longer."""


@dataclasses.dataclass(frozen=True, slots=True)
class HpkeRotation:
    """When keys change. All times are in seconds.

    Clients may keep our configurations for `cache_seconds`. The newest key may become `age_seconds`
    old; 0 changes it by command only. Reports may wait at the leader for `wait_seconds` until the
    helper sees them. Each of the suites has a key of its own; the preferred one is first.
    """

    cache_seconds: int = DAY
    age_seconds: int = 30 * DAY
    wait_seconds: int = 14 * DAY
    suites: tuple[Suite, ...] = (REQUIRED,)

    def is_due(self, created_at: int, now: int) -> bool:
        """Return whether the newest key, made at `created_at`, is to be replaced."""
        return 0 < self.age_seconds <= now - created_at

    def is_overdue(self, created_at: int, now: int) -> bool:
        """Return whether the newest key is twice as old as it should get: something is wrong."""
        return 0 < 2 * self.age_seconds <= now - created_at

    @property
    def most_keys(self) -> int:
        """How many keys there are at once if each is kept just as long as it must be."""
        if not self.age_seconds:
            return len(self.suites)
        kept = 2 * self.cache_seconds + UPLOAD_SECONDS + self.wait_seconds
        return len(self.suites) * (1 + -(-kept // self.age_seconds))

    def is_taken(self, retired_at: int | None, now: int) -> bool:
        """Return whether uploads to a key are accepted; `retired_at` is None if it is in use."""
        return retired_at is None or now < self.taken_until(retired_at)

    def taken_until(self, retired_at: int) -> int:
        """Return when we begin to refuse uploads to a key that was retired at `retired_at`."""
        return retired_at + 2 * self.cache_seconds
