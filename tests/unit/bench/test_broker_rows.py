"""What the rows about brokers make of what was measured."""

from __future__ import annotations

import pytest

from brokers.remoting import codec
from tests.bench import pipelined, send_load
from tests.bench.rows import broker_send

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
