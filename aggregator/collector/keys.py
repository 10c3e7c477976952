"""The collector's HPKE key pair."""

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeKeypair, generate_keypair
from aggregator.entropy import SystemEntropy
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.tasks.hpke_keys import HpkeKey, find_advertised_key, put_hpke_key


def keypair_of(database: Database) -> HpkeKeypair:
    """Return the key pair that results are sealed to; make it on first use."""
    found = database.read_sync("find hpke key", _find)
    return found or database.run_sync("ensure hpke key", _ensure)


def _find(tx: Transaction) -> HpkeKeypair | None:
    key = find_advertised_key(tx)
    return None if key is None else HpkeKeypair(decode(HpkeConfig, key.config), key.private_key)


def _ensure(tx: Transaction) -> HpkeKeypair:
    found = _find(tx)  # another process may have made it since we looked
    if found is not None:
        return found
    made = generate_keypair(0, SystemEntropy())
    put_hpke_key(tx, HpkeKey(0, encode(made.config), made.private_key))
    return made
