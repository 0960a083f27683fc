from __future__ import annotations

import socket

import pytest

from infra.doctor import addresses
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK
from infra.doctor.target import Place
from tests.support.brokers import free_port

COMMANDS = Commands()


def verdicts(*places: Place) -> list[str]:
    return [one.verdict for one in addresses.told(places, COMMANDS)]


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("10.0.0.1:1", False),
        ("h:1", False),
    ],
)
def test_loopback_is_known(address: str, loopback: bool) -> None:
    assert addresses.is_loopback(address) is loopback


def test_a_cluster_on_one_machine_is_fine_and_said_so() -> None:
    (one,) = addresses.told(
        [Place("c1", "127.0.0.1:1", "127.0.0.1:1"), Place("b1", "0.0.0.0:2", "127.0.0.1:2")],
        COMMANDS,
    )
    assert one.verdict == OK and "nobody outside of this machine" in one.text


def test_what_listens_on_loopback_is_not_found_where_others_are_sent() -> None:
    (one,) = addresses.told([Place("c1", "127.0.0.1:1", "10.0.0.1:1")], COMMANDS)
    assert one.verdict == FAIL and one.text == (
        "c1 tells others 10.0.0.1:1 but listens on 127.0.0.1:1 only"
    )


def test_loopback_among_real_addresses_is_a_failure() -> None:
    (one,) = addresses.told(
        [Place("c1", "0.0.0.0:1", "10.0.0.1:1"), Place("b1", "0.0.0.0:2", "127.0.0.1:2")], COMMANDS
    )
    assert (
        one.verdict == FAIL
        and ("which is each machine itself, while c1 is at 10.0.0.1:1") in one.text
    )


@pytest.mark.parametrize(
    ("one", "other", "address"),
    [
        (("127.0.0.1:1", "127.0.0.1:1"), ("127.0.0.1:1", "127.0.0.1:2"), "127.0.0.1:1"),
        (("0.0.0.0:1", "10.0.0.1:1"), ("0.0.0.0:1", "10.0.0.1:1"), "10.0.0.1:1"),
        (("0.0.0.0:1", "10.0.0.1:1"), ("0.0.0.0:1", "10.0.0.2:1"), None),
    ],
)
def test_an_address_that_two_are_given_is_a_failure(
    one: tuple[str, str], other: tuple[str, str], address: str | None
) -> None:
    found = addresses.told([Place("b1", *one), Place("b2", *other)], COMMANDS)
    wanted = [] if address is None else [f"b1 and b2 have one address, {address}"]
    assert [line.text for line in found if line.verdict == FAIL] == wanted


def test_an_address_that_nobody_can_call_is_a_failure() -> None:
    assert verdicts(Place("b1", "0.0.0.0:2", "0.0.0.0:2")) == [FAIL]


def test_addresses_of_several_machines_are_fine() -> None:
    assert verdicts(
        Place("c1", "0.0.0.0:1", "10.0.0.1:1"), Place("b1", "10.0.0.2:2", "10.0.0.2:2")
    ) == [OK]
    assert verdicts() == []


def test_who_is_reached_is_one_line_and_who_is_not_has_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        gone = f"127.0.0.1:{free_port()}"
        well, lost = addresses.reached(
            "brokers", {"a/1": here, "a/2": gone}, "Start it:", lambda who: f"start {who}"
        )
    assert (well.verdict, well.text) == (OK, "1 reached: a/1")
    assert (lost.verdict, lost.text) == (FAIL, f"a/2 at {gone}: Connection refused")
    assert lost.command == "start a/2"
    assert addresses.reached("brokers", {}, "", str) == []
