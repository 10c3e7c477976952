"""Questions that nobody lists answers for: what people write, found in histograms of hashes.

What clients do of it is in `aggregator.client.text`. `laws` has the exact laws that `plan` and
`decode` rest on.
"""

from typing import Final

GUESSED_STRINGS: Final = 50_000
"""How many different strings people hold, by the guess of a tail that nobody knows."""
