"""What the leader's and the helper's shells have in common."""

from aggregator.party.buckets import accumulate_shares, charge_of
from aggregator.party.party import Floor, Party, ServedTask, TaskRefused

__all__ = [
    "Floor",
    "Party",
    "ServedTask",
    "TaskRefused",
    "accumulate_shares",
    "charge_of",
]
