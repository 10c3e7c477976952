"""What is taken as a URL, held against others that read it: Python, our client and browsers."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aggregator.dap.urls import Url, read_endpoint
from aggregator.errors import ParameterError
from tests.support.urls import ACCEPTED, REFUSED, UrlsInNode, urls_in_node

PIECES = (
    *("http", "https", "HTTPS", "ftp", "://", "/", "//", "\\", ":", "?", "#", "@", "[", "]"),
    *("127.0.0.1", "127.1", "2130706433", "0x7f", "0X", "08", "256", "1.2.3.4", "localhost"),
    *("evil.example", ".", "..", "-", "_", "~", ":0", ":80", ":443", ":8080", ":65536", "a", "A"),
    *("::1", "[::1]", "[2001:db8::1]", "[::ffff:127.0.0.1]", "%25lo", "%", "%31", "%2f", "%2e"),
    *("xn--", "xn--mnchen-3ya", "xn--a", "\u3002", "\uff11", "\u00e9", "\u00df", "\u00ad"),
    *(" ", "\t", "\n", "\0", ";", ",", "'", '"', "*", "<", "$", "&", "(", "|", "{", "a" * 63),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
NUMBERS = st.integers(0, 300).map(str)
HOSTS = st.one_of(
    st.lists(st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True), NUMBERS), min_size=1)
    .map(".".join),
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(".".join),
    st.ip_addresses(v=6).map("[{}]".format),
    st.from_regex(r"\[[0-9a-f:]{2,20}\]", fullmatch=True),
    st.from_regex(r"xn--[a-z0-9-]{1,9}", fullmatch=True),
)  # fmt: skip
WELL_FORMED = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https"]),
    HOSTS,
    st.one_of(st.just(""), st.integers(0, 70_000).map(":{}".format)),
    st.one_of(st.just(""), st.from_regex(r"(/[A-Za-z0-9._~-]{1,4}){0,3}/?", fullmatch=True)),
)
MUTATED = st.tuples(WELL_FORMED, TEXTS, st.integers(0, 40)).map(
    lambda drawn: drawn[0][: drawn[2]] + drawn[1] + drawn[0][drawn[2] :]
)
ANY_URL = st.one_of(
    WELL_FORMED,
    MUTATED,
    TEXTS,
    TEXTS.map("https://{}".format),
    TEXTS.map("http://{}/".format),
    TEXTS.map("https://leader.example/{}".format),
    st.sampled_from([*(url for url, *_ in ACCEPTED), *REFUSED]),
)
PORTS = {"http": 80, "https": 443}


@pytest.fixture(scope="module")
def in_node() -> Iterator[UrlsInNode]:
    with urls_in_node() as asked:
        yield asked


def read_or_none(url: str) -> Url | None:
    try:
        return read_endpoint(url, "leader")
    except ParameterError:
        return None


@given(ANY_URL)
def test_what_is_taken_is_read_alike_by_python_and_by_the_client_that_sends(url: str) -> None:
    read = read_or_none(url)
    if read is None:
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.hostname, parts.path) == (read.scheme, read.host, read.path)
    assert (parts.port or PORTS[parts.scheme]) == read.port
    assert (parts.query, parts.fragment, parts.username, parts.password) == ("", "", None, None)
    sent = httpx.URL(url)
    assert (sent.scheme, sent.raw_host.decode(), sent.path) == (
        *(read.scheme, read.host, read.path or "/"),
    )
    assert (sent.port or PORTS[sent.scheme]) == read.port
    assert sent.host


@given(ANY_URL)
def test_what_is_taken_is_read_alike_by_browsers_and_their_origins_are_ours(
    in_node: UrlsInNode, url: str
) -> None:
    read = read_or_none(url)
    if read is None:
        return
    theirs = in_node(url).read
    assert theirs is not None
    assert theirs["protocol"] == f"{read.scheme}:"
    assert theirs["hostname"].strip("[]") == read.host
    assert int(theirs["port"] or PORTS[read.scheme]) == read.port
    assert theirs["pathname"] == (read.path or "/")
    assert theirs["origin"] == read.origin


@given(ANY_URL)
def test_an_origin_ends_no_source_of_a_policy_and_is_read_as_itself(url: str) -> None:
    read = read_or_none(url)
    if read is None:
        return
    assert not {*" ;,'\"*\t\n<>&"} & {*read.origin}
    again = read_endpoint(read.origin, "leader")
    assert again == Url(read.scheme, read.host, read.port, "")


@given(ANY_URL)
def test_the_module_takes_what_aggregators_take(in_node: UrlsInNode, url: str) -> None:
    """Which names in another script there are is the browser's own matter."""
    assume("xn--" not in url.lower())
    assert (in_node(url).fault is None) == (read_or_none(url) is not None)


def test_the_module_takes_and_refuses_the_same_vectors(in_node: UrlsInNode) -> None:
    for url, origin, path in ACCEPTED:
        found = in_node(url)
        assert found.fault is None, url
        assert found.read
        assert (found.read["origin"], found.read["pathname"]) == (origin, path or "/")
    for url in REFUSED:
        fault = in_node(url).fault
        assert fault is not None, url
        assert "leader_aggregator_endpoint must be http" in fault or (
            not url and "at least 1 bytes expected" in fault
        )
