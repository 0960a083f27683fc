"""What other controllers told about themselves."""

import pytest

from processors.controller.peer_reports import (
    HEARD_MS,
    PeerReports,
    leader_as_seen,
    networks_of,
    networks_text,
    reachable,
)

EXT = {
    "release": "0.4",
    "rules": "1,2",
    "able": "true",
    "active": "false",
    "appliedOffset": "77",
    "networks": "10.0.0.0/8=10.1.1.1:9878;fd00::/8=[fd00::1]:9878",
    "httpAddress": "c2:9879",
}


def test_the_newest_word_of_a_configured_peer_counts_until_it_is_old() -> None:
    book = PeerReports(["c2"])
    book.note("c2", EXT, now_ms=100)
    word = book.report("c2", 100 + HEARD_MS)
    assert word is not None and (word.release, word.rules, word.able, word.active) == (
        "0.4",
        (1, 2),
        True,
        False,
    )
    assert (word.applied_offset, word.http_address) == (77, "c2:9879")
    assert word.networks == (("10.0.0.0/8", "10.1.1.1:9878"), ("fd00::/8", "[fd00::1]:9878"))
    assert book.report("c2", 101 + HEARD_MS) is None and book.last_report("c2") == word


def test_a_stranger_is_not_written_down() -> None:
    book = PeerReports(["c2"])
    book.note("c9", EXT, 0)
    assert book.last_report("c9") is None


def test_a_peer_of_an_older_release_says_less() -> None:
    book = PeerReports(["c2"])
    book.note("c2", {}, 0)
    word = book.report("c2", 0)
    assert word is not None and (word.rules, word.applied_offset, word.networks) == ((), -1, ())


def test_hostile_texts_are_left_out() -> None:
    book = PeerReports(["c2"])
    book.note(
        "c2", {"rules": "1,x,-3," + "9" * 30, "networks": "a;=;b=;c=d:1", "appliedOffset": "nan"}, 0
    )
    word = book.report("c2", 0)
    assert word is not None and (word.rules, word.networks, word.applied_offset) == (
        (1,),
        (("c", "d:1"),),
        -1,
    )


def test_networks_are_told_as_they_are_read() -> None:
    assert networks_of(networks_text({"10.0.0.0/8": "h:1", "fd00::/8": "[fd00::1]:2"})) == (
        ("10.0.0.0/8", "h:1"),
        ("fd00::/8", "[fd00::1]:2"),
    )


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
