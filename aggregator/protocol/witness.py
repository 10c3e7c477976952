"""What an aggregator tells the other of its releases, so that who was set back learns it.

A store and its journal that go back together, as a machine does that is restored as a whole, have
forgotten releases and what they cost, and nothing on that machine says so. But each release is one
of both aggregators: the leader finishes with the helper's share only, and reserves the cost before
it asks. So with each aggregate share each says which batches of the task it released last, in a
header of HTTP that other programs pass over; and who does not know one of them was set back.

It says nothing that the other does not know, and it is believed only so far as to release nothing
more: whoever lies in it could as well refuse.
"""

from collections.abc import Sequence

from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch

HEADER = "Prio-Released"
MOST_BATCHES = 16
"""How many are told: who was set back lacks the last ones."""

_MOST_CHARACTERS = 4096


def to_header(batches: Sequence[Batch]) -> str:
    """Return batches as the header has them, hexadecimal: `first-last`, separated by commas."""
    return ",".join(f"{each.first.hex()}-{each.last.hex()}" for each in batches[:MOST_BATCHES])


def from_header(text: str | None) -> list[Batch]:
    """Return the batches of a header; none if it is not there, or is no such header."""
    if not text or len(text) > _MOST_CHARACTERS:
        return []
    try:
        pairs = [each.split("-") for each in text.split(",")]
        return [Batch(bytes.fromhex(first), bytes.fromhex(last)) for first, last in pairs]
    except (ValueError, ParameterError):
        return []
