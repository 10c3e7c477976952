"""Connections over which a service speaks TLS itself, bounded from their first moment.

A connection takes its slot, with its address and the time limit for headers, before a byte of TLS
is read. A peer that never finishes its handshake is just another sender that sends nothing, and
gives way as such.
"""

import asyncio
import ssl
from typing import ClassVar, cast

from typing_extensions import override
from uvicorn.protocols.http.flow_control import FlowControl

from aggregator.service.telemetry.lines import log
from aggregator.service.web.connections import BoundedConnection


def connections(max_connections: int, tls: ssl.SSLContext | None) -> type[BoundedConnection]:
    """Return the class of a server's connections, with TLS if there is a context."""
    if tls is None:
        return BoundedConnection.limited_to(max_connections)
    own = SecuredConnection.limited_to(max_connections)
    own.tls = tls
    return own


class SecuredConnection(BoundedConnection):
    """One connection, plain until its handshake has ended.

    The time limit for headers covers handshake and headers together.

    Attributes:
        tls: The TLS context.
    """

    tls: ClassVar[ssl.SSLContext]

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        self._is_secured = False
        self._early: list[bytes] = []
        super().connection_made(transport)
        self._handshake = self.loop.create_task(self._shake_hands(transport))
        # Runs right after the callbacks that the task's first step puts into the loop's queue: one
        # iteration later TLS knows its connection, and nothing has been read meanwhile.
        self.loop.call_soon(self.loop.call_soon, self._hand_over, transport)

    async def _shake_hands(self, plain: asyncio.Transport) -> None:
        if plain.is_closing():
            return
        try:
            secured = await self.loop.start_tls(plain, self, self.tls, server_side=True)
        except OSError as error:  # the peer ended it, or we dropped the connection
            self.connection_lost(error)
            return
        if secured is None or plain.is_closing():
            self.connection_lost(None)
            return
        self.transport = secured
        self.flow = FlowControl(secured)
        self.scheme = "https"
        self._is_uncertified = _is_uncertified(secured.get_extra_info("ssl_object"))
        self._is_secured = True
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def _hand_over(self, plain: asyncio.Transport) -> None:
        """Pass early bytes to TLS: an event loop may read before the handshake's task begins."""
        early, self._early = b"".join(self._early), []
        while early and not plain.is_closing():
            # Cast by behaviour: uvloop's class does not inherit from it.
            reader = cast("asyncio.BufferedProtocol", plain.get_protocol())
            room = memoryview(reader.get_buffer(len(early)))
            taken = early[: len(room)]
            room[: len(taken)] = taken
            reader.buffer_updated(len(taken))
            early = early[len(taken) :]

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_secured:
            super().data_received(data)
        else:  # before TLS reads, or just as the handshake ends, before we are told
            self._early.append(data)

    @override
    def _refuse(self, status: bytes, headers: bytes = b"") -> None:
        """Refuse; before TLS is up no answer is possible, so the connection just ends."""
        if self._is_secured:
            super()._refuse(status, headers)
        else:
            if not self._is_short:
                log.info("connection refused", answer="none, before TLS")
            self.drop()


def _is_uncertified(tls: ssl.SSLObject) -> bool:
    """Return whether the peer was asked for a certificate and showed none.

    A certificate of another authority has ended the handshake.
    """
    if tls.context.verify_mode is not ssl.CERT_OPTIONAL:
        return False
    return not tls.getpeercert(binary_form=True)
