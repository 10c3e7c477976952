"""Who shares the slots of connections with whom."""

import pytest

from aggregator.service.web.addresses import forwarded_for, is_trusted_proxy, sharing


def test_ipv4_clients_of_a_listener_for_both_do_not_share_one_network() -> None:
    assert sharing("::ffff:192.0.2.1") == sharing("192.0.2.1") == "192.0.2.1"
    assert sharing("::ffff:192.0.2.1") != sharing("::ffff:192.0.2.2")


@pytest.mark.parametrize(
    ("said", "whose"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:1234", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("[2001:db8::1]", "2001:db8::/64"),
        ("[2001:db8::1]:1234", "2001:db8::/64"),
        ("203.0.113.9, 192.0.2.1:1234", "192.0.2.1"),
        ("unknown", "unknown"),
    ],
)
def test_a_port_that_a_proxy_adds_gives_nobody_slots_of_its_own(said: str, whose: str) -> None:
    assert forwarded_for([(b"x-forwarded-for", said.encode())]) == whose


@pytest.mark.parametrize(
    ("allowed", "trusted", "others"),
    [
        ("127.0.0.1,::1", ["127.0.0.1", "::ffff:127.0.0.1", "::1", "0::1"], ["127.0.0.2", ""]),
        ("::ffff:192.0.2.1", ["192.0.2.1", "::ffff:192.0.2.1"], ["192.0.2.2", "::1"]),
        ("10.0.0.0/8, 2001:db8::/32", ["10.9.9.9", "::ffff:10.1.1.1", "2001:db8::7"], ["11.0.0.1"]),
        ("::ffff:10.0.0.0/104", ["10.9.9.9", "::ffff:10.1.1.1"], ["11.0.0.1", "::ffff:11.0.0.1"]),
        ("10.1.2.3/8", ["10.9.9.9"], ["11.0.0.1"]),
        ("::/0", ["2001:db8::7"], ["10.0.0.1", "::ffff:10.0.0.1"]),
        ("proxy.sock", ["proxy.sock"], ["", "other.sock", "10.0.0.1"]),
        ("", [], ["", "127.0.0.1"]),
        ("*", ["", "10.0.0.1", "proxy.sock"], []),
    ],
)
def test_proxies_are_named_by_address_network_or_name(
    allowed: str, trusted: list[str], others: list[str]
) -> None:
    for form in (allowed, allowed.split(",")):
        assert all(is_trusted_proxy(peer, form) for peer in trusted)
        assert not any(is_trusted_proxy(peer, form) for peer in others)
