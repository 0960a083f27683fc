"""The file that says where queues go on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.queues.queue_ends import (
    CHECKPOINTS_BETWEEN,
    COMMITTED_MAX,
    LOST_MAX,
    QUEUE_ENDS_NAME,
    QueueEnd,
    QueueEnds,
    Remembered,
    decode,
    encode,
    lacks_from,
)
from tests.unit.brokers.store.log_samples import fill, open_queues

numbers = st.integers(0, 1 << 62)
some = st.builds(
    Remembered,
    numbers,
    st.dictionaries(
        st.tuples(st.text("%RETY_az09|", min_size=1), st.integers(0, 9)),
        st.builds(QueueEnd, numbers, numbers | st.just(-1)),
        max_size=5,
    ),
)


@given(some)
def test_what_was_written_is_read(remembered: Remembered) -> None:
    assert decode(encode(remembered)) == remembered


@given(some, st.data())
def test_other_bytes_are_not_believed(remembered: Remembered, data: st.DataObject) -> None:
    there = bytearray(encode(remembered))
    at = data.draw(st.integers(0, len(there) - 1))
    there[at] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(there)) is None and decode(bytes(there[:at])) is None


def test_ends_are_kept_through_lives_and_never_go_down(tmp_path: Path) -> None:
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(12))
    ends = QueueEnds(tmp_path)
    taken = ends.taken(queues, at_once=False)
    assert taken == {("T", 0): (12, 1100)} and ends.taken(queues, at_once=False) is None
    ends.write(Remembered(1200, taken))
    again, empty = QueueEnds(tmp_path), open_queues(tmp_path / "others")
    assert again.offset == 1200 and again.ends is not None
    assert [lacks_from(empty, again.ends, log_min) for log_min in (0, 1100, 1101)] == [0, 0, None]
    again.settle(empty, 1200)
    queue = empty.get("T", 0)
    assert queue is not None and (queue.max_offset, queue.min_offset(0)) == (12, 12)
    assert again.taken(empty, at_once=True) == {("T", 0): (12, -1)}


@pytest.mark.parametrize(
    ("slot", "newest", "log_end", "end"),
    [
        (2, 600, 700, 3),
        (7, 600, 700, 7),
        (7, 600, 600, 3),
        (7, 200, 700, 3),
        (4 + LOST_MAX, 600, 700, 3),
    ],
    ids=["there", "lost", "its message was cut", "told by others", "too many"],
)
def test_a_queue_with_messages_keeps_them_and_has_markers_of_lost_entries_or_a_floor(
    tmp_path: Path, slot: int, newest: int, log_end: int, end: int
) -> None:
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(3))
    ends = QueueEnds(tmp_path)
    ends.write(
        Remembered(
            0,
            {
                ("T", 0): QueueEnd(slot, newest),
                ("T", 1): QueueEnd(2, 0),
                ("../x", 0): QueueEnd(1, 0),
            },
        )
    )
    assert ends.ends is not None and lacks_from(queues, ends.ends, 0) == 0
    ends.settle(queues, log_end)
    queue = queues.get("T", 0)
    assert queue is not None and queue.max_offset == end
    assert ends.floors == ({} if end >= slot else {("T", 0): slot})
    assert queue.read(3, 4) == [(600, 0, 0)] * (end - 3)
    fill(queues, range(3, 8))
    assert [entry.physical_offset for entry in queue.read(0, 9)] == [*range(0, 800, 100)]
    ends.place(queues)
    assert ends.floors == ({} if slot <= 8 else {("T", 0): slot})


@pytest.mark.parametrize(
    ("to_offset", "end"), [(701, 8), (700, 3)], ids=["its message stays", "its message is cut"]
)
def test_a_cut_takes_no_slot_of_a_message_in_front_of_it_though_its_entry_looked_cut(
    tmp_path: Path, to_offset: int, end: int
) -> None:
    """What was remembered may have been taken behind the cut: store world, seed 918648763."""
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(3))
    ends = QueueEnds(tmp_path)
    ends.write(Remembered(1200, {("T", 0): QueueEnd(8, 700)}))
    ends.settle_cut(queues, to_offset)
    queue = queues.get("T", 0)
    assert queue is not None and queue.max_offset == end


def test_it_is_not_written_with_every_checkpoint(tmp_path: Path) -> None:
    ends, queues = QueueEnds(tmp_path), open_queues(tmp_path / "queues")
    due = [ends.taken(queues, at_once=False) is not None for _ in range(2 * CHECKPOINTS_BETWEEN)]
    assert due == 2 * [True, *[False] * (CHECKPOINTS_BETWEEN - 1)]


@pytest.mark.parametrize("there", [b"", b"queueEnds 1 00000000\n", b"another"])
def test_a_file_that_makes_no_sense_is_told(
    tmp_path: Path, there: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / QUEUE_ENDS_NAME).write_bytes(there)
    assert QueueEnds(tmp_path).ends is None and "is damaged" in caplog.text


def test_ends_that_another_replica_tells_are_a_floor_and_are_written_with_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(3))
    ends = QueueEnds(tmp_path)
    assert ends.taken(queues, at_once=False) is not None and not ends.unsaved
    ends.note(queues, {("T", 0): 2, ("T", 1): 5, ("../x", 0): 1, ("T", 2): 1 << 62})
    assert ends.unsaved and ends.without_messages(queues, 0).ends == {("T", 1): (5, -1)}
    ends.note(queues, {("T", 0): 9})
    assert ends.floors == {("T", 0): 9} and ends.without_messages(queues, 0).ends[("T", 0)] == (
        9,
        -1,
    )
    taken = ends.taken(queues, at_once=False)
    assert taken == {("T", 0): (9, 200), ("T", 1): (5, -1)}
    ends.write(Remembered(300, taken))
    assert not ends.unsaved
    ends.note(queues, {("T", 0): 9, ("T", 1): 4})
    assert not ends.unsaved


def test_what_an_emptied_log_leaves_behind_is_written_with_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    """Else a member that copied its log anew forgets with its power where queues go on."""
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(3))
    ends = QueueEnds(tmp_path)
    ends.hold(queues)
    assert ends.unsaved and ends.floors == {("T", 0): 3}
    ends.note(queues, {("T", 0): 3})
    taken = ends.taken(queues, at_once=False)
    assert taken is not None
    ends.write(Remembered(300, taken))
    ends.hold(queues)
    assert not ends.unsaved


def test_what_consumers_have_read_counts_where_the_log_has_no_message_of_a_queue(
    tmp_path: Path,
) -> None:
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(3))
    ends = QueueEnds(tmp_path)
    ends.note_committed(
        queues, {("T", 0): 77, ("T", 1): 5, ("T", 2): COMMITTED_MAX + 1, ("T", 3): 0}
    )
    assert {key: queue.max_offset for key, queue in queues} == {
        ("T", 0): 3,
        ("T", 1): 5,
    } and ends.floors == {}


def test_of_queues_with_messages_the_log_tells(tmp_path: Path) -> None:
    queues = open_queues(tmp_path / "queues")
    fill(queues, range(12))
    fill(queues, range(2), queue_id=1)
    ends = QueueEnds(tmp_path)
    assert ends.without_messages(queues, 100).ends == {}
    assert ends.without_messages(queues, 101) == (101, {("T", 1): (2, -1)})
