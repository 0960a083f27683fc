"""Whose word counts about where a master takes HA links."""

from __future__ import annotations

from brokers.replica.ha_address import HaAddress, HaAddressSource


def test_the_controllers_word_counts_at_once_and_for_ever() -> None:
    one = HaAddress("m:1")
    assert one.at(0) == "m:1" and one.is_certain
    assert not one.tell("m:2", HaAddressSource.MASTER) and one.at(0) == "m:1"
    assert one.tell("m:3", HaAddressSource.CONTROLLER) and one.at(0) == "m:3"


def test_the_guess_waits_for_those_who_know() -> None:
    one = HaAddress(None, "m:1", 3000)
    assert one.at(2999) is None and one.at(3000) == "m:1" and not one.is_certain


def test_a_name_server_is_overruled_by_the_master_itself() -> None:
    one = HaAddress(None, "m:1", 0)
    assert one.tell("m:2", HaAddressSource.NAME_SERVER) and one.at(0) == "m:2"
    assert one.tell("m:3", HaAddressSource.MASTER) and one.at(0) == "m:3"
    assert not one.tell("m:2", HaAddressSource.NAME_SERVER) and one.at(0) == "m:3"
    assert not one.tell("m:3", HaAddressSource.MASTER)


def test_a_master_that_moved_starts_anew() -> None:
    one = HaAddress("m:1")
    one.guess_again("n:1", 100)
    assert one.at(99) is None and one.at(100) == "n:1" and not one.is_certain
    assert one.tell("n:2", HaAddressSource.NAME_SERVER) and one.at(0) == "n:2"
