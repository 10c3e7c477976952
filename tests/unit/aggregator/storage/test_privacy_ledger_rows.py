from fractions import Fraction

import pytest

from aggregator.errors import ParameterError
from aggregator.storage.database import Database
from aggregator.storage.engine import Conflict
from aggregator.storage.ledger import (
    Charge,
    LedgerEntry,
    Spent,
    cancel,
    charge,
    list_ledger,
    reserve,
    settle,
    spent,
)
from aggregator.storage.states import LedgerState
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, TENTH, units


def entries(store: Database) -> list[LedgerEntry]:
    return store.read_sync("list", lambda tx: list_ledger(tx, TASK_ID))


def test_a_reservation_becomes_a_charge(store: Database, clock: ManualClock) -> None:
    store.run_sync("reserve", lambda tx: reserve(tx, TASK_ID, units(5, 2**63 + 7), TENTH))
    reserved = LedgerEntry(
        TASK_ID, LedgerState.RESERVED, units(5, 2**63 + 7), TENTH, clock.now(), None
    )
    assert entries(store) == [reserved]
    clock.advance(3)
    store.run_sync("settle", lambda tx: settle(tx, TASK_ID, units(5, 2**63 + 7)))
    (charged,) = entries(store)
    assert (charged.state, charged.charge) == (LedgerState.CHARGED, TENTH)
    assert (charged.created_at, charged.charged_at) == (clock.now() - 3, clock.now())


def test_a_reservation_can_be_taken_back_and_a_charge_cannot(store: Database) -> None:
    store.run_sync("reserve", lambda tx: reserve(tx, TASK_ID, units(0, 5), TENTH))
    store.run_sync("charge", lambda tx: charge(tx, TASK_ID, units(5, 10), TENTH))
    for batch in (units(0, 5), units(5, 10)):
        store.run_sync("cancel", lambda tx, b=batch: cancel(tx, TASK_ID, b))
    (left,) = entries(store)
    assert (left.batch, left.state) == (units(5, 10), LedgerState.CHARGED)


def test_a_release_without_a_reservation_is_never_free(store: Database) -> None:
    store.run_sync("reserve", lambda tx: reserve(tx, TASK_ID, units(0, 5), TENTH))
    for batch in (units(0, 4), units(0, 6), units(5, 10)):
        with pytest.raises(Conflict, match="no cost is reserved"):
            store.run_sync("settle", lambda tx, b=batch: settle(tx, TASK_ID, b))
    assert [entry.state for entry in entries(store)] == [LedgerState.RESERVED]


def test_one_batch_is_charged_once(store: Database) -> None:
    store.run_sync("charge", lambda tx: charge(tx, TASK_ID, units(0, 5), TENTH))
    with pytest.raises(Conflict):
        store.run_sync("charge", lambda tx: charge(tx, TASK_ID, units(0, 5), TENTH))


def test_costs_add_up_exactly(store: Database) -> None:
    costs = [
        TENTH,
        Charge("PureDpDiscreteLaplace", epsilon="0.2"),
        Charge("TruncatedGeometric", epsilon="1/3", delta="1/1000000"),
        Charge("DiscreteGaussian", rho="1/7"),
        Charge("None"),
    ]
    for start, cost in enumerate(costs):
        store.run_sync(
            "charge", lambda tx, s=start, c=cost: charge(tx, TASK_ID, units(s, s + 1), c)
        )
    assert store.read_sync("spent", lambda tx: spent(tx, TASK_ID)) == Spent(
        5, Fraction(19, 30), Fraction(1, 10**6), Fraction(1, 7)
    )
    assert [entry.charge for entry in store.read_sync("list", list_ledger)] == costs


@pytest.mark.parametrize("text", ["", "-1/10", "1/0", "nan", "a tenth"])
@pytest.mark.parametrize("name", ["epsilon", "delta", "rho"])
def test_a_cost_that_is_not_an_exact_rational_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ParameterError, match=name):
        Charge("PureDpDiscreteLaplace", **{name: text})
