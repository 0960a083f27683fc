"""Who speaks from the host of a known address, whether that is a name or a number."""

from __future__ import annotations

import asyncio

import pytest

from brokers.remoting.known_hosts import NAMES_MAX, KnownHosts


@pytest.mark.parametrize(
    ("peer", "held"),
    [
        ("10.0.0.1:40000", True),
        ("[::ffff:10.0.0.1]:40000", True),
        ("::ffff:10.0.0.1:40000", True),
        ("10.0.0.11:10911", False),
        ("[fd00::1]:40000", True),
        ("fd00::1:40000", True),
        ("", False),
        ("nothing", False),
        (":1", False),
    ],
)
def test_the_host_counts_and_not_the_port(peer: str, held: bool) -> None:
    assert KnownHosts(lambda: ["10.0.0.1:10911", "", "[fd00::1]:10911"]).holds(peer) is held


async def test_a_name_stands_for_the_numbers_it_has_now() -> None:
    addresses = ["localhost:9878", "no-such-host.invalid:1"]
    hosts = KnownHosts(lambda: addresses)
    assert not hosts.holds("127.0.0.1:40000")
    await hosts.look_up()
    assert hosts.holds("127.0.0.1:40000") and not hosts.holds("127.0.0.2:40000")
    addresses.clear()
    await hosts.look_up()
    assert not hosts.holds("127.0.0.1:40000")


async def test_numbers_of_an_address() -> None:
    hosts = KnownHosts(lambda: ["localhost:9878"])
    assert hosts.numbers_of("10.0.0.1:1") == {"10.0.0.1"}
    assert hosts.numbers_of("[fd00::1]:1") == {"fd00::1"}
    assert not hosts.numbers_of("localhost:9878"), "it was not looked up yet"
    await hosts.look_up()
    assert "127.0.0.1" in hosts.numbers_of("localhost:1")


async def test_a_name_that_moves_is_found_again_and_one_that_is_unknown_for_a_moment_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[str | None] = ["10.0.0.1", None, "10.0.0.2"]

    async def answer(*_: object, **__: object) -> list[tuple[object, ...]]:
        number = answers.pop(0)
        if number is None:
            raise OSError("no name server answers")
        return [(0, 0, 0, "", (number, 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer)
    hosts, seen = KnownHosts(lambda: ["b:1"]), []
    for _ in range(3):
        await hosts.look_up()
        seen.append([number for number in ("10.0.0.1", "10.0.0.2") if hosts.holds(f"{number}:9")])
    assert seen == [["10.0.0.1"], ["10.0.0.1"], ["10.0.0.2"]]


async def test_no_more_names_are_looked_up_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def answer(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(name)
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer)
    await KnownHosts(lambda: [f"b{number}:1" for number in range(NAMES_MAX + 50)]).look_up()
    assert len(asked) == NAMES_MAX
