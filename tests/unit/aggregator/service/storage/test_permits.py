"""Permits in a store: given out, spent, replaced and ended."""

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError
from aggregator.protocol.permit_lists import Replacements, listed
from aggregator.protocol.permits import mark_of
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.operator import permits as operator
from aggregator.service.storage.operator.permits import (
    Added,
    add_permits,
    count_permits,
    end_permits,
    replace_permits,
)
from aggregator.service.storage.reports.permits import Presented, spend
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import TaskRecord, end_task, put_task
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.permitted import DOMAIN, OTHER_ID, PERMITS, SECRETS, permitted
from tests.support.store import STORE_KEY, VERIFY_KEY, make_store, store_url

OTHER = OTHER_ID.value
FIRST = 21
W = range(FIRST, FIRST + 3)
OLD, NEW = SECRETS[0], b"new secret of 16"

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    made = opened(tmp_path)
    yield made
    made.close()


def opened(folder: Path, moments: Counter[str] | None = None) -> Database:
    def note(_name: str, moment: str) -> None:
        assert moments is not None
        moments[moment] += 1

    made = make_store(folder, on_transaction=None if moments is None else note)
    for task in (permitted(task_id=OTHER_ID), permitted(THIRD)):
        record = TaskRecord(task.task_id.value, "helper", task_to_toml(task), VERIFY_KEY)
        made.run_sync("put", lambda tx, record=record: put_task(tx, record))
    return made


THIRD = dataclasses.replace(OTHER_ID, value=bytes(range(128, 160)))


def report_ids(window: int, secrets: Sequence[bytes] = SECRETS) -> list[bytes]:
    return [PERMITS.report_id(PERMITS.opening(each, window)) for each in secrets]


def entries(window: int, secrets: Sequence[bytes] = SECRETS) -> list[bytes]:
    return [PERMITS.entry(each) for each in report_ids(window, secrets)]


def give(store: Database, windows: Sequence[int] = W, secrets: Sequence[bytes] = SECRETS) -> Added:
    return add_permits(store, listed(DOMAIN, {w: entries(w, secrets) for w in windows}))


def presented(window: int, ids: Sequence[bytes], task_id: bytes = OTHER) -> Presented:
    arrivals = [(each, b"bucket") for each in ids]
    marks = [mark_of(task_id, each) for each in ids]
    return Presented(arrivals, marks, lambda _: window, (), {})


def use(store: Database, window: int, ids: Sequence[bytes], task_id: bytes = OTHER) -> list[str]:
    """Spend permits for reports of a window; return what is said of each."""
    (errors,) = store.run_sync(
        "spend", lambda tx: spend(tx, PERMITS, [presented(window, ids, task_id)])
    )
    return ["" if error is None else error.draft_name for error in errors]


def rows(store: Database) -> tuple[int, int]:
    """Return how many rows there are of permits given and spent."""

    def count(tx: Transaction) -> tuple[int, int]:
        of = [select(func.count()).select_from(t) for t in (tables.permits, tables.spent_permits)]
        given, spent = (int(tx.connection.execute(each).scalar_one()) for each in of)
        return given, spent

    return store.read_sync("rows", count)


def test_adding_a_list_again_changes_nothing(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "ROWS_PER_STEP", 4)
    assert give(store) == Added(30, 0)
    assert give(store) == Added(0, 0)
    assert give(store, [*W, FIRST + 3]) == Added(10, 0)
    found = store.read_sync("count", lambda tx: count_permits(tx, DOMAIN))
    assert [(each.window, each.given, each.spent) for each in found] == [
        (window, 10, 0) for window in range(FIRST, FIRST + 4)
    ]
    assert len({each.digest for each in found}) == 4


@pytest.mark.parametrize("since", [0, FIRST + 1, FIRST + 3, 2**63 - 1, 10**19 - 1])
def test_windows_before_the_first_asked_for_are_not_counted(store: Database, since: int) -> None:
    give(store)
    for window in W:
        assert use(store, window, report_ids(window)[:2]) == ["", ""]
    every = store.read_sync("count", lambda tx: count_permits(tx, DOMAIN))
    assert [each.spent for each in every] == [2, 2, 2]
    found = store.read_sync("count", lambda tx: count_permits(tx, DOMAIN, since))
    assert found == [each for each in every if each.window >= since]


def test_two_stores_with_one_list_have_one_digest_in_whichever_order_it_came(
    tmp_path: Path,
) -> None:
    digests = []
    for number, order in enumerate(([SECRETS], [SECRETS[6:], SECRETS[:6]], [SECRETS[:9]])):
        (tmp_path / str(number)).mkdir()
        store = opened(tmp_path / str(number))
        for some in order:
            give(store, [FIRST], some)
        (found,) = store.read_sync("count", lambda tx: count_permits(tx, DOMAIN))
        digests.append(found.digest)
        store.close()
    assert digests[0] == digests[1] != digests[2]


def test_a_list_of_no_task_here_is_refused(store: Database) -> None:
    with pytest.raises(ParameterError, match="no task here has their domain"):
        add_permits(store, listed(bytes(32), {0: [bytes(16)]}))


def test_an_entry_is_of_one_window(store: Database) -> None:
    give(store)
    (entry,) = entries(FIRST, SECRETS[:1])
    with pytest.raises(Conflict, match="an entry of window 22 is in another window here already"):
        add_permits(store, listed(DOMAIN, {22: [entry]}))
    with pytest.raises(Conflict, match="an entry of window 22 is in another window here already"):
        replace_permits(store, Replacements(DOMAIN, {22: [(bytes(16), entry)]}))
    assert rows(store) == (30, 0)


def test_each_refusal_has_its_reason_and_spends_nothing(store: Database) -> None:
    give(store)
    ids = report_ids(FIRST)
    unknown = bytes(16)
    assert use(store, FIRST, [ids[0], unknown, ids[0]]) == ["", "permit_unknown", "report_replayed"]
    assert use(store, FIRST + 1, ids[:2]) == ["permit_of_another_window"] * 2
    assert use(store, FIRST, ids[:2], THIRD.value) == ["permit_spent", ""]
    assert use(store, FIRST, ids[:2]) == ["report_replayed", "permit_spent"]
    assert rows(store) == (30, 2)


def test_tasks_of_one_transaction_share_what_is_spent(store: Database) -> None:
    give(store)
    ids = report_ids(FIRST)
    both = [presented(FIRST, ids[:4]), presented(FIRST, ids[2:6], THIRD.value)]
    first, second = store.run_sync("spend", lambda tx: spend(tx, PERMITS, both))
    assert first == [None] * 4
    assert second == [ReportError.PERMIT_SPENT] * 2 + [None] * 2


ORDERS = list(permutations(("old", "new", "replace")))


@pytest.mark.parametrize("leader", ORDERS, ids=" ".join)
@pytest.mark.parametrize("helper", ORDERS, ids=" ".join)
def test_of_a_replaced_permit_and_the_new_one_at_most_one_counts(
    two_stores: list[Database], leader: tuple[str, ...], helper: tuple[str, ...]
) -> None:
    """In each order of uses and of the replacement, at each party; what both took counts."""
    pair = Replacements(DOMAIN, {FIRST: [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]})
    took = []
    for store, order in zip(two_stores, (leader, helper), strict=True):
        give(store, [FIRST])
        counted = set()
        for event in order:
            if event == "replace":
                replace_permits(store, pair)
                replace_permits(store, pair)  # again changes nothing
                give(store, [FIRST])  # nor does the first list, added once more
            else:
                ids = report_ids(FIRST, [OLD if event == "old" else NEW])
                counted |= {event} if use(store, FIRST, ids) == [""] else set()
        is_old_first = order.index("old") < order.index("replace")
        is_new_in_time = order.index("replace") < order.index("new")
        assert counted == ({"old"} if is_old_first else {"new"} if is_new_in_time else set())
        took.append(counted)
        # Nobody else's changes.
        assert use(store, FIRST, report_ids(FIRST, SECRETS[1:])) == [""] * 9
    assert len(took[0] & took[1]) <= 1


@pytest.fixture
def two_stores(tmp_path: Path) -> Iterator[list[Database]]:
    made = []
    for name in ("leader", "helper"):
        (tmp_path / name).mkdir()
        made.append(opened(tmp_path / name))
    yield made
    for each in made:
        each.close()


def test_a_replaced_permit_is_unknown_and_the_new_one_counts(store: Database) -> None:
    give(store)
    pairs = [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]
    done = replace_permits(store, Replacements(DOMAIN, {FIRST: pairs}))
    assert done.windows == {FIRST: pairs}
    assert use(store, FIRST, report_ids(FIRST, [OLD, NEW])) == ["permit_unknown", ""]
    # A second replacement of what was spent meanwhile is not made.
    again = Replacements(DOMAIN, {FIRST: [(*entries(FIRST, [NEW]), *entries(FIRST, [b"3" * 16]))]})
    assert replace_permits(store, again).windows == {}
    assert use(store, FIRST, report_ids(FIRST, [b"3" * 16])) == ["permit_unknown"]


def test_of_a_link_that_is_replaced_twice_at_most_one_counts_in_every_order(
    store: Database,
) -> None:
    """Nor if the first replacement is forgotten, or came when the link had been used."""
    every, counts = ("0", "1", "2", "0→1", "0,1→2"), Counter[int]()
    orders = [*permutations(every), *permutations(each for each in every if each != "0→1")]
    for number, order in enumerate(orders):
        links = [number.to_bytes(15, "big") + bytes([each]) for each in range(3)]
        first, second, third = entries(FIRST, links)
        replacing = {"0→1": [(first, second)], "0,1→2": sorted([(first, third), (second, third)])}
        give(store, [FIRST], links[:1])
        counted = 0
        for event in order:
            if event in replacing:
                replace_permits(store, Replacements(DOMAIN, {FIRST: replacing[event]}))
            else:
                counted += use(store, FIRST, report_ids(FIRST, [links[int(event)]])) == [""]
        counts[counted] += 1
    assert {*counts} == {0, 1}


def test_a_replacement_that_comes_before_its_list_holds_all_the_same(store: Database) -> None:
    pairs = [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]
    replace_permits(store, Replacements(DOMAIN, {FIRST: pairs}))
    give(store)
    assert use(store, FIRST, report_ids(FIRST, [OLD, NEW])) == ["permit_unknown", ""]


def test_windows_that_are_ended_are_refused_and_deleted(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "ROWS_PER_STEP", 4)
    give(store)
    replace_permits(
        store,
        Replacements(DOMAIN, {w: [(*entries(w, [OLD]), *entries(w, [NEW]))] for w in W}),
    )
    for window in W:
        assert use(store, window, report_ids(window, SECRETS[1:])) == [""] * 9
    assert rows(store) == (33, 27)
    assert end_permits(store, DOMAIN, FIRST + 2) == 2 * (11 + 9)
    assert rows(store) == (11, 9)
    assert use(store, FIRST, report_ids(FIRST)) == ["permit_of_another_window"] * 10
    # Nothing brings such a window back.
    assert end_permits(store, DOMAIN, FIRST) == 0
    assert give(store) == Added(0, 20)
    pairs = {FIRST: [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]}
    assert replace_permits(store, Replacements(DOMAIN, pairs)).windows == {}
    assert use(store, FIRST, report_ids(FIRST, [OLD, NEW])) == ["permit_of_another_window"] * 2
    assert use(store, FIRST + 2, report_ids(FIRST + 2, [NEW])) == [""]


class Killed(BaseException):
    """The command's process ended here."""


@pytest.mark.parametrize("moment", ["before commit", "committed"])
@pytest.mark.parametrize("place", range(10))
def test_a_command_that_dies_is_repeated_and_leaves_what_it_would_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, moment: str
) -> None:
    """It dies at each of its transactions in turn, before and after the commit."""
    monkeypatch.setattr(operator, "ROWS_PER_STEP", 8)
    store = opened(tmp_path)
    seen = 0

    def die(name: str, at: str) -> None:
        nonlocal seen
        if name.rsplit(maxsplit=1)[-1] == "permits" and at == moment:
            seen += 1
            if seen == place + 1:
                raise Killed

    mortal = Database.open(store_url(tmp_path), Crypter([STORE_KEY]), None, die)

    def work(database: Database) -> None:
        give(database, W[:2])
        pairs = [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]
        replace_permits(database, Replacements(DOMAIN, {FIRST: pairs}))
        end_permits(database, DOMAIN, FIRST + 1)

    with contextlib.suppress(Killed):
        work(mortal)
    assert seen == place + 1
    work(store)
    assert rows(store) == (10, 0)
    assert use(store, FIRST, report_ids(FIRST, [OLD, NEW])) == ["permit_of_another_window"] * 2
    assert use(store, FIRST + 1, report_ids(FIRST + 1)) == [""] * 10
    for each in (store, mortal):
        each.close()


def test_with_its_last_task_a_domain_is_forgotten_for_ever(store: Database) -> None:
    give(store)
    use(store, FIRST, report_ids(FIRST))
    for task_id, left in ((OTHER, (30, 10)), (THIRD.value, (0, 0))):
        store.run_sync("end", lambda tx, task_id=task_id: end_task(tx, task_id))
        forget(store, task_id)
        assert rows(store) == left
    with pytest.raises(ParameterError, match="no task here has their domain"):
        give(store)
    again = permitted()
    record = TaskRecord(bytes([9]) * 32, "helper", task_to_toml(again), VERIFY_KEY)
    with pytest.raises(Conflict, match="which permits were spent: make a task with another domain"):
        store.run_sync("put", lambda tx: put_task(tx, record))


def race(stores: Sequence[Database], tasks: Sequence[bytes], ids: list[bytes], window: int) -> int:
    """Present the same permits to two tasks in crossed order, in as many transactions at once."""
    start = threading.Barrier(len(stores))

    def run(number: int) -> int:
        def work(tx: Transaction) -> int:
            half = len(ids) // 2
            parts = [ids[:half], ids[half:]]
            if number % 2:
                parts.reverse()
            given = [presented(window, p, t) for p, t in zip(parts, tasks, strict=True)]
            return sum(errors.count(None) for errors in spend(tx, PERMITS, given))

        start.wait(timeout=PATIENCE_SECONDS)
        return stores[number].run_sync("race", work)

    with ThreadPoolExecutor(len(stores)) as threads:
        return sum(threads.map(run, range(len(stores))))


@ON_POSTGRESQL
def test_transactions_with_two_tasks_of_a_domain_spend_each_permit_once_and_never_deadlock(
    tmp_path: Path,
) -> None:
    moments: Counter[str] = Counter()
    store = opened(tmp_path)
    stores = [opened(tmp_path, moments) for _ in range(3)]
    moments.clear()
    rounds = range(100, 140)
    give(store, rounds)
    for window in rounds:
        assert race(stores, (OTHER, THIRD.value), report_ids(window), window) == 10
    assert rows(store)[1] == 10 * len(rounds)
    assert moments["begin"] == len(stores) * len(rounds)  # none was run again
    for each in (store, *stores):
        each.close()


@ON_POSTGRESQL
@pytest.mark.parametrize("is_old_used", [True, False])
def test_nothing_is_spent_while_it_is_replaced(tmp_path: Path, *, is_old_used: bool) -> None:
    """A use that has found the old permit listed, and not yet committed, holds the replacement."""
    store, other = opened(tmp_path), opened(tmp_path)
    give(store, [FIRST])
    pairs = {FIRST: [(*entries(FIRST, [OLD]), *entries(FIRST, [NEW]))]}
    used = report_ids(FIRST, [OLD if is_old_used else SECRETS[1]])
    with ThreadPoolExecutor(1) as threads:

        def work(tx: Transaction) -> None:
            spend(tx, PERMITS, [presented(FIRST, used)])
            replacing.append(threads.submit(replace_permits, other, Replacements(DOMAIN, pairs)))
            is_waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            for _ in range(10_000):
                if tx.connection.exec_driver_sql(is_waiting).scalar():
                    return
            raise AssertionError("the replacement did not wait")

        replacing: list[Future[Replacements]] = []
        store.run_sync("spend", work)
        done = replacing[0].result(timeout=PATIENCE_SECONDS)
    assert done.windows == ({} if is_old_used else pairs)
    expected = "permit_unknown" if is_old_used else ""
    assert use(store, FIRST, report_ids(FIRST, [NEW])) == [expected]
    store.close()
    other.close()
