"""Exact samplers of whole vectors, each with a fresh key of a stream cipher."""

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
