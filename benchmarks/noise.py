"""Exact discrete Laplace draws, as a release makes them, beside OpenDP's."""

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from fractions import Fraction

from aggregator.dp.samplers import DiscreteLaplaceSampler
from aggregator.entropy import SystemEntropy
from benchmarks.timing import median_seconds

_LARGEST_RIVAL_COUNT = 20_000


@dataclasses.dataclass(frozen=True, slots=True)
class NoiseTimes:
    """Nanoseconds of processor time per draw.

    Attributes:
        scale: t of P(z) ~ exp(-|z|/t).
        ours: The production sampler's.
        rival: OpenDP's, or None if it is not installed.
    """

    scale: Fraction
    ours: float
    rival: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long OpenDP takes."""
        return None if self.rival is None else self.rival / self.ours


def time_noise(scale: Fraction, count: int, rounds: int) -> NoiseTimes:
    """Time draws of both, by turns.

    Args:
        scale: The scale.
        count: Draws per round. OpenDP's time per draw does not depend on their number, so it makes
            at most 20,000.
        rounds: Rounds; the medians count.
    """
    sampler, entropy = DiscreteLaplaceSampler(scale), SystemEntropy()
    works: dict[str, Callable[[], object]] = {"ours": lambda: sampler.sample(count, entropy)}
    rival_count = min(count, _LARGEST_RIVAL_COUNT)
    rival = _opendp(scale, rival_count)
    if rival is not None:
        works["rival"] = rival
    seconds = median_seconds(works, rounds)
    return NoiseTimes(
        scale,
        1e9 * seconds["ours"] / count,
        1e9 * seconds["rival"] / rival_count if "rival" in seconds else None,
    )


def _opendp(scale: Fraction, count: int) -> Callable[[], object] | None:
    """Return a function that draws with OpenDP, or None if it is not installed."""
    try:
        opendp = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T=int))
    mechanism: Callable[[Sequence[int]], object] = opendp.m.make_laplace(
        domain, opendp.l1_distance(T=int), scale=float(scale)
    )
    zeros = [0] * count
    return lambda: mechanism(zeros)
