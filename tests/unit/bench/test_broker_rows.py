"""What the rows about brokers make of what was measured."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from brokers.remoting import codec
from brokers.service.clients.wanted import Filters
from brokers.store.log.properties import tags_code
from tests.bench import apart, memory, pipelined, run_context, send_load, stored_broker
from tests.bench.rows import (
    broker_send,
    copy_by_brokers,
    filtered_pulls,
    memory_growth,
    recovery,
    rto_beside_java,
    sync_flush,
)

OURS = send_load.Turn(1_000, 500.0, 0.5, 2.0, 9.0, 0)
JAVA = send_load.Turn(1_000, 1_000.0, 0.25, 1.0, 3.0, 7)


def sends(turn: send_load.Turn) -> broker_send.Sends:
    return broker_send.Sends([turn] * 3, [turn])


def test_sends_go_over_all_queues_and_are_numbered_one_after_the_other() -> None:
    found = codec.FrameDecoder().feed(b"".join(send_load.frames(6)))
    assert [one.ext["e"] for one in found] == ["0", "1", "2", "3", "0", "1"]
    assert [one.opaque for one in found] == [pipelined.FIRST_OPAQUE + number for number in range(6)]


def test_a_set_of_three_is_judged_by_its_master_and_as_a_whole() -> None:
    rate, core, whole, p99, paced, _ = broker_send.figures(
        "broker-send-3", 3, sends(OURS), sends(JAVA)
    )
    assert (rate.value, rate.ratio) == (500.0, 0.5) and "28 refused" in rate.note
    assert (core.value, core.ratio, core.reached) == (2_000.0, 0.5, False)
    assert (whole.value, whole.peer_value) == (500.0, 1_000.0)
    assert p99.ratio == pytest.approx(3.0) and paced.ratio == pytest.approx(3.0)


def test_without_java_nothing_is_judged_against_it() -> None:
    found = broker_send.figures("broker-send", 1, sends(OURS), None)
    assert len(found) == 5 and all(
        figure.ratio is None and figure.reached is None for figure in found
    )


def test_warming_up_ends_when_messages_no_longer_become_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = iter([4.0, 2.0, 1.0, 0.95, 0.2])
    monkeypatch.setattr(
        send_load, "turn", lambda *_: send_load.Turn(10, 1.0, 1.0, next(costs), 1.0, 0)
    )
    assert send_load.warmed_up(None, [], None, 10) == 40  # type: ignore[arg-type]


def test_messages_per_sync_and_the_bare_fdatasync_bound_the_synchronous_flush() -> None:
    ours = [sync_flush.Flushed(OURS, 50, 2.0, 1.0)]
    java = [sync_flush.Flushed(JAVA, 500, 1.0, 0.5)]
    against_disk, _, syncs, per_sync, *_ = sync_flush.figures(ours, java, [100.0])
    assert (against_disk.peer_value, against_disk.ratio) == (
        2_000.0,
        0.25,
    ) and "50 % of the time" in against_disk.note
    assert (syncs.value, syncs.peer_value) == (25.0, 500.0)
    assert (per_sync.value, per_sync.peer_value) == (20.0, 2.0)


def test_recovery_stands_beside_java_on_the_same_folder() -> None:
    ours = recovery.Opened(killed=[1.0, 2.0, 4.0], ended=[0.5, 0.5], writable=[3.0], empty=[0.4])
    java = recovery.Opened(killed=[4.0], ended=[2.0], writable=[6.0], empty=[2.0])
    killed, writable, ended = recovery.figures("recovery", 1, ours, java)
    assert (killed.value, killed.ratio) == (2.0, 0.5) and (
        "ours 0.40 s, Java's 2.00 s"
    ) in killed.note
    assert (writable.ratio, ended.ratio) == (0.5, 0.25)
    assert all(figure.ratio is None for figure in recovery.figures("recovery", 1, ours, None))


def test_a_copy_is_judged_from_its_first_acknowledgement_to_its_last() -> None:
    assert copy_by_brokers.rate(
        [(0.0, 0), (3.0, 0), (4.0, 100_000_000), (6.0, 500_000_000)]
    ) == pytest.approx(200.0)
    assert copy_by_brokers.rate([(0.0, 0), (2.0, 500_000_000)]) == pytest.approx(250.0)


def test_what_the_slave_acknowledged_is_read_from_the_masters_ha_status() -> None:
    body = json.dumps(
        {"masterCommitLogMaxOffset": 9, "haConnectionInfo": [{"slaveAckOffset": 7}]}
    ).encode()
    assert copy_by_brokers.progress(body) == (9, 7)
    assert copy_by_brokers.progress(b'{"masterCommitLogMaxOffset":9,"haConnectionInfo":[]}') == (
        9,
        0,
    )


def test_many_blows_are_told_by_their_median_their_95th_and_their_longest() -> None:
    ours = rto_beside_java.Struck([n / 100 for n in range(1, 31)], [5.0], "")
    java = rto_beside_java.Struck([0.5, 1.5], [20.0, 22.0], "lost 0 of 10 acknowledged")
    middle, high, longest = rto_beside_java.figures("row", "RTO", ours, java, (1.5, 0.25), "timers")
    assert (middle.value, middle.peer_value, high.value, longest.value) == (0.155, 1.0, 0.29, 0.3)
    assert middle.reached and longest.holds and "2 blows, whole again after 21.0 s" in middle.note


def watched(name: str, idle_cores: float = 0.0) -> memory_growth.Watched:
    """A set whose master needs half a core at the beginning and a quarter later."""
    looks = range(0, 100, 2)
    held = [
        memory_growth.Held(
            [(at, 100.0 if at < 30 else 200.0 + at / 3600) for at in looks],
            [(at, at / 2 if at < 30 else 15 + (at - 30) / 4) for at in looks],
            f"{name}-{number}",
            0.0,
            idle_cores if number == 2 else 0.0,
        )
        for number in (1, 2, 3)
    ]
    return memory_growth.Watched(held[0], held[1:], pipelined.Load(900, 1.0, {}))


def test_growth_and_processors_leave_out_the_beginning() -> None:
    mine, growth, cores, slave, *_ = memory_growth.figures(watched("ours"), None, 2)
    assert (mine.value, growth.value, cores.value) == (
        pytest.approx(200.0, abs=0.1),
        1.0,
        0.25,
    ) and slave.ratio is None


def test_a_broker_that_uses_a_processor_for_nothing_is_named() -> None:
    mine, *others = memory_growth.figures(watched("ours"), watched("java", 0.97), 2)
    assert "java-2 0.25 (0.97)" in mine.note and mine.note.count("with nothing to do") == 1
    assert (
        "java-2 used 0.97 cores with nothing to do"
    ) in mine.note and "under 900 messages/s" in mine.note
    assert [figure.ratio for figure in (mine, *others)] == [1.0] * 6


def test_what_does_not_end_in_time_is_not_waited_for() -> None:
    with (
        apart.running(time.sleep, 600) as result,
        pytest.raises(apart.ChildFailed, match="within 0 s"),
    ):
        result(0.1)
    with (
        apart.running(int, "no number") as result,
        pytest.raises(apart.ChildFailed, match="ValueError"),
    ):
        result(60)


def test_memory_of_a_process_is_its_own_and_what_it_maps() -> None:
    found = memory.parse("Name:\tx\nVmRSS:\t    4096 kB\nRssAnon:\t    1024 kB\n")
    assert (found.own, found.all) == (1.0, 4.0)
    with pytest.raises(ValueError, match="RssAnon"):
        memory.parse("VmRSS:\t1 kB")
    with pytest.raises(ValueError, match="two moments"):
        memory.slope_per_hour([(1.0, 5.0)])


def test_a_store_is_filled_as_a_kill_leaves_it(tmp_path: Path) -> None:
    end = stored_broker.fill(tmp_path, 1 << 20, 1 << 24)
    assert end >= 1 << 20 and (tmp_path / "abort").exists()


def test_fewer_blows_when_time_presses_but_never_fewer_than_two() -> None:
    assert [run_context.Bench(Path(), share=share).times(30) for share in (1.0, 0.3, 0.01)] == [
        30,
        9,
        2,
    ]


def test_the_slower_of_two_copies_is_shown() -> None:
    turns = [
        copy_by_brokers.Copied(300.0, 10.0, 1.0, 2.0, 60.0),
        copy_by_brokers.Copied(200.0, 20.0, 1.0, 2.0, 60.0),
    ]
    copied, beside, *_ = copy_by_brokers.figures(
        turns, copy_by_brokers.Copied(100.0, 40.0, 9.0, 9.0, 600.0), [380.0, 420.0]
    )
    assert (copied.value, copied.ratio, copied.samples) == (
        200.0,
        0.5,
        [300.0, 200.0],
    ) and beside.ratio == 2.0


@pytest.mark.parametrize("wanted", filtered_pulls.WANTED)
def test_both_filters_want_the_same_messages(wanted: int) -> None:
    ways, filters = filtered_pulls.expressions(wanted), Filters()
    found: dict[str, list[int]] = {}
    for way, (kind, text) in ways.items():
        one = filters.asked("bench", text, kind)
        found[way] = []
        for number in range(64):
            stored = filtered_pulls._stored(number).properties
            if one.filter is None:
                taken = one.codes is None or tags_code(stored, "bench", 0) in one.codes
            else:
                taken = one.filter.matches(stored)
            found[way] += [number] * taken
    assert found["SQL92"] == found["tags"] and len(found["tags"]) == wanted * 8
    assert len(found["none"]) == 64


def test_filtered_pulls_lie_all_over_the_queue_and_find_a_full_answer() -> None:
    requests = codec.FrameDecoder().feed(b"".join(filtered_pulls.frames(4, "SQL92", "a > 5", 600)))
    places = [int(one.ext["queueOffset"]) for one in requests]
    assert places[:3] == [0, 64, 128] and max(places) == filtered_pulls.MESSAGES - 64
    assert [one.opaque for one in requests[:2]] == [
        pipelined.FIRST_OPAQUE,
        pipelined.FIRST_OPAQUE + 1,
    ]


def test_sql92_is_judged_against_tags_only() -> None:
    turns = {
        way: filtered_pulls.Turns([rate] * 3, [rate] * 3)
        for way, rate in (("SQL92", 40.0), ("tags", 100.0), ("none", 200.0))
    }
    beside_tags, beside_none = filtered_pulls.figures("all", turns)
    assert (beside_tags.ratio, beside_tags.reached) == (0.4, True)
    assert (beside_none.ratio, beside_none.reached) == (0.2, None)
