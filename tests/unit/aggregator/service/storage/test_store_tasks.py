import dataclasses
from collections import Counter

import pytest
from typing_extensions import override

from aggregator.entropy import Entropy
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import metadata
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask
from aggregator.service.storage.tasks.hpke_keys import (
    HpkeKey,
    StoredConfig,
    destroy_hpke_key,
    find_advertised_key,
    list_hpke_configs,
    list_hpke_keys,
    next_config_id,
    put_hpke_key,
    retire_hpke_key,
)
from aggregator.service.storage.tasks.tasks import (
    PublicTask,
    StoredTask,
    end_task,
    get_task,
    list_tasks,
    put_task,
)
from tests.support.clock import ManualClock
from tests.support.store import TASK_ID, TOKEN, VERIFY_KEY, leader_task

OTHER_ID = b"\xee" * 32
OTHER = dataclasses.replace(leader_task(), task_id=OTHER_ID, role="helper", peer_token=None)


def key(config_id: int) -> HpkeKey:
    return HpkeKey(config_id, b"config", b"the private key of an aggregator")


def test_a_task_comes_back_as_it_was_stored(store: Database, clock: ManualClock) -> None:
    store.run_sync("put", lambda tx: put_task(tx, OTHER))
    stored = store.read_sync("get", lambda tx: get_task(tx, OTHER_ID))
    assert stored == StoredTask(OTHER, clock.now(), None)
    assert store.read_sync("list", list_tasks) == [
        PublicTask(task.task_id, task.role, task.definition, clock.now(), None, None)
        for task in (leader_task(), OTHER)
    ]
    assert store.read_sync("get", lambda tx: get_task(tx, b"?" * 32)) is None


def test_storing_the_same_task_again_changes_nothing(store: Database, clock: ManualClock) -> None:
    before = store.read_sync("get", lambda tx: get_task(tx, TASK_ID))
    clock.advance(10)
    store.run_sync("put", lambda tx: put_task(tx, leader_task()))
    assert store.read_sync("get", lambda tx: get_task(tx, TASK_ID)) == before


@pytest.mark.parametrize(
    "change", [{"verify_key": b"2" * 32}, {"verify_key_id": 1}, {"definition": "version = 2"}]
)
def test_a_task_never_gets_a_second_verification_key_or_definition(
    store: Database, change: dict[str, bytes]
) -> None:
    changed = dataclasses.replace(leader_task(), **change)
    with pytest.raises(Conflict, match="other contents"):
        store.run_sync("put", lambda tx: put_task(tx, changed))


def test_a_task_ends_once(store: Database, clock: ManualClock) -> None:
    store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    ended = clock.now()
    clock.advance(5)
    store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    task = store.read_sync("get", lambda tx: get_task(tx, TASK_ID))
    assert task is not None
    assert task.ended_at == ended
    with pytest.raises(UnknownTask):
        store.run_sync("end", lambda tx: end_task(tx, OTHER_ID))


def test_hpke_keys_are_listed_newest_first_and_their_private_keys_apart(
    store: Database, clock: ManualClock
) -> None:
    for config_id in (3, 200):
        store.run_sync("put", lambda tx, i=config_id: put_hpke_key(tx, key(i)))
        clock.advance(1)
    store.run_sync("retire", lambda tx: retire_hpke_key(tx, 200))
    made = clock.now() - 2
    assert store.read_sync("list", list_hpke_configs) == [
        StoredConfig(3, b"config", made, None),
        StoredConfig(200, b"config", made + 1, clock.now()),
    ]
    assert {each.config_id: each for each in store.read_sync("list", list_hpke_keys)} == {
        3: key(3),
        200: key(200),
    }
    assert store.read_sync("find", find_advertised_key) == key(3)


@pytest.mark.slow
def test_a_config_id_is_not_used_twice_at_a_time(store: Database) -> None:
    store.run_sync("put", lambda tx: put_hpke_key(tx, key(255)))
    with pytest.raises(Conflict, match="id 255 is taken"):
        store.run_sync("put", lambda tx: put_hpke_key(tx, key(255)))
    for config_id in range(255):
        assert store.read_sync("next", next_config_id) in range(config_id, 255)
        store.run_sync("put", lambda tx, i=config_id: put_hpke_key(tx, key(i)))
    with pytest.raises(Conflict, match="all 256"):
        store.run_sync("next", next_config_id)


def drawn(store: Database, most: int) -> Counter[int]:
    """Return the ids that the next key gets for the first `most` numbers that may be drawn."""

    def draw(tx: Transaction) -> Counter[int]:
        return Counter(
            next_config_id(dataclasses.replace(tx, entropy=Draw(number))) for number in range(most)
        )

    return store.read_sync("draw", draw)


@dataclasses.dataclass
class Draw(Entropy):
    """Entropy that happens to be one number."""

    number: int

    @override
    def bytes(self, size: int) -> bytes:
        return self.number.to_bytes(size, "big")


def test_a_config_id_is_drawn_so_that_one_that_a_restored_store_forgot_is_seldom_given_again(
    store: Database, clock: ManualClock
) -> None:
    """Each of half the free ids is as probable; the other half has the ids used lately."""
    assert drawn(store, 256) == Counter(range(256))
    for config_id in (40, 100):
        store.run_sync("put", lambda tx, i=config_id: put_hpke_key(tx, key(i)))
        clock.advance(1)
    assert drawn(store, 2 * 127) == dict.fromkeys(range(101, 101 + 127), 2)
    store.run_sync("retire", lambda tx: retire_hpke_key(tx, 40))
    store.run_sync("destroy", lambda tx: destroy_hpke_key(tx, 40))
    assert 40 not in drawn(store, 127)


def test_the_id_of_a_destroyed_key_comes_back_to_neither_of_the_next_two(
    store: Database, clock: ManualClock
) -> None:
    used = [200]
    store.run_sync("put", lambda tx: put_hpke_key(tx, key(200)))
    for number in (0, 126, 126, 126, 5, 121, 63, 126, 1, 126):  # of 127
        clock.advance(1)

        def replace(tx: Transaction, number: int = number) -> int:
            made = next_config_id(dataclasses.replace(tx, entropy=Draw(number)))
            put_hpke_key(tx, key(made))
            retire_hpke_key(tx, used[-1])
            destroy_hpke_key(tx, used[-1])
            return made

        used.append(store.run_sync("replace", replace))
        assert len({*used[-3:]}) == len(used[-3:])


def test_secrets_are_neither_shown_nor_stored_in_the_clear(store: Database) -> None:
    store.run_sync("put", lambda tx: put_hpke_key(tx, key(3)))
    shown = repr(store.read_sync("get", lambda tx: get_task(tx, TASK_ID))) + repr(key(3))
    stored = store.read_sync("read everything", everything)
    assert b"version = 1" in stored
    for secret in (VERIFY_KEY, TOKEN.encode(), key(3).private_key):
        assert secret.decode() not in shown
        assert secret not in stored


def everything(tx: Transaction) -> bytes:
    """Return the contents of all tables, one value after the other."""
    return b"\n".join(
        value if isinstance(value, bytes) else str(value).encode()
        for table in metadata.sorted_tables
        for row in tx.connection.execute(table.select())
        for value in row
    )
