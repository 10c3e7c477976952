"""Any request at all, straight to an application: no client or server in between to refuse it."""

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

NUMBERS = (0, 1, 2**16, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
"""Numbers at which an integer of some kind ends."""

WIDTHS = (">B", ">H", ">I", ">Q")


class Request(NamedTuple):
    """A request; the body comes in chunks."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: list[bytes]


class Response(NamedTuple):
    """An answer; the names of headers are lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


END: Message = {"type": "http.request", "body": b"", "more_body": False}


def _nothing() -> None:
    pass


async def send(
    app: ASGIApp,
    request: Request,
    when_whole: Callable[[], None] = _nothing,
    end: Message | None = END,
) -> Response:
    """Hand a request to an application, and return what it answers.

    Args:
        app: The application.
        request: The request.
        when_whole: Is called once all of the body was handed over.
        end: What comes after the body; nothing, ever, if None.
    """
    waiting = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in request.body]
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal end
        if waiting:
            return waiting.pop(0)
        if end is not None:
            last, end = end, None
            when_whole()
            return last
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits so long")

    async def note(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "headers": request.headers,
    }
    await app(scope, receive, note)
    begin, *rest = sent
    body = b"".join(message.get("body", b"") for message in rest)
    return Response(begin["status"], dict(begin["headers"]), body)


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes that differ from `data` in up to four places, or not at all."""

    def change(changes: Sequence[tuple[Callable[[bytes, int], bytes], int]]) -> bytes:
        result = data
        for edit, place in changes:
            result = edit(result, place % (len(result) + 1))
        return result

    return st.lists(st.tuples(_EDITS, st.integers(0, 2**16)), max_size=4).map(change)


def _written(layout: str, number: int) -> Callable[[bytes, int], bytes]:
    size = struct.calcsize(layout)
    new = struct.pack(layout, number % 2 ** (8 * size))
    return lambda data, at: data[:at] + new + data[at + size :]


_EDITS: st.SearchStrategy[Callable[[bytes, int], bytes]] = st.one_of(
    st.builds(_written, st.sampled_from(WIDTHS), st.sampled_from(NUMBERS)),
    st.integers(1, 255).map(
        lambda bits: (
            lambda data, at: (
                data[:at] + bytes(each ^ bits for each in data[at : at + 1]) + data[at + 1 :]
            )
        )
    ),
    st.binary(max_size=20).map(lambda more: lambda data, at: data[:at] + more + data[at:]),
    st.just(lambda data, at: data[:at]),
    st.just(lambda data, at: data[at:]),
)


def chunks(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Return `data` cut into up to three chunks, some of which may be empty."""
    return st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(
        lambda cuts: [data[: min(cuts)], data[min(cuts) : max(cuts)], data[max(cuts) :]]
    )


def requests(
    methods: Sequence[str],
    paths: Sequence[str],
    bodies: Sequence[bytes],
    headers: Mapping[bytes, Sequence[bytes]],
    queries: Sequence[bytes] = (),
) -> st.SearchStrategy[Request]:
    """Return requests that are near to good ones, or far from any.

    Args:
        methods: Of good requests, as all the rest.
        paths: Paths.
        bodies: Bodies.
        headers: Values by the name of the header, lower case.
        queries: Query strings.
    """
    junk = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
    header = st.sampled_from(sorted(headers)).flatmap(
        lambda name: st.tuples(
            st.just(name), st.one_of(st.sampled_from(headers[name]).flatmap(mutated), junk)
        )
    )
    good = st.fixed_dictionaries(
        {name: st.sampled_from(values) for name, values in headers.items()}
    ).map(lambda each: list(each.items()))
    changed_path = st.sampled_from(paths).flatmap(
        lambda path: mutated(path.encode()).map(lambda data: "/" + data.decode(errors="replace"))
    )
    return st.builds(
        Request,
        st.one_of(st.sampled_from(methods), st.from_regex(r"[A-Z!#a-z]{1,8}", fullmatch=True)),
        st.one_of(st.sampled_from(paths), changed_path, st.text(max_size=40).map("/{}".format)),
        st.one_of(st.just(b""), st.sampled_from([*queries, b"&"]).flatmap(mutated)),
        st.one_of(good, st.tuples(good, st.lists(header)).map(sum_of), st.lists(header)),
        st.sampled_from([*bodies, b""]).flatmap(mutated).flatmap(chunks),
    )


def sum_of(
    lists: tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]],
) -> list[tuple[bytes, bytes]]:
    """Return both lists of headers as one."""
    first, second = lists
    return first + second
