from fractions import Fraction

import pytest

from aggregator.dp.filters import Cost, cost_of_dp, cost_of_zcdp, rho_of_pure, total
from aggregator.protocol.groups import cost_of_a_person
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.ledger.charges import (
    Charge,
    LedgerEntry,
    cancel,
    charge,
    cost_of,
    costs_in,
    list_ledger,
    releases_made,
    reserve,
    settle,
)
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, TENTH, units

DELTA = Fraction(1, 10**6)


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


def test_costs_of_a_population_add_up_exactly(store: Database) -> None:
    charges = [
        TENTH,
        Charge("PureDpDiscreteLaplace", cost_of_dp(Fraction("0.2")), "patients"),
        Charge("TruncatedGeometric", Cost(Fraction(1, 3), Fraction(1, 7), DELTA), "patients"),
        Charge("None", None, "patients"),
        Charge("TruncatedGeometric", Cost(Fraction(1, 3), Fraction(1, 7), DELTA), "staff"),
    ]
    for start, each in enumerate(charges):
        store.run_sync(
            "charge", lambda tx, s=start, c=each: charge(tx, TASK_ID, units(s, s + 1), c)
        )
    rho = rho_of_pure(Fraction(1, 10)) + rho_of_pure(Fraction(1, 5)) + Fraction(1, 7)
    together = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, "patients")))
    assert together == Cost(Fraction(19, 30), rho, DELTA)
    assert [entry.charge for entry in store.read_sync("list", list_ledger)] == charges
    assert store.read_sync("count", lambda tx: releases_made(tx, TASK_ID)) == 5


def test_equal_costs_of_many_releases_are_added_up_at_once(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def charge_all(tx: Transaction) -> None:
        for number in range(300):
            charge(tx, TASK_ID, units(number, number + 1), costs[number % 2])

    costs = [TENTH, Charge("Gaussian", cost_of_zcdp(Fraction(1, 7)), TENTH.population)]
    store.run_sync("charge", charge_all)
    read: list[str | None] = []

    def noted(epsilon: str | None, delta: str | None, rho: str | None) -> Cost | None:
        read.append(epsilon)
        return cost_of(epsilon, delta, rho)

    monkeypatch.setattr(ledger, "cost_of", noted)
    spent = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, TENTH.population)))
    assert spent == total(each.cost for each in costs * 150 if each.cost is not None)
    assert len(read) == 2


def test_one_release_without_an_epsilon_leaves_a_population_without_one(store: Database) -> None:
    for start, cost in enumerate([cost_of_dp(Fraction(1)), cost_of_zcdp(Fraction(1, 7))]):
        each = Charge("whatever", cost, "patients")
        store.run_sync(
            "charge", lambda tx, s=start, c=each: charge(tx, TASK_ID, units(s, s + 1), c)
        )
    together = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, "patients")))
    assert together == Cost(None, rho_of_pure(Fraction(1)) + Fraction(1, 7))


def test_releases_are_used_up_once_all_are_made_and_not_while_one_is_under_way(
    store: Database,
) -> None:
    def is_used_up(most: int) -> bool:
        return store.run_sync("look", lambda tx: ledger.is_used_up(tx, TASK_ID, most))

    assert is_used_up(0)
    assert not is_used_up(1)
    for start in range(2):
        store.run_sync("reserve", lambda tx, s=start: reserve(tx, TASK_ID, units(s, s + 1), TENTH))
    assert not is_used_up(1)
    store.run_sync("settle", lambda tx: settle(tx, TASK_ID, units(0, 1)))
    assert (is_used_up(1), is_used_up(2)) == (True, False)
