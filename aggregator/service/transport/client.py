"""The HTTP client with which our processes speak to other parties.

Tokens travel in its requests. So, unless the operator says otherwise, it speaks plain HTTP only to
this machine and ignores the environment's proxies. It keeps no cookies: a peer could use them to
fill our memory, and our requests to other ports of its host.
"""

import ipaddress
import ssl
import time
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import httpx
from typing_extensions import override

from aggregator.dap.resources import names_host
from aggregator.errors import ParameterError
from aggregator.service.transport.answers import Answers

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.service.config import ServiceSettings

CONNECT_SECONDS = 10


class Client(httpx.AsyncClient):
    """A client that notes how quickly it is answered.

    Attributes:
        answers: Its notes, by host.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  as httpx takes them
        super().__init__(**options)
        self.answers = Answers()

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
        check_scheme(str(request.url), "endpoint", insecure_http=insecure_http)

    return Client(
        timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        # The operator's own certificate authorities (SSL_CERT_FILE) are honoured either way.
        verify=tls or httpx.create_ssl_context(trust_env=True),
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


def check_scheme(url: str, name: str, *, insecure_http: bool) -> None:
    """Refuse a URL if a token or a report would travel to it in the clear.

    Args:
        url: The URL.
        name: What the message calls it.
        insecure_http: Whether the operator allows it.

    Raises:
        ParameterError: It names no host, or is plain HTTP to another machine, and that is
            not allowed.
    """
    if not (url.isprintable() and names_host(url)):
        raise ParameterError(f"{name}: {url} must name a host, and a port up to 65535 if any")
    parsed = httpx.URL(url)
    if parsed.scheme == "https" or insecure_http or is_loopback(parsed.host):
        return
    raise ParameterError(
        f"{name}: {url} is plain HTTP to another machine; name an https:// URL, or allow it by "
        "insecure_http (--insecure-http, PRIO_INSECURE_HTTP)"
    )


def check_endpoints(task: "Task", *, insecure_http: bool) -> None:
    """Refuse a task whose reports and tokens would travel in the clear.

    Raises:
        ParameterError: See `check_scheme`.
    """
    configuration = task.configuration
    check_scheme(configuration.leader_aggregator_endpoint, "leader", insecure_http=insecure_http)
    check_scheme(configuration.helper_aggregator_endpoint, "helper", insecure_http=insecure_http)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
