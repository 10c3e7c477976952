"""An oblivious gateway and its client; what they need of HPKE is here, and none of it is ours.

Source: RFC 9458, "Encapsulation of Requests" and "Encapsulation of Responses"; RFC 9292, "Known-
Length Messages"; RFC 9180, "The Secret Export Interface".
"""

import dataclasses
import hashlib
import hmac
import os
import struct
from collections.abc import Awaitable, Callable, Collection

import httpx
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from typing_extensions import override

KEM, KDF, AEAD = 0x0020, 0x0001, 0x0001
KEY_SIZE, NONCE_SIZE, ENC_SIZE = 16, 12, 32
_HEADER = struct.Struct(">BHHH")
_OF_KEM = b"KEM" + KEM.to_bytes(2, "big")
_OF_HPKE = b"HPKE" + struct.pack(">HHH", KEM, KDF, AEAD)


def extract(salt: bytes, keying: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), keying, hashlib.sha256)


def expand(key: bytes, info: bytes, size: int) -> bytes:
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:size]


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, keying: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite + label + keying)


def _labeled_expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return expand(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, size)


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What both ends share: a cipher for the request, a secret for the answer."""

    cipher: AESGCM
    nonce: bytes
    exported: bytes

    @classmethod
    def of(cls, diffie_hellman: bytes, enc: bytes, public_key: bytes, header: bytes) -> "Context":
        """Return the context of HPKE's base mode, with the secret exported for the answer."""
        shared = _labeled_expand(
            _OF_KEM,
            _labeled_extract(_OF_KEM, b"", b"eae_prk", diffie_hellman),
            b"shared_secret",
            enc + public_key,
            32,
        )
        info = b"message/bhttp request\x00" + header
        schedule = b"\x00" + b"".join(
            _labeled_extract(_OF_HPKE, b"", label, data)
            for label, data in ((b"psk_id_hash", b""), (b"info_hash", info))
        )
        secret = _labeled_extract(_OF_HPKE, shared, b"secret", b"")
        key, nonce, exporter = (
            _labeled_expand(_OF_HPKE, secret, label, schedule, size)
            for label, size in ((b"key", KEY_SIZE), (b"base_nonce", NONCE_SIZE), (b"exp", 32))
        )
        exported = _labeled_expand(_OF_HPKE, exporter, b"sec", b"message/bhttp response", KEY_SIZE)
        return cls(AESGCM(key), nonce, exported)

    def of_answer(self, enc: bytes, drawn: bytes) -> tuple[AESGCM, bytes]:
        """Return the cipher and the nonce of the answer with these random bytes."""
        key = extract(enc + drawn, self.exported)
        return AESGCM(expand(key, b"key", KEY_SIZE)), expand(key, b"nonce", NONCE_SIZE)


def number(value: int) -> bytes:
    """Return a QUIC variable-length integer."""
    for size, mark in ((1, 0), (2, 1), (4, 2), (8, 3)):
        if value < 1 << (8 * size - 2):
            return (value | mark << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(value)


def _with_size(data: bytes) -> bytes:
    return number(len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        size = 1 << (self.data[self.at] >> 6)
        value = int.from_bytes(self.take(size), "big")
        return value & (1 << (8 * size - 2)) - 1

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        assert len(found) == size
        self.at += size
        return found

    def sized(self) -> bytes:
        return self.take(self.number())

    def fields(self) -> list[tuple[bytes, bytes]]:
        inner = _Reader(self.sized())
        found = []
        while inner.at < len(inner.data):
            found.append((inner.sized(), inner.sized()))
        return found


def _fields(headers: httpx.Headers) -> bytes:
    """Return headers but those of the connection, which are the gateway's own."""
    kept = [
        (name.lower(), value)
        for name, value in headers.raw
        if name.lower() not in (b"host", b"connection", b"content-length", b"transfer-encoding")
    ]
    return _with_size(b"".join(_with_size(name) + _with_size(value) for name, value in kept))


class Gateway:
    """Opens requests, sends them to the targets that it serves, and seals their answers."""

    def __init__(self, http: httpx.AsyncClient, targets: Collection[str]) -> None:
        self.http, self.targets = http, targets
        self._key = X25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw()

    async def answer(self, sealed: bytes) -> bytes:
        """Return the sealed answer to a sealed request."""
        header, enc = sealed[: _HEADER.size], sealed[_HEADER.size : _HEADER.size + ENC_SIZE]
        assert _HEADER.unpack(header)[1:] == (KEM, KDF, AEAD)
        secret = self._key.exchange(X25519PublicKey.from_public_bytes(enc))
        context = Context.of(secret, enc, self.public_key, header)
        plain = context.cipher.decrypt(context.nonce, sealed[_HEADER.size + ENC_SIZE :], b"")
        reader = _Reader(plain)
        assert reader.number() == 0
        method, scheme, authority, path = (reader.sized().decode() for _ in range(4))
        url = f"{scheme}://{authority}{path}"
        headers, content = reader.fields(), reader.sized()
        if f"{method} {url}" in self.targets:
            done = await self.http.request(method, url, headers=headers, content=content)
        else:
            done = httpx.Response(403)
        drawn = os.urandom(max(KEY_SIZE, NONCE_SIZE))
        cipher, nonce = context.of_answer(enc, drawn)
        said = number(1) + number(done.status_code) + _fields(done.headers)
        return drawn + cipher.encrypt(nonce, said + _with_size(done.content) + number(0), b"")


class ObliviousTransport(httpx.AsyncBaseTransport):
    """Sends what a client asks for through a relay, which sees sealed bytes alone."""

    def __init__(self, public_key: bytes, relay: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._public_key, self._relay = public_key, relay

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Encapsulate one request."""
        header, own = _HEADER.pack(1, KEM, KDF, AEAD), X25519PrivateKey.generate()
        enc = own.public_key().public_bytes_raw()
        secret = own.exchange(X25519PublicKey.from_public_bytes(self._public_key))
        context = Context.of(secret, enc, self._public_key, header)
        url = request.url
        control = (request.method.encode(), url.scheme.encode(), url.netloc, url.raw_path)
        plain = number(0) + b"".join(_with_size(each) for each in control)
        plain += _fields(request.headers) + _with_size(await request.aread()) + number(0)
        answer = await self._relay(header + enc + context.cipher.encrypt(context.nonce, plain, b""))
        drawn, sealed = answer[:KEY_SIZE], answer[KEY_SIZE:]
        cipher, nonce = context.of_answer(enc, drawn)
        reader = _Reader(cipher.decrypt(nonce, sealed, b""))
        assert reader.number() == 1
        return httpx.Response(reader.number(), headers=reader.fields(), content=reader.sized())
