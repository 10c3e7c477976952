"""Whom our requests reach, and by which way."""

import httpx
import pytest

from aggregator.errors import ParameterError
from aggregator.service.transport.client import open_client


@pytest.mark.parametrize(
    "url", ["http://helper.example/", "http://10.0.0.1:8002/", "http://127.0.0.1.evil.example/"]
)
async def test_a_token_does_not_travel_in_the_clear(url: str) -> None:
    async with open_client(1) as http:
        with pytest.raises(ParameterError, match="plain HTTP to another machine") as refused:
            await http.post(url, headers={"authorization": "Bearer secret-of-the-test"})
    assert "secret-of-the-test" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "https://127.0.0.1:1/"]
)
async def test_this_machine_and_https_are_asked(url: str) -> None:
    async with open_client(1) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)


async def test_an_operator_may_allow_plain_http() -> None:
    async with open_client(1, insecure_http=True) as http:
        with pytest.raises(httpx.TransportError):
            await http.get("http://192.0.2.1:1/", timeout=0.01)


async def test_cookies_of_a_peer_are_neither_kept_nor_sent_to_anybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        cookies = [("set-cookie", f"c{len(asked)}{each}=x; Path=/") for each in range(20)]
        return httpx.Response(200, headers=cookies)

    asked: list[httpx.Request] = []
    async with open_client(1) as http:
        monkeypatch.setattr(http, "_transport", httpx.MockTransport(answer))
        for url in ("http://127.0.0.1:1/", "http://127.0.0.1:1/", "http://127.0.0.1:2/"):
            await http.get(url)
        assert len(http.cookies.jar) == 0
    assert not any("cookie" in request.headers for request in asked)


@pytest.mark.parametrize("is_asked_for", [False, True])
async def test_a_proxy_of_the_environment_is_used_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    is_asked_for: bool,  # noqa: FBT001 - a parameter
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    async with open_client(1, environment_proxy=is_asked_for) as http:
        proxied = [pattern for pattern, transport in http._mounts.items() if transport is not None]
    assert bool(proxied) == is_asked_for
