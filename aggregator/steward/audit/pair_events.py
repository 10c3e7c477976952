"""Whether draws follow a law: counts of events whose probabilities are known."""

import dataclasses

import numpy as np

from aggregator.steward.audit.noise_table import Floats, Integers, NoiseTable
from aggregator.steward.audit.pair_check import Check, check_of
from aggregator.steward.audit.tail_bounds import log_tail

_MODULI = (2, 3, 4, 5)


@dataclasses.dataclass(frozen=True, slots=True)
class Events:
    """The events that `law` counts, fixed by the law and the number of draws.

    They are |Z| <= m for the `limits`, Z = v for the `cells`, and for `steps`, if asked for, both Z
    >= v and Z <= -v.
    """

    limits: Integers
    cells: Integers
    steps: Integers

    @classmethod
    def of(cls, table: NoiseTable, draws: int, *, is_one_sided: bool = False) -> "Events":
        """Return the events with at least one expected hit and one expected miss."""
        inside = np.cumsum(table.magnitudes())
        limits = np.flatnonzero(draws * (1 - inside) >= 1)
        cells = table.values[draws * table.probabilities >= 1]
        steps = limits[limits > 0] if is_one_sided else limits[:0]
        return cls(limits, cells, steps)

    def __len__(self) -> int:
        return len(self.limits) + len(self.cells) + 2 * len(self.steps) + sum(_MODULI)

    def shares(self, values: Integers, weights: Floats) -> Floats:
        """Return each event's probability under these weights of the values, which add up to 1."""
        below = [
            weights[np.abs(values) <= limit].sum() for limit in self.limits
        ]  # a few dozen limits
        order = np.searchsorted(self.cells, values)
        inside = order < len(self.cells)
        inside[inside] = self.cells[order[inside]] == values[inside]
        cells = np.bincount(order[inside], weights[inside], minlength=len(self.cells))
        residues = [
            np.bincount(values % modulus, weights, minlength=modulus) for modulus in _MODULI
        ]
        tails = [weights[values >= step].sum() for step in self.steps]
        tails += [weights[values <= -step].sum() for step in self.steps]
        return np.concatenate([np.array(below), cells, np.array(tails), *residues])

    def describe(self, index: int) -> str:
        """Return an event in words."""
        if index < len(self.limits):
            return f"|Z| <= {self.limits[index]}"
        index -= len(self.limits)
        if index < len(self.cells):
            return f"Z = {self.cells[index]}"
        index -= len(self.cells)
        if index < len(self.steps):
            return f"Z >= {self.steps[index]}"
        index -= len(self.steps)
        if index < len(self.steps):
            return f"Z <= -{self.steps[index]}"
        index -= len(self.steps)
        for modulus in _MODULI:
            if index < modulus:
                return f"Z = {index} modulo {modulus}"
            index -= modulus
        raise IndexError(index)


def law_check(name: str, rows: Integers, table: NoiseTable, *, is_one_sided: bool = False) -> Check:
    """Check whether draws follow a law."""
    events = Events.of(table, rows.size, is_one_sided=is_one_sided)
    values, counts = np.unique(rows, return_counts=True)
    expected = events.shares(table.values, table.probabilities)
    seen = events.shares(values, counts / rows.size)
    logs = log_tail(seen * rows.size, rows.size, expected)
    worst = int(np.argmin(logs))
    return check_of(
        name,
        "law",
        len(events),
        logs[worst],
        f"{events.describe(worst)} in {round(seen[worst] * rows.size)} of {rows.size} draws, "
        f"{expected[worst] * rows.size:.1f} expected",
    )
