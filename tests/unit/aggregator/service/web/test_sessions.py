"""A session in a cookie is one that this service began, for a time, with a token that it takes."""

import pytest
from fastapi import Request, Response

from aggregator.collector.pages.session import COOKIE, SECURE_COOKIE, SESSION_SECONDS, Sessions
from aggregator.dap.auth import hash_token
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy

TAKEN = hash_token("one")


def request(
    cookie: str = "", host: str = "127.0.0.1:8003", scheme: str = "http", name: str = COOKIE
) -> Request:
    headers = [(b"cookie", f"{name}={cookie}".encode()), (b"host", host.encode())]
    return Request({"type": "http", "scheme": scheme, "path": "/", "headers": headers})


def begun(sessions: Sessions, token_hash: bytes | None = None) -> str:
    response = Response()
    sessions.begin(request(), response, token_hash)
    return response.headers["set-cookie"].split(";")[0].removeprefix(f"{COOKIE}=")


@pytest.mark.parametrize("host", ["collector.example", "10.0.0.3:8003", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cookie_goes_over_https_only_and_to_no_other_host_but_on_this_machine(
    host: str, scheme: str
) -> None:
    sessions, response = Sessions(SeededEntropy(b"a"), ManualClock(1000)), Response()
    sessions.begin(request(host=host, scheme=scheme), response, TAKEN)
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-prio_session=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    value = cookie.split(";")[0].partition("=")[2]
    # What another host of the domain, or plain HTTP, can put into the browser is not taken.
    assert sessions.of(request(value, host, scheme)) is None
    assert sessions.of(request(value, host, scheme, SECURE_COOKIE)) is not None


def test_a_cookie_that_was_copied_opens_nothing_once_its_browser_has_left() -> None:
    clock = ManualClock(1000)
    sessions = Sessions(SeededEntropy(b"a"), clock)
    copied, other = request(begun(sessions, TAKEN)), request(begun(sessions, TAKEN))
    session = sessions.of(copied)
    assert session is not None
    sessions.end(session)
    assert sessions.of(copied) is None
    assert sessions.of(other) is not None


def test_a_session_ends_with_its_time_and_with_the_token_that_began_it() -> None:
    clock = ManualClock(1000)
    sessions = Sessions(SeededEntropy(b"a"), clock)
    shown = request(begun(sessions, TAKEN))
    session = sessions.of(shown)
    assert session is not None
    assert sessions.is_known(session, [hash_token("another"), TAKEN])
    assert not sessions.is_known(session, [hash_token("another")])
    assert not sessions.is_known(session, [])
    clock.advance(SESSION_SECONDS)
    assert sessions.of(shown) is None


def test_who_has_only_seen_the_login_page_is_not_known() -> None:
    sessions = Sessions(SeededEntropy(b"a"), ManualClock(1000))
    session = sessions.of(request(begun(sessions)))
    assert session is not None
    assert not sessions.is_known(session, [TAKEN])


def test_a_cookie_that_was_made_up_or_changed_or_is_of_another_service_is_none() -> None:
    clock = ManualClock(1000)
    sessions, others = Sessions(SeededEntropy(b"a"), clock), Sessions(SeededEntropy(b"b"), clock)
    cookie = begun(sessions, TAKEN)
    assert others.of(request(cookie)) is None
    name, token, ends_at, mac = cookie.split(".")
    for forged in (
        f"{name}.{token}.{int(ends_at) + 1}.{mac}",
        f"{name}.1.{ends_at}.{mac}",
        f"{name}.{token}.{ends_at}.",
        "a.1.9999999999.b",
        "x",
        "",
    ):
        assert sessions.of(request(forged)) is None


def test_the_forms_of_one_session_are_not_those_of_another() -> None:
    sessions = Sessions(SeededEntropy(b"a"), ManualClock(1000))
    first, second = (sessions.of(request(begun(sessions, TAKEN))) for _ in range(2))
    assert first is not None
    assert second is not None
    assert sessions.is_own_form(first, sessions.csrf(first))
    assert not sessions.is_own_form(first, sessions.csrf(second))
    assert not sessions.is_own_form(first, "")
