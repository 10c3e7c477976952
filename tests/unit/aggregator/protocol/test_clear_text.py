"""What may travel over plain HTTP, held against the client that sends it."""

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.dap.urls import origin
from aggregator.errors import ParameterError
from aggregator.protocol.clear_text import check_scheme, is_loopback

PIECES = (
    *("http", "https", "HTTP", "HTTPS", "ftp", "://", "/", "//", "\\", ":", "?", "#", "@"),
    *("127.0.0.1", "127.1", "2130706433", "localhost", "LOCALHOST", "evil.example", ".", "8080"),
    *("[", "]", "::1", "[::1]", "[::ffff:127.0.0.1]", "%25lo", "%", "%31", "%2f", "%40"),
    *("\u3002", "\uff11", "\u00e9", "\u00df", "\u00ad", " ", ";", "a"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


def is_allowed(url: str) -> bool:
    try:
        check_scheme(url, "endpoint", insecure_http=False)
    except ParameterError:
        return False
    return True


@given(st.one_of(TEXTS, TEXTS.map("http://{}".format), TEXTS.map("https://{}".format)))
@example("http://evil.example[::1]/")
@example("http://[::1]evil.example/")
@example("http://evil.example@127.0.0.1/")
@example("http://127.0.0.1@evil.example/")
@example("http://evil.example\\@127.0.0.1/")
def test_what_is_allowed_is_private_to_the_client_that_sends_it_too(url: str) -> None:
    try:
        sent = httpx.URL(url)
    except httpx.InvalidURL:
        return
    is_private = sent.scheme == "https" or is_loopback(sent.host)
    assert is_private or not is_allowed(url)


@given(st.one_of(TEXTS.map("https://{}".format), TEXTS.map("https://{}/".format)))
@example("https://192.168.1.256/")
@example("https://[v1.x]/")
@example("https://xn--a/")
def test_an_endpoint_that_is_taken_can_be_asked(url: str) -> None:
    """Or one task would stop the scheduler, which sorts all tasks by the origin that they ask."""
    if is_allowed(url):
        assert origin(url).startswith("https://")
        assert httpx.URL(url).raw_host


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://helper.example/", True),
        ("HTTPS://helper.example/", False),  # as in tasks, whose URLs are written in one way
        ("http://localhost:8001/", True),
        ("http://LOCALHOST/", True),
        ("http://127.8.9.1/", True),
        ("http://[::1]:8001/", True),
        ("http://helper.example/", False),
        ("http://localhost.evil.example/", False),
        ("http://evil.example[::1]/", False),
        ("https:///tasks", False),
        ("https://helper.example:65536/", False),
    ],
)
def test_a_url_is_allowed_if_it_is_https_or_names_this_machine(
    url: str,
    allowed: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert is_allowed(url) == allowed
