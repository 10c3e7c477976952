"""Connections whose cost is bounded, however many and however slow they are.

This is uvicorn's protocol with bounds on everything around a body: the bytes and the number of
headers, the time for headers, for the unread rest of a body and for an unread answer, and the
number of connections. `web.body_budget` bounds the bodies. Nobody keeps a slot that others want:
`_displace` says who gives way to a newcomer.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.service.telemetry.lines import log
from aggregator.service.web.addresses import forwarded_for, is_trusted_proxy, sharing
from aggregator.service.web.body_budget import IS_WHOLE
from aggregator.service.web.cross_origin import ANY_ORIGIN, EXPOSED
from aggregator.service.web.descriptors import SHORTAGE, is_high
from aggregator.service.web.prompt_connection import PromptConnection

MAX_HEADER_BYTES = 16 * 2**10
"""The most bytes of a request line with headers, and of a body's framing beyond the body itself."""

MAX_HEADERS = 64

HEADER_SECONDS = 10.0
"""The time for a request line with headers, counted from the connection or the first byte."""

LINGER_SECONDS = 5.0
"""How long we wait for, and drop, the rest of a body that was already answered."""

UNREAD_SECONDS = 30.0
"""How long a peer may leave an answer unread."""

_OF_A_BODY = (b"content-length", b"transfer-encoding")

_FOR_ANY_PAGE = b"".join(b"%s: %s\r\n" % header for header in (ANY_ORIGIN, EXPOSED))
"""Sent with refusals: a page may have made the connection, and its path is not known yet."""

_CROWDED = 3 / 4
"""Once more than this fraction of the slots is in use, connections are not kept alive."""

_SETTLED_SECONDS = 1.0
"""A younger connection's pace is unknown: it is not dropped for an address with as many slots."""

_MOST_CALLERS = 1024
"""How many callers' addresses are remembered; when there are more, all are learnt anew."""

CALLER_KNOWN = "prio.caller_known"
"""The key in a request's scope of the function to call once its caller has shown a valid token."""


UNCERTIFIED = "prio.uncertified"
"""The key in a request's scope of whether its caller was asked for a certificate and has none."""


class BoundedConnection(PromptConnection):
    """One connection; `limited_to` makes the class to give to a server.

    Attributes:
        max_connections: How many connections may be open at once.
        minds_shortage: Whether a connection must give way if file descriptors run short.
    """

    max_connections = 512
    minds_shortage = True
    _callers: ClassVar[set[str]] = set()
    _named: ClassVar[set["BoundedConnection"]] = set()  # the open ones that hold a slot

    @classmethod
    def limited_to(cls, max_connections: int) -> type[Self]:
        """Return the class for a server that takes this many connections at once."""
        own = {
            "max_connections": max_connections,
            "_callers": set[str](),
            "_named": set[BoundedConnection](),
        }
        return type(cls.__name__, (cls,), own)

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        self._is_proxy = is_trusted_proxy(peer, self.config.forwarded_allow_ips)
        self._address = "" if self._is_proxy else sharing(peer)  # empty if unknown
        if not self._is_proxy:
            self._named.add(self)  # the client is known
        self._is_uncertified = False
        self._is_idle = False
        self._began = self.loop.time()
        self._frame_bytes = 0
        self._body_bytes = 0
        self._headers = 0
        self._is_excessive = False
        self._is_answering = False
        self._is_body_coming = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_short = self.minds_shortage and _is_short(transport)
        if (self._is_proxy and self._may_wait()) or self._has_room():
            self._arm(HEADER_SECONDS)
        self._is_short = False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._named.discard(self)
        super().connection_lost(exc)

    @property
    def pace(self) -> float | None:
        """Bytes per second of the incoming request; None if there is none, or it is too young."""
        seconds = self.loop.time() - self._began
        if self.transport.is_closing():
            return -1.0  # open only for an answer that the peer does not read
        if self._is_idle:
            return 0.0
        if seconds < _SETTLED_SECONDS or self._is_whole():
            return None
        return (self._frame_bytes + self._body_bytes) / seconds

    def _may_wait(self) -> bool:
        """Return whether a proxy's connection may wait for the headers that name its client.

        Until they come it takes no slot; there may be as many of those as there are slots. Beyond
        that, the one that has waited longest ends.
        """
        if len(self.connections) <= 2 * self.max_connections and not self._is_short:
            return True
        unnamed = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection) and each not in self._named and each is not self
        ]
        if not unnamed:
            return False
        min(unnamed, key=lambda each: each._began).drop()  # noqa: SLF001  our own
        return True

    def _has_room(self) -> bool:
        """Return whether there is room for this connection; answer 503 and end it if not."""
        taken = len(self._named) - (self in self._named)
        # If file descriptors run short, there is no slot to give, whatever is in use.
        has_slot = taken < self.max_connections and not self._is_short
        if has_slot or self._displace():
            return True
        self._refuse(b"503 Service Unavailable", b"retry-after: 1\r\n")
        return False

    def _displace(self) -> bool:
        """Drop another connection if one must give way to this one; return whether one did."""
        # A proxy's connection whose headers have not come holds no slot to give.
        others = [each for each in self._named if each is not self]
        # A request that was received whole is answered. Its connection gives way only when all
        # others are in that state, too.
        unanswered = [each for each in others if not each._is_whole()]  # noqa: SLF001  our own
        chosen = self._giving_way(unanswered or others, others)
        if chosen is None:
            return False
        chosen.drop()
        return True

    def _giving_way(
        self, among: Sequence["BoundedConnection"], others: Sequence["BoundedConnection"]
    ) -> "BoundedConnection | None":
        """Return the slowest of some connections, if any has a pace.

        If some address has more connections than ours, it is one of the address that has the most.
        In that case, and if we are a known caller, connections of unknown pace give way too.
        """
        # A helper gets all its jobs from its leader's one address. If that counted as holding many,
        # strangers with an address each would displace it.
        strange = [each._address for each in others if each._address not in self._callers]  # noqa: SLF001  our own
        held = Counter(address for address in strange if address)
        most = max((held[each._address] for each in among), default=0)  # noqa: SLF001  our own
        is_unequal = most > held[self._address] + 1
        if is_unequal:
            among = [each for each in among if held[each._address] == most]  # noqa: SLF001  ours
        paces = [(other.pace, other) for other in among]
        slow = [(pace, other) for pace, other in paces if pace is not None]
        if not slow and (is_unequal or self._address in self._callers):
            slow = [(0.0, each) for each in among if each._address not in self._callers]  # noqa: SLF001  ours
        return min(slow, key=lambda each: each[0])[1] if slow else None

    def _is_whole(self) -> bool:
        """Return whether the request was received whole and is being answered."""
        is_whole = self._is_answering and not self._is_body_coming
        return is_whole and not self.transport.is_closing()

    def _know_caller(self) -> None:
        """Remember that a caller at this address has shown a valid token."""
        if len(self._callers) >= _MOST_CALLERS:
            self._callers.clear()
        if self._address:
            self._callers.add(self._address)

    def drop(self) -> None:
        """End the connection at once."""
        self.transport.abort()
        self.connections.discard(self)
        self._named.discard(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._is_idle = False
        if self._timer is None and not self._is_answering:
            self._began = self.loop.time()
            self._arm(HEADER_SECONDS)
        self._frame_bytes += len(data)
        super().data_received(data)
        if self._frame_bytes > MAX_HEADER_BYTES + self._body_bytes:
            self._exceed()

    @override
    def on_message_begin(self) -> None:
        if self._is_answering:
            # No well-meaning peer sends a request before its last one is answered, and we would
            # have to hold it.
            self.drop()
            raise ValueError("pipelined requests are not served")
        self._headers = 0
        self._body_bytes = 0
        super().on_message_begin()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        if self._headers > MAX_HEADERS:
            self._is_excessive = True
            raise ValueError("too many headers")
        # Fields after a body are not headers of the request (RFC 9110, "Trailer Fields").
        if not self._is_body_coming:
            super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > MAX_HEADER_BYTES:
            self._is_excessive = True
            raise ValueError("the headers are too long")
        if self.parser.should_upgrade() and any(name in _OF_A_BODY for name, _ in self.headers):
            # The parser would end the request here, and take its body for the next request.
            raise ValueError("a request with a body cannot ask for another protocol")
        self._disarm()
        self._frame_bytes = 0
        self._began = self.loop.time()
        if self._is_proxy:
            self._address = forwarded_for(self.headers)
            self._named.add(self)
            if not self._has_room():
                raise ValueError("too many connections")
        self._is_answering = self._is_body_coming = True
        self.scope[CALLER_KNOWN] = self._know_caller  # type: ignore[literal-required]  # ours
        self.scope[UNCERTIFIED] = self._is_uncertified  # type: ignore[literal-required]  # ours
        self.scope[IS_WHOLE] = self._is_whole  # type: ignore[typeddict-unknown-key]  # ours
        super().on_headers_complete()
        if len(self.connections) > self.max_connections * _CROWDED:
            # The answer ends the connection, so that clients compete anew for every slot.
            self.cycle.keep_alive = False

    @override
    def on_body(self, body: bytes) -> None:
        self._frame_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._is_answering = False
        self._began = self.loop.time()
        if self._is_body_coming:
            self._arm(LINGER_SECONDS)
        else:
            self._is_idle = True

    @override
    def on_message_complete(self) -> None:
        self._frame_bytes = 0
        self._is_body_coming = False
        if not self._is_answering:
            self.transport.close()  # the unread body is over; the peer may connect again
        super().on_message_complete()

    @override
    def _unsupported_upgrade_warning(self) -> None:
        """Do not warn: a request without a body is answered as if it had not asked to upgrade."""

    @override
    def send_400_response(self, msg: str) -> None:
        if self._is_excessive:
            self._exceed()
        elif not self.transport.is_closing():
            super().send_400_response(msg)
        self._arm(LINGER_SECONDS)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm(UNREAD_SECONDS)

    @override
    def resume_writing(self) -> None:
        self._disarm()
        super().resume_writing()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._arm(LINGER_SECONDS)

    def _exceed(self) -> None:
        self._refuse(b"431 Request Header Fields Too Large")

    def _refuse(self, status: bytes, headers: bytes = b"") -> None:
        """Answer before there is a request, and end the connection."""
        if not self.transport.is_closing():
            if not self._is_short:  # of that, one line a minute is enough
                log.info("connection refused", answer=status.decode())
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\n" + headers + _FOR_ANY_PAGE + b"connection: close\r\n"
                b"content-length: 0\r\n\r\n"
            )
            self.transport.close()
        self._arm(LINGER_SECONDS)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self.drop)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_short(transport: asyncio.Transport) -> bool:
    """Return whether a new connection finds file descriptors short, and note it if so."""
    open_socket = transport.get_extra_info("socket")
    is_short = open_socket is not None and is_high(open_socket.fileno())
    if is_short:
        SHORTAGE.note()
    return is_short
