import pytest

from aggregator.dap.urls import ALLOWED, origin, read_endpoint, read_resource
from aggregator.errors import ParameterError
from tests.support.urls import ACCEPTED, REFUSED


@pytest.mark.parametrize(("url", "its_origin", "path"), ACCEPTED)
def test_a_url_of_what_is_allowed_is_taken(url: str, its_origin: str, path: str) -> None:
    read = read_endpoint(url, "leader")
    assert (read.origin, read.path) == (its_origin, path)
    assert origin(url) == its_origin
    assert read_resource(url, "webhook") == read


@pytest.mark.parametrize("url", REFUSED)
def test_any_other_is_refused_by_the_fields_name_and_not_repeated(url: str) -> None:
    with pytest.raises(ParameterError, match=r"^leader: must ") as caught:
        read_endpoint(url, "leader")
    assert "evil" not in str(caught.value)
    assert "script" not in str(caught.value)


def test_what_is_allowed_is_said() -> None:
    with pytest.raises(ParameterError) as caught:
        read_endpoint("https://a b/", "helper")
    assert str(caught.value) == f"helper: must be {ALLOWED}"
    for url, said in (
        ("https://127.1/", "IPv4 address in full"),
        ("https://[::ffff]a/", "IPv6 address in brackets"),
        ("https://[1:2]/", "in its shortest form"),
        ("https://[::0]/", "in its shortest form"),
        ("https://xn--a/", "begins with xn--"),
    ):
        with pytest.raises(ParameterError, match=said):
            read_endpoint(url, "helper")


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/services/T0/B1?wait=1&a=b%20c/?",
        "https://hooks.example?a",
        "https://hooks.example/a%2Fb;c=d,e@f:g'()*!$+",
    ],
)
def test_one_resource_elsewhere_may_have_a_query_and_an_encoded_path(url: str) -> None:
    assert read_resource(url, "webhook").origin == "https://hooks.example"
    with pytest.raises(ParameterError, match=r"^leader: must "):
        read_endpoint(url, "leader")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://me:secret@hooks.example/",
            "https://hooks.example/#a",
            "https://hooks.example/%",
        ),
        *("https://hooks.example/%2", "https://hooks.example/a b", "https://hooks.example/é"),
        *("https://hooks.example/\\", 'https://hooks.example/"', "https://hooks.example/a?b\n"),
        *("https://0x7f.1/", "https://a;b/", "https://*.a/", "https://hooks.example:0/"),
    ],
)
def test_it_has_no_other_host_and_no_character_that_is_no_urls(url: str) -> None:
    with pytest.raises(ParameterError, match=r"^webhook: must "):
        read_resource(url, "webhook")


def test_a_long_hostile_url_is_refused_in_linear_time() -> None:
    for part in ("a.", "a-", "/a", "/.", "a:", "[", "%2e", "."):
        for end in ("", "!"):
            with pytest.raises(ParameterError):
                read_endpoint(f"https://{part * 30_000}{end};", "leader")
            with pytest.raises(ParameterError):
                read_resource(f"https://a/?{part * 30_000}{end}\n", "webhook")
