"""The size of a seed, which the sizes of shares follow from.

Source:
    VDAF, "XofTurboShake128".
"""

SEED_SIZE = 32
"""Bytes of a seed."""
