"""What the rows about brokers make of what was measured."""

from __future__ import annotations

import pytest

from brokers.remoting import codec
from tests.bench import pipelined, send_load
from tests.bench.rows import broker_send, sync_flush

OURS = send_load.Turn(1_000, 500.0, 0.5, 2.0, 9.0, 0)
JAVA = send_load.Turn(1_000, 1_000.0, 0.25, 1.0, 3.0, 7)


def sends(turn: send_load.Turn) -> broker_send.Sends:
    return broker_send.Sends([turn] * 3, [turn])


def test_sends_go_over_all_queues_and_are_numbered_one_after_the_other() -> None:
    found = codec.FrameDecoder().feed(b"".join(send_load.frames(6)))
    assert [one.ext["e"] for one in found] == ["0", "1", "2", "3", "0", "1"]
    assert [one.opaque for one in found] == [pipelined.FIRST_OPAQUE + number for number in range(6)]


def test_a_set_of_three_is_judged_by_its_master_and_as_a_whole() -> None:
    rate, core, whole, p99, paced = broker_send.figures("broker-send-3", 3, sends(OURS), sends(JAVA))
    assert (rate.value, rate.ratio) == (500.0, 0.5) and "28 sends refused" in rate.note
    assert (core.value, core.ratio, core.reached) == (2_000.0, 0.5, False)
    assert (whole.value, whole.peer_value) == (500.0, 1_000.0)
    assert p99.ratio == pytest.approx(3.0) and paced.ratio == pytest.approx(3.0)


def test_without_java_nothing_is_judged_against_it() -> None:
    found = broker_send.figures("broker-send", 1, sends(OURS), None)
    assert len(found) == 4 and all(figure.ratio is None and figure.reached is None for figure in found)


def test_warming_up_ends_when_messages_no_longer_become_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([4.0, 2.0, 1.0, 0.95, 0.2])
    monkeypatch.setattr(send_load, "turn", lambda *_: send_load.Turn(10, 1.0, 1.0, next(costs), 1.0, 0))
    assert send_load.warmed_up(None, [], None, 10) == 40  # type: ignore[arg-type]


def test_messages_per_sync_and_the_bare_fdatasync_bound_the_synchronous_flush() -> None:
    ours = [sync_flush.Flushed(OURS, 50, 2.0, 1.0)]
    java = [sync_flush.Flushed(JAVA, 500, 1.0, 0.5)]
    against_disk, _, syncs, per_sync, *_ = sync_flush.figures(ours, java, [100.0])
    assert (against_disk.peer_value, against_disk.ratio) == (2_000.0, 0.25) and "50 % of the time" in against_disk.note
    assert (syncs.value, syncs.peer_value) == (25.0, 500.0)
    assert (per_sync.value, per_sync.peer_value) == (20.0, 2.0)
