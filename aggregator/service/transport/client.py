"""The HTTP client with which our processes speak to other parties.

Tokens travel in its requests. So, unless the operator says otherwise, it speaks plain HTTP only to
this machine and ignores the environment's proxies. It keeps no cookies: a peer could use them to
fill our memory, and our requests to other ports of its host.
"""

import ssl
import time
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import httpx
from typing_extensions import override

from aggregator.protocol.clear_text import check_proxies, check_scheme
from aggregator.service.transport.answer_times import AnswerTimes
from aggregator.service.transport.kept_connections import KeptConnections

if TYPE_CHECKING:
    from aggregator.service.config import ServiceSettings

CONNECT_SECONDS = 10


class Client(httpx.AsyncClient):
    """A client that notes how quickly it is answered.

    Attributes:
        answers: Its notes, by host.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  as httpx takes them
        super().__init__(**options)
        self.answers = AnswerTimes()

    @override
    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request, and note the time until the head of the answer."""
        started = time.monotonic()
        is_answer = False
        try:
            response = await super().send(request, **options)
            is_answer = not response.is_server_error
        finally:
            self.answers.note(
                request.url.netloc.decode(), time.monotonic() - started, is_answer=is_answer
            )
        return response


def open_client(
    timeout_seconds: float = 60,
    *,
    insecure_http: bool = False,
    environment_proxy: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Client:
    """Return a client.

    Args:
        timeout_seconds: How long one answer may take.
        insecure_http: Whether it may speak plain HTTP to other machines.
        environment_proxy: Whether it uses the proxies of `HTTPS_PROXY` and the like.
        tls: Which authorities it trusts and what certificate it shows; by default those of the
            system or of SSL_CERT_FILE, and none.
    """

    async def refuse(request: httpx.Request) -> None:
        place = request.url.copy_with(raw_path=b"/", fragment=None)  # the rest may be a peer's
        check_scheme(str(place), "endpoint", insecure_http=insecure_http)

    if environment_proxy:
        check_proxies()
    # The operator's own certificate authorities (SSL_CERT_FILE) are honoured either way.
    tls = tls or httpx.create_ssl_context(trust_env=True)
    return Client(
        timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        verify=tls,
        transport=None if environment_proxy else KeptConnections(tls),
        trust_env=environment_proxy,
        event_hooks={"request": [refuse]},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def client_of(settings: "ServiceSettings", timeout_seconds: float = 60) -> Client:
    """Return the client that a party with these settings uses.

    Raises:
        ConfigurationError: A file of a certificate or of authorities cannot be used.
    """
    from aggregator.service.transport.tls import Identity, asking_context

    return open_client(
        timeout_seconds,
        insecure_http=settings.insecure_http,
        environment_proxy=settings.environment_proxy,
        tls=asking_context(settings.peer_ca, Identity.asking(settings)),
    )
