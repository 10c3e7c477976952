"""`prio noise`: raw draws from the samplers that releases use, for an auditor to test."""

from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from aggregator.cli.process import ends_at_once
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dp.samplers import Draws


class Kind(StrEnum):
    """The distributions."""

    DISCRETE_LAPLACE = "discrete-laplace"
    TRUNCATED_GEOMETRIC = "truncated-geometric"
    DISCRETE_GAUSSIAN = "discrete-gaussian"


class Sampler(Protocol):
    """Any of the exact samplers."""

    def sample(self, count: int, entropy: Entropy) -> "Draws":
        """Return `count` independent draws."""


def noise(
    scale: Annotated[
        str,
        typer.Option(
            help='An exact rational such as "51000/7": t of discrete Laplace and truncated '
            "geometric noise, P(z) ~ exp(-|z|/t); sigma of discrete Gaussian noise."
        ),
    ],
    count: Annotated[int, typer.Option(min=0, help="How many draws.")],
    out: Annotated[Path, typer.Option(help="The .npy file to write.")],
    kind: Annotated[Kind, typer.Option(help="The distribution.")] = Kind.DISCRETE_LAPLACE,
    bound: Annotated[
        int | None,
        typer.Option(min=0, help="k of truncated geometric noise, which lies from -k to k."),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            help="Instead of --bound: use the least k whose outermost values have "
            "at most this mass."
        ),
    ] = None,
) -> None:
    """Draw noise as a release does, from the operating system's entropy, and save it.

    The draws are one vector under one fresh key. They are saved as int64 if all of them fit,
    otherwise as Python integers (dtype object), which `numpy.load` reads with `allow_pickle=True`.
    """
    import numpy as np

    from aggregator.cli.spinner import spinning
    from aggregator.collector.results.whole_files import written_whole
    from aggregator.dp.rationals import parse_rational

    with ends_at_once():  # loads and compiles with numba, which may swallow Ctrl-C
        sampler, description = _sampler(kind, parse_rational(scale, "scale"), bound, delta)
        sampler.sample(1, SystemEntropy())
    with spinning(f"drawing {count:,} times"):
        draws = sampler.sample(count, SystemEntropy())
    is_object = draws.dtype == np.object_
    with written_whole(out) as file:
        np.save(file, draws, allow_pickle=is_object)
    note = " (Python integers; load with allow_pickle=True)" if is_object else ""
    print(f"{count} draws of {description}, dtype {draws.dtype}{note}: {out}")


def _sampler(
    kind: Kind, scale: Fraction, bound: int | None, delta: str | None
) -> tuple[Sampler, str]:
    """Return a sampler and its name."""
    from aggregator.dp.rationals import format_rational, parse_probability
    from aggregator.dp.samplers import (
        DiscreteGaussianSampler,
        DiscreteLaplaceSampler,
        TruncatedGeometricSampler,
    )
    from aggregator.dp.truncation import least_bound

    text = format_rational(scale)
    if kind is Kind.TRUNCATED_GEOMETRIC:
        if (bound is None) == (delta is None):
            raise ParameterError("bound: truncated-geometric needs either --bound or --delta")
        if bound is None:
            bound = least_bound(1 / scale, parse_probability(delta, "delta"))
        name = f"truncated symmetric geometric noise with t = {text} and k = {bound}"
        return TruncatedGeometricSampler(scale, bound), name
    if bound is not None or delta is not None:
        raise ParameterError(f"bound: {kind.value} noise is not truncated")
    if kind is Kind.DISCRETE_GAUSSIAN:
        squared = scale**2
        name = f"discrete Gaussian noise with sigma^2 = {format_rational(squared)}"
        return DiscreteGaussianSampler(squared), name
    return DiscreteLaplaceSampler(scale), f"discrete Laplace noise with t = {text}"
