"""An acknowledgement leaves when its bytes are on the disk, and never before."""

from __future__ import annotations

from collections.abc import Callable

from brokers.replica.durable_acks import DurableAcks


class Disk:
    def __init__(self) -> None:
        self.asked: list[tuple[int, Callable[[bool], None]]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.acks = DurableAcks(
            lambda end, told: self.asked.append((end, told)),
            lambda link_id, data: self.sent.append((link_id, data)),
        )

    def ends(self, durable: bool) -> None:
        self.asked[-1][1](durable)


def test_a_packet_waits_for_the_disk_and_the_newest_of_those_behind_it_is_next() -> None:
    disk = Disk()
    disk.acks.send(1, b"10", 10)
    disk.acks.send(1, b"20", 20)
    disk.acks.send(1, b"30", 30)
    assert [end for end, _ in disk.asked] == [10] and disk.sent == []
    disk.ends(True)
    assert disk.sent == [(1, b"10")] and [end for end, _ in disk.asked] == [10, 30]
    disk.ends(True)
    assert disk.sent == [(1, b"10"), (1, b"30")]
    disk.acks.send(1, b"40", 40)
    disk.ends(True)
    assert disk.sent[-1] == (1, b"40")


def test_what_did_not_reach_the_disk_is_not_told_and_what_comes_later_tries_again() -> None:
    disk = Disk()
    disk.acks.send(1, b"10", 10)
    disk.ends(False)
    assert disk.sent == []
    disk.acks.send(1, b"10", 10)
    disk.ends(True)
    assert disk.sent == [(1, b"10")]
