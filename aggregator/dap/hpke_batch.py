"""Opens and seals many HPKE messages at once, as `hpke` does one.

Source: RFC 9180, "Single-Shot APIs".
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag

from aggregator.dap.hmac_rows import hmac_rows
from aggregator.dap.hpke import (
    FIRST_BLOCK,
    NONCE_SIZE,
    HpkeCiphertext,
    HpkeConfig,
    HpkeKeypair,
    fixed_schedule,
    key_schedule,
    sealed_with,
    suite_of,
    unusable,
)
from aggregator.dap.hpke_suites import X25519, Suite
from aggregator.dap.messages.byte_rows import strings
from aggregator.dap.x25519 import BASE_POINT, LANES
from aggregator.dap.x25519_lanes import KEY_SIZE

_A_FEW = 4
"""Below this many messages, numpy calls take longer than they save."""


def dh_many(keypair: HpkeKeypair, encs: Sequence[bytes]) -> tuple[list[bytes | None], bool]:
    """Return the Diffie-Hellman secret with each encapsulated key, None for an invalid one.

    Returns also whether they come from lanes, which `open_many` does not trust blindly.
    """
    if suite_of(keypair.config).kem is X25519 and all(len(enc) == KEY_SIZE for enc in encs):
        found = LANES.exchange([keypair.private_key] * len(encs), encs)
        if found is not None:
            return found, True
    return [_by_library(keypair, enc) for enc in encs], False


def _by_library(keypair: HpkeKeypair, enc: bytes) -> bytes | None:
    try:
        return keypair.exchange(enc)
    except ValueError:  # it is no key of the suite's
        return None


def key_schedules(
    suite: Suite, secrets: Sequence[bytes], kem_contexts: Sequence[bytes], info: bytes
) -> list[tuple[bytes, bytes]]:
    """Return the key and the nonce of each message, as `hpke.key_schedule` does of one.

    Secrets are of one size, and so are contexts: the encapsulated and the recipient's public key.
    """
    if len(secrets) < _A_FEW:
        return [
            key_schedule(suite, secret, kem_context, info)
            for secret, kem_context in zip(secrets, kem_contexts, strict=True)
        ]
    fixed, rows = fixed_schedule(suite, info), len(secrets)
    nothing = np.empty((rows, 0), np.uint8)
    prk = _extracted(nothing, fixed.eae_prk, _rows(secrets))
    shared = _extracted(prk, fixed.shared_secret, _rows(kem_contexts), FIRST_BLOCK)
    prk = _extracted(shared, fixed.secret, nothing)
    keys = _extracted(prk, fixed.key, nothing)[:, : suite.aead.key_size]
    nonces = _extracted(prk, fixed.base_nonce, nothing)[:, :NONCE_SIZE]
    return [*zip(strings(keys), strings(nonces), strict=True)]


def open_many(
    keypairs: Mapping[int, HpkeKeypair],
    info: bytes,
    config_ids: Sequence[int],
    encs: Sequence[bytes],
    payloads: Sequence[bytes],
    aads: Sequence[bytes],
) -> list[bytes | None]:
    """Open ciphertexts of one purpose with our key pairs, by configuration id.

    Returns the plaintexts; None for what does not open, or was sealed to no key pair of ours.
    """
    opened: list[bytes | None] = [None] * len(encs)
    for config_id in {*config_ids} & keypairs.keys():
        keypair = keypairs[config_id]
        rows = [row for row, sealed_to in enumerate(config_ids) if sealed_to == config_id]
        secrets, by_lanes = dh_many(keypair, [encs[row] for row in rows])
        found = dict(zip(rows, secrets, strict=True))
        _open_rows(opened, keypair, info, found, encs, payloads, aads)
        if by_lanes:
            again = _wrongly_agreed(keypair, encs, {r: found[r] for r in rows if opened[r] is None})
            _open_rows(opened, keypair, info, again, encs, payloads, aads)
    return opened


def seal_many(
    config: HpkeConfig,
    info: bytes,
    private_keys: Sequence[bytes],
    aads: Sequence[bytes],
    plaintexts: Sequence[bytes],
) -> list[HpkeCiphertext]:
    """Seal messages of one purpose to one configuration, each with a fresh private key.

    Args:
        config: The recipient's.
        info: The messages' purpose.
        private_keys: Of `Kem.draw_bytes`; none is used twice.
        aads: What each message is bound to.
        plaintexts: The messages.

    Raises:
        ParameterError: The suite is not supported, or the public key leads to no secret.
    """
    encs, secrets = _encapsulated(config, private_keys)
    return [
        sealed_with(config, info, aad, plaintext, enc, secret)
        for aad, plaintext, enc, secret in zip(aads, plaintexts, encs, secrets, strict=True)
    ]


def _encapsulated(
    config: HpkeConfig, private_keys: Sequence[bytes]
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the public key of each private key, and the secret that it leads to."""
    kem = suite_of(config).kem
    if kem is X25519:
        many = len(private_keys)
        encs = LANES.exchange(private_keys, [BASE_POINT] * many)
        secrets = LANES.exchange(private_keys, [config.public_key] * many)
        if encs is not None and secrets is not None:
            agreed = [secret for secret in secrets if secret is not None]
            if len(agreed) < many:
                raise unusable(config)
            return [enc for enc in encs if enc is not None], agreed  # none of them is zero
    keys = [kem.key(each) for each in private_keys]
    try:
        return [key.public_key for key in keys], [key.exchange(config.public_key) for key in keys]
    except ValueError as error:
        raise unusable(config) from error


def _wrongly_agreed(
    keypair: HpkeKeypair, encs: Sequence[bytes], unopened: Mapping[int, bytes | None]
) -> dict[int, bytes | None]:
    """Return the library's secrets for rows that did not open, where lanes had another one.

    A lane that is wrong must not reject a report, so nothing is refused on the word of lanes alone.
    """
    right = {row: _by_library(keypair, encs[row]) for row in unopened}
    wrong = {row: secret for row, secret in right.items() if secret != unopened[row]}
    if wrong:
        LANES.doubt("a lane had a secret with which a message does not open")
    return wrong


def _open_rows(
    opened: list[bytes | None],
    keypair: HpkeKeypair,
    info: bytes,
    secrets: Mapping[int, bytes | None],
    encs: Sequence[bytes],
    payloads: Sequence[bytes],
    aads: Sequence[bytes],
) -> None:
    """Set the plaintexts of the rows that open with their secrets."""
    suite = suite_of(keypair.config)
    cipher = suite.aead.load()
    agreed = {row: secret for row, secret in secrets.items() if secret is not None}
    contexts = [encs[row] + keypair.config.public_key for row in agreed]
    keys = key_schedules(suite, [*agreed.values()], contexts, info)
    for row, (key, nonce) in zip(agreed, keys, strict=True):
        try:
            opened[row] = cipher(key).decrypt(nonce, payloads[row], aads[row])
        except (InvalidTag, ValueError):
            continue


def _rows(strings: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), -1)


def _extracted(
    keys: npt.NDArray[np.uint8], label: bytes, rows: npt.NDArray[np.uint8], end: bytes = b""
) -> npt.NDArray[np.uint8]:
    """Return the HMAC of each row, put between a label and an end that all rows share."""
    head, tail = (np.frombuffer(each, np.uint8) for each in (label, end))
    around = [np.broadcast_to(each, (len(rows), len(each))) for each in (head, tail)]
    return hmac_rows(keys, np.concatenate((around[0], rows, around[1]), axis=1))
