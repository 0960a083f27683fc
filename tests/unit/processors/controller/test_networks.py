"""Addresses by the network a question came from."""

import pytest

from processors.controller.networks import leader_as_seen, reachable

NETWORKS = {
    "10.0.0.0/8": "10.0.0.1:9878",
    "10.9.0.0/16": "10.9.0.1:9878",
    "fd00::/8": "[fd00::1]:9878",
}


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("10.1.2.3:5000", "10.0.0.1:9878"),
        ("10.9.2.3:5000", "10.9.0.1:9878"),
        ("fd00::7:5000", None),
        ("[fd00::7]:5000", "[fd00::1]:9878"),
        ("::ffff:10.1.2.3:5000", "10.0.0.1:9878"),
        ("192.168.0.1:5000", None),
        ("c1:1", None),
        ("", None),
    ],
)
def test_the_longest_network_that_holds_the_asker_counts(peer: str, address: str | None) -> None:
    found = reachable(NETWORKS, peer)
    assert found == (address if peer != "fd00::7:5000" else "[fd00::1]:9878")


def test_a_network_that_cannot_be_read_is_passed_over() -> None:
    assert reachable([("nonsense", "x:1"), ("10.0.0.0/8", "y:1")], "10.0.0.1:1") == "y:1"


def test_whom_a_standby_names() -> None:
    inside, outside = "10.1.1.1:1", "172.16.0.1:1"
    leaders = [("10.0.0.0/8", "10.0.0.2:9878")]
    assert (
        leader_as_seen(inside, default="pub2:1", own=NETWORKS, leaders=leaders) == "10.0.0.2:9878"
    )
    assert leader_as_seen(inside, default="pub2:1", own=NETWORKS, leaders=()) == "10.0.0.1:9878", (
        "itself: it forwards"
    )
    assert leader_as_seen(outside, default="pub2:1", own=NETWORKS, leaders=()) == "pub2:1"
    assert (
        leader_as_seen(inside, default="pub1:1", own=NETWORKS, leaders=None) == "10.0.0.1:9878"
    ), "the leader itself"
    assert leader_as_seen(inside, default="pub2:1", own={}, leaders=()) == "pub2:1"
