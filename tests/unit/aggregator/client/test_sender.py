"""What stands in for an aggregator on the way to it settles nothing."""

import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aggregator.client.sender import Later, Refused, TooLarge
from aggregator.client.stdlib_sender import HttpSender
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from tests.support.certificates import Authority
from tests.support.http_proxy import HttpProxy
from tests.support.ports import free_ports

TYPE = "application/ppm-dap;message=upload-errors"
PROBLEM = "application/problem+json"
URN = "urn:ietf:params:ppm:dap:error:"


class Server(ThreadingHTTPServer):
    """Answers each request with the next of its answers: status, headers and body."""

    daemon_threads = True
    answers: list[tuple[int, dict[str, str], bytes]]
    bodies: list[bytes]
    headers: list[Message]
    hung: threading.Event
    connections = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        self.server.headers.append(self.headers)
        self.send_response_only(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.server.headers.append(self.headers)
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        status, headers, body = self.server.answers.pop(0)
        if status == 0:  # no answer at all
            self.server.hung.wait()
            return
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if headers.get("x-then") == "close":  # without having said so
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(
    *answers: tuple[int, dict[str, str], bytes], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[Server, str]]:
    server = Server(("127.0.0.1", 0), _Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.answers, server.bodies, server.headers = list(answers), [], []
    server.hung = threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        scheme = "http" if tls is None else "https"
        yield server, f"{scheme}://127.0.0.1:{server.server_address[1]}/tasks/x/reports"
    finally:
        server.hung.set()
        server.shutdown()
        thread.join()
        server.server_close()


def post(url: str, given: HttpSender | None = None) -> bytes:
    sender = given or HttpSender()
    try:
        return sender.post(url, "upload-req", b"body", "upload-errors", 100)
    finally:
        if given is None:
            sender.close()


def test_an_answer_comes_back_whole_or_empty() -> None:
    with serving((200, {"content-type": TYPE}, b"x" * 17), (200, {}, b"")) as (server, url):
        assert post(url) == b"x" * 17
        assert post(url) == b""
        assert server.bodies == [b"body"] * 2


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"content-type": "text/html"}, b"<h1>Welcome to our hotel</h1>"),
        (302, {"location": "https://hotel.example/"}, b""),
        (404, {"content-type": "text/html"}, b"not here"),
        (403, {}, b""),
        (400, {"content-type": PROBLEM}, b'{"type": "about:blank"}'),
        (400, {"content-type": PROBLEM}, b'{"type": 7}'),
        (400, {"content-type": PROBLEM}, f'{{"type": "{URN}"}}'.encode()),
        (400, {"content-type": PROBLEM}, f'{{"type": "{URN}not a name"}}'.encode()),
        (400, {"content-type": PROBLEM}, f'{{"type": "{URN}{"a" * 65}"}}'.encode()),
        (400, {"content-type": PROBLEM}, b"[]"),
        (400, {"content-type": PROBLEM}, b"[" * 60_000),
        (200, {"content-type": TYPE}, b"x" * 101),
        (200, {"content-type": TYPE}, b"x" * 100_000),
        (200, {"content-type": "application/ppm-dap;message=hpke-config-list"}, b"x"),
        (204, {}, b""),
        (202, {}, b""),
        (200, {"content-type": "text/html"}, b""),
    ],
)
def test_what_is_no_aggregators_word_may_be_another_tomorrow(
    answer: tuple[int, dict[str, str], bytes],
) -> None:
    with serving(answer) as (_, url), pytest.raises(Later) as caught:
        post(url)
    assert caught.value.reason == "not_an_aggregator"


@pytest.mark.parametrize(("said", "wait"), [("120", 120), ("soon", 0), ("9" * 5000, DAY)])
def test_a_busy_leader_may_say_for_how_long(said: str, wait: int) -> None:
    with serving((503, {"retry-after": said}, b"")) as (_, url), pytest.raises(Later) as caught:
        post(url)
    assert (caught.value.reason, caught.value.wait) == ("busy", wait)


def test_a_request_may_be_too_large_for_anybody() -> None:
    with (
        serving((413, {"content-type": "text/html"}, b"<h1>nginx</h1>")) as (_, url),
        pytest.raises(TooLarge),
    ):
        post(url)


def test_an_aggregators_refusal_has_the_drafts_name() -> None:
    body = f'{{"type": "{URN}unrecognizedTask"}}'.encode()
    with (
        serving((404, {"content-type": PROBLEM}, body)) as (_, url),
        pytest.raises(Refused) as caught,
    ):
        post(url)
    assert caught.value.reason == "unrecognizedTask"


def test_a_connection_that_was_kept_and_closed_is_made_anew() -> None:
    answers = [(200, {"x-then": "close"}, b""), (200, {}, b"")]
    sender = HttpSender()
    with serving(*answers) as (server, url):
        post(url, sender)
        post(url, sender)
        assert len(server.bodies) == 2
    sender.close()


def test_nobody_there_or_no_answer_is_unreachable() -> None:
    [port] = free_ports(1)
    with pytest.raises(Later, match="unreachable"):
        post(f"http://127.0.0.1:{port}/tasks/x/reports")
    with serving((0, {}, b"")) as (_, url), pytest.raises(Later, match="unreachable"):
        post(url, HttpSender(seconds=0.1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(Later, match="unreachable"):
            post(url, HttpSender(seconds=0.1))


def test_the_date_of_an_answer_tells_how_far_the_clock_is_ahead() -> None:
    sender = HttpSender()
    with serving((200, {"date": "Thu, 01 Jan 2026 00:00:00 GMT"}, b"")) as (_, url):
        assert sender.clock_ahead is None
        post(url, sender)
    sender.close()
    assert sender.clock_ahead is not None
    assert sender.clock_ahead != 0


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Answer each connection's first request with these bytes, and end the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(2**16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/tasks/x/reports"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: {TYPE}\r\n".encode()


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"content-length: 34\r\n\r\n" + b"x" * 17,
        HEAD + b"content-length: 17\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n11\r\n" + b"x" * 17 + b"\r\n",
        HEAD + b"\r\n" + b"x" * 17,
    ],
    ids=["a refusal of two", "none of one", "no last chunk", "nothing marks its end"],
)
def test_an_answer_that_was_cut_between_two_refusals_is_no_answer(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(Later, match="unreachable"):
        post(url)


def test_an_answer_in_chunks_is_whole_with_its_last() -> None:
    chunks = b"transfer-encoding: chunked\r\n\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"
    with answering(HEAD + chunks) as url:
        assert post(url) == b"x" * 17


def test_a_request_on_a_connection_that_was_kept_is_sent_once() -> None:
    sender = HttpSender()
    with serving(*[(200, {"content-type": TYPE}, b"x" * 17)] * 3) as (server, url):
        for _ in range(3):
            post(url, sender)
        assert server.connections == 1
        assert len(server.bodies) == 3
    sender.close()


@pytest.mark.parametrize(
    "date",
    [
        "",
        "soon",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 +2359",
    ],
)
def test_a_date_that_no_clock_has_is_none(date: str) -> None:
    sender = HttpSender()
    with serving((200, {"date": date}, b"")) as (_, url):
        assert post(url, sender) == b""
    sender.close()


NO_ANSWER = (200, {}, b"")


def test_headers_go_with_uploads_to_the_leader_and_with_nothing_else() -> None:
    """A token that the leader asks for is none of the helper's business."""
    token = {"authorization": "Bearer token"}
    with serving(NO_ANSWER) as (server, url), closing(HttpSender(headers=token)) as sender:
        sender.post(url, "upload-req", b"body", "upload-errors", 100)
        with pytest.raises(Later):
            sender.get(url, "hpke-config-list", 100)
    assert [each["authorization"] for each in server.headers] == ["Bearer token", None]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_requests_go_through_a_proxy_that_is_named(tmp_path: Path, scheme: str) -> None:
    authority, tls, trusted = Authority(tmp_path, "servers"), None, None
    if scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued = authority.issue("server")
        tls.load_cert_chain(issued["certificate"], issued["key"])
        trusted = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        HttpProxy("Basic dXNlcjpwYTpzcw==") as proxy,
        serving(NO_ANSWER, NO_ANSWER, tls=tls) as (
            server,
            url,
        ),
    ):
        known = proxy.url.replace("//", "//user:pa%3Ass@")
        for proxies, through in (
            ({scheme: known}, True),
            ({"all": known}, True),
            ({scheme: known, "no": "127.0.0.1"}, False),
        ):
            before = len(proxy.heads)
            server.answers = [NO_ANSWER, NO_ANSWER]
            with closing(HttpSender(proxies=proxies, tls=trusted)) as sender:
                for _ in range(2):
                    assert sender.post(url, "upload-req", b"body", "upload-errors", 9) == b""
            assert (len(proxy.heads) > before) == through
        unknown = HttpSender(proxies={scheme: proxy.url}, tls=trusted)
        with closing(unknown), pytest.raises(Later):  # the proxy wants to know who asks
            unknown.post(url, "upload-req", b"body", "upload-errors", 9)
    assert server.bodies == [b"body"] * 6
    begins = "CONNECT 127.0.0.1:" if scheme == "https" else f"POST {url}"
    assert all(head.startswith(begins) for head in proxy.heads)
    if scheme == "https":
        assert not any("proxy-authorization" in each for each in server.headers)


@pytest.mark.parametrize(
    "url", ["https://user:secret@proxy.example", "socks5://user:secret@proxy.example", "http://"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ParameterError, match="proxy: must be an http:// URL") as refused:
        HttpSender(proxies={"https": url})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("password", ["secret/", "secret#", "secret?", "secret[", "x:secret"])
def test_a_proxys_password_that_cuts_its_url_short_is_in_no_message(password: str) -> None:
    with pytest.raises(ParameterError, match="proxy: must be") as refused:
        HttpSender(proxies={"https": f"http://user:{password}@[proxy.example"})
    with pytest.raises(ParameterError, match="proxy: must be") as cut:
        HttpSender(proxies={"https": f"http://user:{password}@proxy.example:port"})
    for each in (refused, cut):
        assert "secret" not in "".join(traceback.format_exception(each.value))


@pytest.mark.parametrize("value", ["secret\n", "secret\r\nhost: x", " secret", "secr\u00e9t", ""])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    """Such as a token that was read from a file together with the end of its line."""
    with pytest.raises(ParameterError, match="headers: authorization must be") as refused:
        HttpSender(headers={"authorization": value})
    assert "secr" not in "".join(traceback.format_exception(refused.value))


def test_a_leader_may_ask_for_a_certificate(tmp_path: Path) -> None:
    servers, callers = Authority(tmp_path, "servers"), Authority(tmp_path, "callers")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*servers.issue("server").values())
    tls.load_verify_locations(callers.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    for is_shown in (True, False):
        trusted = ssl.create_default_context(cafile=str(servers.certificate))
        if is_shown:
            trusted.load_cert_chain(*callers.issue("caller").values())
        with serving(NO_ANSWER, tls=tls) as (_, url), closing(HttpSender(tls=trusted)) as sender:
            if is_shown:
                assert sender.post(url, "upload-req", b"body", "upload-errors", 9) == b""
            else:
                with pytest.raises(Later):
                    sender.post(url, "upload-req", b"body", "upload-errors", 9)
