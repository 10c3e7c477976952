"""HPKE of many messages at once: what `hpke.open_` does with each, without an object for each.

Source:
    RFC 9180, "Single-Shot APIs".
"""

from collections.abc import Mapping, Sequence

from cryptography.exceptions import InvalidTag

from aggregator.dap.hpke import SUITES, HpkeKeypair, key_schedule


def dh_many(keypair: HpkeKeypair, encs: Sequence[bytes]) -> list[bytes | None]:
    """Return the Diffie-Hellman secret with each encapsulated key; None for one that has none.

    Two exchanges a report are what a report costs at least, so this is where another implementation
    of them would stand.
    """
    secrets: list[bytes | None] = []
    for enc in encs:
        try:
            secrets.append(keypair.exchange(enc))
        except ValueError:  # of another size, or a point of small order
            secrets.append(None)
    return secrets


def open_many(
    keypairs: Mapping[int, HpkeKeypair],
    info: bytes,
    config_ids: Sequence[int],
    encs: Sequence[bytes],
    payloads: Sequence[bytes],
    aads: Sequence[bytes],
) -> list[bytes | None]:
    """Open ciphertexts of one purpose.

    Args:
        keypairs: Ours, by configuration id.
        info: The messages' purpose.
        config_ids: Which configuration each was sealed to.
        encs: The encapsulated keys.
        payloads: The ciphertexts with their tags.
        aads: What each is bound to.

    Returns:
        The plaintexts; None for what does not open, or was sealed to no key pair of ours.
    """
    opened: list[bytes | None] = [None] * len(encs)
    for config_id in {*config_ids} & keypairs.keys():
        keypair = keypairs[config_id]
        config = keypair.config
        suite = SUITES[config.kem_id, config.kdf_id, config.aead_id]
        rows = [row for row, sealed_to in enumerate(config_ids) if sealed_to == config_id]
        secrets = dh_many(keypair, [encs[row] for row in rows])
        for row, secret in zip(rows, secrets, strict=True):
            if secret is None:
                continue
            key, nonce = key_schedule(suite, secret, encs[row] + config.public_key, info)
            try:
                opened[row] = suite.aead(key).decrypt(nonce, payloads[row], aads[row])
            except (InvalidTag, ValueError):
                continue
    return opened
