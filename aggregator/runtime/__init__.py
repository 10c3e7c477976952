"""The aggregators' runtime: what the leader's and the helper's shells share."""

from typing import TYPE_CHECKING

from aggregator.lazily import exports

if TYPE_CHECKING:
    from aggregator.runtime.commitment import commit
    from aggregator.runtime.runtime import Runtime, ServedTask
    from aggregator.runtime.spending import charge_of, check_limits
    from aggregator.runtime.turns import Threads, Turns
else:
    __getattr__ = exports(
        __name__,
        {
            "commitment": ("commit",),
            "runtime": ("Runtime", "ServedTask"),
            "spending": ("charge_of", "check_limits"),
            "turns": ("Threads", "Turns"),
        },
    )

__all__ = [
    "Runtime",
    "ServedTask",
    "Threads",
    "Turns",
    "charge_of",
    "check_limits",
    "commit",
]
