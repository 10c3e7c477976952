"""Who shares the slots of connections with whom."""

from aggregator.service.web.addresses import sharing


def test_ipv4_clients_of_a_listener_for_both_do_not_share_one_network() -> None:
    assert sharing("::ffff:192.0.2.1") == sharing("192.0.2.1") == "192.0.2.1"
    assert sharing("::ffff:192.0.2.1") != sharing("::ffff:192.0.2.2")
