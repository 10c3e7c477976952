"""What aggregators tell each other of their releases, so that one that was set back learns it.

If a store and its journal are set back together, as when a whole machine is restored, releases and
their cost are forgotten and nothing on that machine shows it. But both aggregators make each
release: the leader needs the helper's share to finish, and reserves the cost before it asks. So
with each aggregate share, each aggregator names the batches of the task that it released last, in
an HTTP header that other programs ignore. An aggregator that does not know one was set back.

The header tells the peer nothing new, and it is believed only to stop releases: a peer that lies in
it could just as well refuse.
"""

from collections.abc import Sequence

from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch

HEADER = "Prio-Released"
MOST_BATCHES = 16
"""How many batches are named; an aggregator that was set back lacks the last ones."""

_MOST_CHARACTERS = 4096


def to_header(batches: Sequence[Batch]) -> str:
    """Return batches as the header writes them: hexadecimal `first-last`, separated by commas."""
    return ",".join(f"{each.first.hex()}-{each.last.hex()}" for each in batches[:MOST_BATCHES])


def from_header(text: str | None) -> list[Batch]:
    """Return the batches that a header names; none if it is missing or malformed."""
    if not text or len(text) > _MOST_CHARACTERS:
        return []
    try:
        pairs = [each.split("-") for each in text.split(",")]
        return [Batch(bytes.fromhex(first), bytes.fromhex(last)) for first, last in pairs]
    except (ValueError, ParameterError):
        return []
