"""An answer over HTTP/1.1 as it comes in, read by the parser of the servers.

Source: RFC 9112, "HTTP/1.1".
"""

from typing import Final

import httptools
import httpx

MOST_HEAD_BYTES: Final = 2**17
"""How many bytes an answer's headers may have, at most."""

_MOST_OF_A_BYTE: Final = 8
"""How many bytes may come for one of the body, which may be a chunk by itself."""


class HttpAnswer:
    """An answer; methods that begin with `on_` are the parser's.

    Attributes:
        status: Its status code.
        headers: Its headers.
        pieces: What came of its body and nobody has taken.
        has_head: Whether status and headers are there.
        is_whole: Whether it has ended.
        may_go_on: Whether it has, and the connection may be used for another request.
    """

    def __init__(self) -> None:
        """Wait for the first bytes."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.has_head = self.is_whole = self.may_go_on = False
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._left_bytes = MOST_HEAD_BYTES

    def feed(self, data: bytes) -> None:
        """Take more bytes.

        Raises:
            httpx.RemoteProtocolError: They are not HTTP/1.1, or headers or trailers do not end.
        """
        assert self._parser is not None  # noqa: S101  nobody reads on
        self._left_bytes -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_whole:
                raise httpx.RemoteProtocolError("the answer is not HTTP/1.1") from error
            self.may_go_on = False  # what follows the answer belongs to no request
        if self.is_whole:
            self.drop()
        elif self._left_bytes < 0:
            raise httpx.RemoteProtocolError("the answer's headers are too long")

    def end(self) -> None:
        """Take the end of the connection, with which an answer ends that does not tell its length.

        Raises:
            httpx.RemoteProtocolError: The answer is cut.
        """
        names = {name.lower() for name, _ in self.headers}
        if not self.has_head or names & {b"content-length", b"transfer-encoding"}:
            raise httpx.RemoteProtocolError("the connection ended before the answer")
        self.is_whole = True

    def drop(self) -> None:
        """Let go of the parser, which refers to the answer: only garbage collection frees both."""
        self._parser = None

    def on_message_begin(self) -> None:
        """Begin an answer, of which there is one."""
        if self.is_whole:
            raise ValueError("more than one answer")
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are of no use."""
        if not self.has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the status; those below 200 only announce the answer."""
        assert self._parser is not None  # noqa: S101  it calls
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= httpx.codes.OK
        codings = [value for name, value in self.headers if name.lower() == b"transfer-encoding"]
        if [coding.lower() for coding in codings] not in ([], [b"chunked"]):
            raise ValueError("a transfer coding that was not asked for")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if not self.has_head:
            raise ValueError("what announces the answer has no body")
        self.pieces.append(body)
        left = self._left_bytes + _MOST_OF_A_BYTE * len(body)
        self._left_bytes = min(left, MOST_HEAD_BYTES)

    def on_message_complete(self) -> None:
        """End the answer, or what announced it."""
        assert self._parser is not None  # noqa: S101  it calls
        if self.has_head:
            self.is_whole, self.may_go_on = True, self._parser.should_keep_alive()
