"""Questions without a list of answers: what people write, found in histograms of hashes.

The clients' part is in `aggregator.client.text`. `laws` has the exact laws that `plan` and `decode`
rest on.
"""

from typing import Final

GUESSED_STRINGS: Final = 50_000
"""How many different strings people are guessed to hold; nobody knows the true tail."""
