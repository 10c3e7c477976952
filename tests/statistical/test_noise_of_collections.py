"""One task of attribution, collected at two epsilons: each aggregator's noise has the law of each.

What is tested has come the whole way: through `release`, sealed and opened. Seeds are fixed.
"""

from fractions import Fraction

import numpy as np
import pytest

from aggregator.collector.results.result import open_agg_shares
from aggregator.dap.attribution import MILLION, min_dp_budget
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, TimeIntervalQuery
from aggregator.dap.profile import Role
from aggregator.dap.times import Interval
from aggregator.protocol.collection import release
from field import Vector, lift
from tests.support.entropy import SeededEntropy
from tests.support.statistics import cells_of, chi_square, chi_square_limit
from tests.support.tasks import ATTRIBUTION, collector_keypair, make_task

pytestmark = pytest.mark.statistical

RELEASES = 1000
MAX_VALUE = 100
TASK = make_task(
    {"type": "Prio3L1BoundSum", "length": 8, "max_value": MAX_VALUE, "chunk_length": 5},
    {"mechanism": "PureDpDiscreteLaplace", "epsilon": "2", "bound": False},
    attribution=ATTRIBUTION,
)
BUDGETS = (MILLION // 2, 2 * MILLION)
"""Epsilon 0.5 and 2."""


def noise_at(budget: int) -> dict[Role, list[int]]:
    """Return what each aggregator adds to zeros, in 1,000 collections at a budget."""
    request = CollectionJobReq(
        TimeIntervalQuery(Interval.of(5, 1)), extensions=min_dp_budget(budget)
    )
    zeros = Vector.zeros(TASK.prio3.field, (8,))
    entropy = SeededEntropy(budget)
    found: dict[Role, list[int]] = {Role.LEADER: [], Role.HELPER: []}
    for _ in range(RELEASES):
        sealed = [release(TASK, role, zeros, request, entropy) for role in found]
        response = CollectionJobResp(10, Interval.of(5, 1), *sealed)
        opened = open_agg_shares(TASK, collector_keypair(), request, response)
        for role, share in zip(found, opened, strict=True):
            found[role] += map(int, lift(share))
    return found


def mass(budget: int, wrong: Fraction = Fraction(1)) -> object:
    """Return the law of one aggregator's noise: t = 2 max_value / epsilon, or wrong times that."""
    q = float(np.exp(-1 / float(wrong * 2 * MAX_VALUE * MILLION / budget)))
    return lambda z: (1 - q) / (1 + q) * q ** abs(z)


@pytest.mark.parametrize("budget", BUDGETS)
def test_each_aggregators_noise_has_the_scale_of_the_collection(budget: int) -> None:
    (other,) = {*BUDGETS} - {budget}
    for drawn in noise_at(budget).values():
        cells = cells_of(mass(budget), 60)
        assert chi_square(drawn, cells) < chi_square_limit(len(cells) - 1)
        for law in (mass(budget, Fraction(4, 5)), mass(budget, Fraction(5, 4)), mass(other)):
            cells = cells_of(law, 60)
            assert chi_square(drawn, cells) > chi_square_limit(len(cells) - 1)
