"""Sessions: a cookie that was begun with the service's token, and a value of its own in every form.

Nothing is stored: a session is signed with a key that is drawn when the service starts, so all
sessions end with the service. A session also ends when the token that began it is no longer
accepted, and when its browser logs out: a copied cookie is then worthless. Logging in changes the
cookie.

A cookie is sent over HTTPS only, and to this host only (`__Host-`), except on loopback, where there
is no TLS and nobody in between.
"""

import dataclasses
import hashlib
import hmac
from collections.abc import Iterable
from typing import Self

from fastapi import Request, Response

from aggregator.clock import Clock
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import Entropy

COOKIE = "prio_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""The cookie's name over HTTPS: a browser accepts it only there, and for this host only."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CSRF_FIELD = "csrf"
SESSION_SECONDS = 12 * 3600
_SIZE = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """One browser's visit, by a random name of 22 characters.

    `begun_with` stands for the token that began it, and is empty before the login. Times are in
    seconds since the epoch.
    """

    name: str
    begun_with: str
    ends_at: int

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.name}.{self.begun_with}.{self.ends_at}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the session of a text that was signed."""
        name, begun_with, ends_at = text.split(".")
        return cls(name, begun_with, int(ends_at))


class Sessions:
    """Begins sessions and recognizes them."""

    def __init__(self, entropy: Entropy, clock: Clock) -> None:
        self._entropy = entropy
        self._clock = clock
        self._key = entropy.bytes(32)
        self._left: dict[str, int] = {}  # names of sessions that were logged out, and when they end

    def begin(
        self, request: Request, response: Response, token_hash: bytes | None = None
    ) -> Session:
        """Begin a session in the browser that asked, in place of any it had, with a cookie.

        `token_hash` is the SHA-256 of the token that was shown; None before the login.
        """
        ends_at = int(self._clock.now()) + SESSION_SECONDS
        begun_with = "" if token_hash is None else self._mac("token", token_hash.hex())
        session = Session(encode_base64url(self._entropy.bytes(_SIZE)), begun_with, ends_at)
        name = _cookie_of(request)
        response.set_cookie(
            name,
            f"{session.text}.{self._mac('session', session.text)}",
            max_age=SESSION_SECONDS,
            secure=name == SECURE_COOKIE,
            httponly=True,
            samesite="strict",
        )
        return session

    def of(self, request: Request) -> Session | None:
        """Return the session that a request belongs to; None without one, or after its end."""
        text, _, mac = request.cookies.get(_cookie_of(request), "").rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac("session", text).encode()):
            return None
        session = Session.parse(text)
        is_over = self._clock.now() >= session.ends_at or session.name in self._left
        return None if is_over else session

    def end(self, session: Session) -> None:
        """End a session for everybody who has its cookie."""
        now = self._clock.now()
        self._left = {name: ends_at for name, ends_at in self._left.items() if now < ends_at}
        self._left[session.name] = session.ends_at

    def is_known(self, session: Session, token_hashes: Iterable[bytes]) -> bool:
        """Return whether a session was begun with one of the accepted tokens."""
        shown = session.begun_with.encode()
        taken = (self._mac("token", each.hex()).encode() for each in token_hashes)
        return any([hmac.compare_digest(shown, each) for each in taken])  # noqa: C419  all of them

    def csrf(self, session: Session) -> str:
        """Return the value that this session's forms carry."""
        return self._mac("form", session.name)

    def is_own_form(self, session: Session, shown: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(shown.encode(), self.csrf(session).encode())

    def _mac(self, purpose: str, text: str) -> str:
        made = hmac.digest(self._key, f"{purpose}.{text}".encode(), hashlib.sha256)
        return encode_base64url(made)


def _cookie_of(request: Request) -> str:
    """Return the name of the cookie that a request carries."""
    is_here = request.url.hostname in LOOPBACK and request.url.scheme == "http"
    return COOKIE if is_here else SECURE_COOKIE
