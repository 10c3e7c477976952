"""Exact samplers, a whole vector at a time, from a fresh key of a stream cipher each."""

from aggregator.dp.samplers.discrete_gaussian import DiscreteGaussianSampler
from aggregator.dp.samplers.discrete_laplace import DiscreteLaplaceSampler
from aggregator.dp.samplers.truncated_geometric import TruncatedGeometricSampler
from aggregator.dp.samplers.two_sided_geometric import Draws

__all__ = [
    "DiscreteGaussianSampler",
    "DiscreteLaplaceSampler",
    "Draws",
    "TruncatedGeometricSampler",
]
