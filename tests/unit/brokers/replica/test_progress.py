"""Slaves that keep up and fall behind, told once per change."""

from __future__ import annotations

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import SlaveAck, SlaveHandshake
from brokers.ha.log_sender import LinkLimits, LogView
from brokers.ha.master_link import MasterLink
from brokers.replica.progress import Progress


def linked(acked: int | None) -> MasterLink:
    log = LogView(EpochHistory.of((1, 0)), 0, 100, 0)
    link = MasterLink(LinkLimits(1000), own_id=1, now_ms=0)
    link.receive_data(SlaveHandshake(2).encode(), log, now_ms=0)
    if acked is not None:
        link.receive_data(SlaveAck(acked).encode(), log, now_ms=0)
    return link


def test_a_slave_is_told_of_when_it_caught_up_and_when_it_fell_behind() -> None:
    progress, link = Progress(1000), linked(100)
    (event,) = progress.watch(link, 100, 0)
    assert (event.kind, event.fields) == ("SlaveCaughtUp", {"slave_broker_id": 2, "offset": 100})
    assert progress.watch(link, 100, 0) == []
    link.log_grew(150, now_ms=10)
    assert progress.watch(link, 150, 1000) == []
    (event,) = progress.watch(link, 150, 1011)
    assert (event.kind, event.fields) == (
        "SlaveFellBehind",
        {"slave_broker_id": 2, "lag_bytes": 50},
    )
    assert progress.watch(link, 150, 5000) == []


def test_a_new_link_has_to_catch_up_again() -> None:
    progress, link = Progress(1000), linked(100)
    assert progress.watch(link, 100, 0)
    progress.link_ended(2)
    assert progress.watch(link, 100, 0)


def test_nothing_is_told_of_a_slave_that_has_not_spoken_yet() -> None:
    assert Progress(1000).watch(linked(None), 100, 5000) == []
