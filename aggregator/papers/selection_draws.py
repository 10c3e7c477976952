"""Exact draws of keep decisions.

A uniform number starts with 64 bits: comparing them with the first 64 bits of the probability
settles all but one draw in 10^19. The rest are settled with as many further bits of both as it
takes. So the decisions have exactly the law of `OptimalSelection.keep_probability`.
"""

from collections.abc import Sequence

import numpy as np

from aggregator.dp.decimals import integer_in
from aggregator.entropy import Entropy
from aggregator.papers.partition_selection import OptimalSelection

_WORD_BITS = 64


def draw_kept(selection: OptimalSelection, counts: Sequence[int], entropy: Entropy) -> list[bool]:
    """Return one independent decision for each count; True keeps the bucket.

    The entropy gives eight bytes for each decision, and eight more for each tie. Raises
    `ParameterError` if a count is out of range.
    """
    for count in counts:
        integer_in(count, "each count", 0, 2**63 - 1)
    words = {count: selection.threshold_word(count, _WORD_BITS) for count in set(counts)}
    uniform = np.frombuffer(entropy.bytes(8 * len(counts)), dtype="<u8").tolist()
    return [
        _settle(selection, count, first, entropy) if first == words[count] else first < words[count]
        for count, first in zip(counts, uniform, strict=True)
    ]


def _settle(selection: OptimalSelection, count: int, prefix: int, entropy: Entropy) -> bool:
    """Decide for `count` when the uniform number and the probability both start with `prefix`."""
    bits = _WORD_BITS
    while True:
        prefix = prefix << _WORD_BITS | int.from_bytes(entropy.bytes(8), "little")
        bits += _WORD_BITS
        word = selection.threshold_word(count, bits)
        if prefix != word:
            return prefix < word
