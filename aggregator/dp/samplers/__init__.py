"""Exact samplers, a whole vector at a time, from a fresh key of a stream cipher each."""

from aggregator.dp.samplers.discrete_gaussian import DiscreteGaussian
from aggregator.dp.samplers.discrete_laplace import DiscreteLaplace
from aggregator.dp.samplers.truncated_geometric import TruncatedGeometric
from aggregator.dp.samplers.two_sided_geometric import Draws

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Draws", "TruncatedGeometric"]
