"""What every broker's log gives the code above it, whichever kind it is: one of records, as in an
in-sync set, or one of entries, as in a majority group (`brokers.store.log.message_log`).

Each behaviour is shown by stores over both, in memory and on real files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.store.files.errors import DiskFull
from brokers.store.log import commit_log
from brokers.store.log.records import RecordError, decode_messages
from brokers.store.queue_follower import QueueFollower
from brokers.store.queue_offsets import QueueOffsets
from brokers.store.queue_reads import QueueReads
from brokers.store.queues.dispatch import PIECE_BYTES_MIN
from brokers.store.queues.query import GetStatus
from brokers.store.trimming import trim
from tests.support.message_stores import KINDS, LOG_FILE_BYTES, OfEntries, Replica, put
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, message

PLACES = {"memory": Path("/dev/shm"), "files": Path("/var/tmp")}
Make = Callable[..., Replica]


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=PLACES[request.param]) as folder:
        yield Path(folder)


@pytest.fixture(params=list(KINDS))
def make(request: pytest.FixtureRequest, place: Path) -> Iterator[Make]:
    """Opens the replica of a name, again if it was closed."""
    open_ones: list[Replica] = []

    def opened(name: str = "n0", same_boot: bool = True) -> Replica:
        (place / name).mkdir(exist_ok=True)
        one = KINDS[request.param](place / name, same_boot)
        open_ones.append(one)
        return one

    yield opened
    for one in open_ones:
        if one.store._lock.is_held:
            one.close(clean=False)


@pytest.fixture
def leader(make: Make) -> Replica:
    one = make()
    one.lead()
    return one


def numbered(count: int, queues: int = 1, size: int = 0):
    return [message(queue_id=n % queues, body=b"%d." % n + b"x" * size) for n in range(count)]


# -- places ----------------------------------------------------------------------------------------


def test_a_message_says_where_it_lies(leader: Replica) -> None:
    found = put(leader, *numbered(120), now_ms=NOW_MS)
    assert len({one.physical_offset // LOG_FILE_BYTES for one in found}) > 2, "several files"
    for slot, one in enumerate(found):
        size = one.end_offset - one.physical_offset
        (stored,) = decode_messages(leader.store.read_log(one.physical_offset, size))
        assert (stored.physical_offset, stored.queue_offset) == (one.physical_offset, slot)
        assert stored.fields.body == b"%d." % slot
        assert f"{one.physical_offset:016X}" in one.msg_id
    assert found == sorted(found) and found[-1].end_offset == leader.store.log_end


def test_a_batch_has_one_place_each_and_all_or_none(leader: Replica) -> None:
    group = numbered(5, queues=2)
    too_long = [message(body=b"x"), message(body=b"x" * LOG_FILE_BYTES)]
    first, refused, second = leader.store.put_many([group, too_long, group], NOW_MS)
    assert isinstance(refused, RecordError)
    assert not isinstance(first, RecordError) and not isinstance(second, RecordError)
    assert (first.queue_offset, second.queue_offset) == (0, 3)
    ids = first.msg_id.split(",")
    assert len(ids) == 5
    leader.confirm()
    assert bodies(leader.store, 0) == [b"0.", b"2.", b"4."] * 2
    assert bodies(leader.store, 1) == [b"1.", b"3."] * 2


def test_nothing_to_put_is_an_illegal_message(leader: Replica) -> None:
    before = leader.store.log_end
    (refused,) = leader.store.put_many([()], NOW_MS)
    assert isinstance(refused, RecordError) and leader.store.log_end == before


# -- confirmed -------------------------------------------------------------------------------------


def test_only_what_is_confirmed_can_be_read(leader: Replica) -> None:
    found = put(leader, *numbered(10), now_ms=NOW_MS)
    assert leader.store.queue_bounds("T", 0) == (0, 0)
    assert leader.store.query("T", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    leader.confirm(found[6].end_offset)
    assert bodies(leader.store) == [b"%d." % n for n in range(7)]
    assert leader.store.confirm_offset == found[6].end_offset < leader.store.log_end
    leader.confirm()
    assert len(bodies(leader.store)) == 10
    assert leader.store.confirm_offset == leader.store.dispatched_offset == leader.store.log_end


def test_confirmed_never_goes_back_and_never_passes_the_end(leader: Replica) -> None:
    put(leader, *numbered(4), now_ms=NOW_MS)
    leader.confirm()
    end = leader.store.log_end
    leader.store.note_confirmed(end + 1_000)
    assert leader.store.confirm_offset == end
    leader.store.dispatch_to(0)
    assert leader.store.confirm_offset == end and len(bodies(leader.store)) == 4


def test_keys_are_found_of_what_is_confirmed(leader: Replica) -> None:
    fields = message(body=b"keyed")
    keyed = type(fields)(
        "T", 0, b"keyed", b"KEYS\x01order-7\x02", NOW_MS, fields.born_host, fields.store_host
    )
    (result,) = put(leader, keyed, now_ms=NOW_MS)
    index = leader.store.index
    assert index is not None
    assert list(index.find("T", "order-7", NOW_MS - 10, NOW_MS + 10)) == []
    leader.confirm()
    index.settle()
    found = list(index.find("T", "order-7", NOW_MS - 10, NOW_MS + 10))
    assert found == [result.physical_offset]


def test_messages_are_found_by_their_time(leader: Replica) -> None:
    for number in range(30):
        put(leader, message(body=b"%d" % number), now_ms=NOW_MS + number)
    leader.confirm()
    reads: QueueReads = leader.store
    assert reads.offset_by_time("T", 0, NOW_MS + 12) == 12
    assert reads.message_store_ms("T", 0, 29) == NOW_MS + 29
    assert reads.first_store_ms() == reads.earliest_store_ms("T", 0) == NOW_MS


async def test_a_long_way_is_gone_in_pieces_and_nothing_is_missing(
    make: Make, leader: Replica
) -> None:
    count = 0
    while leader.store.log_end < 3 * PIECE_BYTES_MIN:
        put(leader, *numbered(40, queues=3, size=900), now_ms=NOW_MS)
        count += 40
    other = make("n1")
    other.follow(leader)
    grown: list[object] = []
    follower = QueueFollower(other.store, grown.extend)
    if isinstance(other, OfEntries):
        other.folder.log.commit(other.folder.log.last.index)
    follower.confirmed(other.store.log_end)
    follower.catch_up()
    follower.close()
    leader.confirm()
    ends = [other.store.queue_bounds("T", queue)[1] for queue in range(3)]
    assert sum(ends) == count and grown
    for queue in range(3):
        assert bodies(other.store, queue) == bodies(leader.store, queue)


# -- cuts ------------------------------------------------------------------------------------------


def test_what_is_cut_was_never_in_a_queue_and_its_place_is_used_again(leader: Replica) -> None:
    put(leader, *numbered(20), now_ms=NOW_MS)
    leader.confirm()
    border = leader.store.log_end
    lost = put(leader, *[message(body=b"lost")] * 30, now_ms=NOW_MS)
    leader.cut_unconfirmed()
    assert leader.store.log_end == border
    leader.lead()
    found = put(leader, *[message(body=b"kept", tag="t")] * 30, now_ms=NOW_MS)
    assert [one.queue_offset for one in found] == [one.queue_offset for one in lost]
    leader.confirm()
    assert bodies(leader.store) == [b"%d." % n for n in range(20)] + [b"kept"] * 30


def test_what_comes_of_another_leader_in_the_place_of_a_cut_is_shown_as_it_is(
    make: Make, leader: Replica
) -> None:
    """What was remembered to be dispatched is not what lies there any more."""
    put(leader, *numbered(5), now_ms=NOW_MS)
    leader.confirm()
    other = make("n1")
    other.follow(leader)
    put(leader, *[message(queue_id=1, body=b"mine")] * 8, now_ms=NOW_MS)
    other.lead()
    put(other, *[message(queue_id=2, body=b"his")] * 8, now_ms=NOW_MS)
    leader.cut_unconfirmed()
    leader.follow(other)
    leader.confirm()
    other.confirm()
    assert bodies(leader.store, 0) == bodies(other.store, 0) == [b"%d." % n for n in range(5)]
    assert bodies(leader.store, 2) == bodies(other.store, 2) == [b"his"] * 8
    assert leader.store.queue_bounds("T", 1) == (0, 0)


# -- roles -----------------------------------------------------------------------------------------


def test_who_followed_leads_on_where_each_queue_ends(make: Make, leader: Replica) -> None:
    found = put(leader, *numbered(60, queues=4), now_ms=NOW_MS)
    other = make("n1")
    other.follow(leader)
    other.confirm(found[30].end_offset)
    other.lead()
    (result,) = put(other, message(queue_id=1, body=b"next"), now_ms=NOW_MS)
    assert result.queue_offset == 15, "behind those that are not dispatched yet"
    offsets: QueueOffsets = other.store._appender  # type: ignore[assignment]
    assert offsets.waiting_from(("T", 1)) is not None
    other.confirm()
    assert bodies(other.store, 1) == [b"%d." % n for n in range(1, 60, 4)] + [b"next"]


def test_a_replica_far_behind_begins_where_the_leader_does(make: Make, leader: Replica) -> None:
    put(leader, *numbered(6), now_ms=NOW_MS)
    other = make("n1")
    other.follow(leader)
    other.confirm()
    put(leader, *numbered(120)[6:], now_ms=NOW_MS)
    leader.confirm()
    trim(leader.store.log, leader.store.queues, 2 * LOG_FILE_BYTES, 1 << 40)()
    first = leader.store.queue_bounds("T", 0)[0]
    assert first > 6
    other.begin_anew(leader)
    other.confirm()
    assert other.store.queue_bounds("T", 0) == (first, 120)
    assert bodies(other.store) == bodies(leader.store)
    assert other.store.log_min == leader.store.log_min


# -- retention, a full disk ------------------------------------------------------------------------


@pytest.mark.parametrize("below", [1, LOG_FILE_BYTES, 2 * LOG_FILE_BYTES + 1, 1 << 40])
def test_old_files_go_whole_and_as_far_as_is_confirmed(leader: Replica, below: int) -> None:
    found = put(leader, *numbered(120), now_ms=NOW_MS)
    leader.confirm(found[80].end_offset)
    trim(leader.store.log, leader.store.queues, below, leader.store.dispatched_offset)()
    confirmed = leader.store.confirm_offset
    assert leader.store.log_min == min(below, confirmed) // LOG_FILE_BYTES * LOG_FILE_BYTES
    assert leader.store.log.file_starts[0] == leader.store.log_min
    first = leader.store.queue_bounds("T", 0)[0]
    expected = next(n for n, one in enumerate(found) if one.physical_offset >= leader.store.log_min)
    assert first == expected
    assert bodies(leader.store) == [b"%d." % n for n in range(first, 81)]
    if first:
        assert leader.store.query("T", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
    leader.confirm()
    assert len(bodies(leader.store)) == 120 - first
    assert leader.store.log.store_ms_at(leader.store.log_min) == NOW_MS


def test_without_room_nothing_of_a_put_is_stored_and_the_log_goes_on(
    leader: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(leader, *numbered(3), now_ms=NOW_MS)
    before = leader.store.log_end

    def no_room(path: Path, size: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commit_log, "new_file", no_room)
    with pytest.raises(DiskFull):
        put(leader, *numbered(100), now_ms=NOW_MS)
    assert leader.store.log_end == before and leader.store.writable() is not None
    monkeypatch.undo()
    leader.store.log.ask_for_room()
    assert leader.store.writable() is None
    monkeypatch.setattr(commit_log, "FULL_RETRY_S", 0)
    (result,) = put(leader, message(body=b"3."), now_ms=NOW_MS)
    assert result.queue_offset == 3
    leader.confirm()
    assert bodies(leader.store) == [b"%d." % n for n in range(4)]


# -- starts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("same_boot", [True, False], ids=["same boot", "another boot"])
def test_a_start_finds_what_was_confirmed(make: Make, clean: bool, same_boot: bool) -> None:
    one = make()
    one.lead()
    found = put(one, *numbered(70, queues=2), now_ms=NOW_MS)
    one.confirm(found[49].end_offset)
    one.store.checkpoint()
    one.confirm(found[59].end_offset)
    one.close(clean=clean)
    again = make(same_boot=same_boot)
    assert again.store.confirm_offset >= found[49].end_offset
    known = sum(len(bodies(again.store, queue)) for queue in range(2))
    assert 50 <= known <= 60, "nothing that was not confirmed"
    again.lead()
    put(again, message(body=b"70."), now_ms=NOW_MS)
    again.confirm()
    for queue in range(2):
        assert bodies(again.store, queue) == [b"%d." % n for n in range(queue, 70 + 1 - queue, 2)]
    assert again.store.log_min == 0


def test_a_start_makes_queues_again_that_are_gone(make: Make) -> None:
    one = make()
    one.lead()
    put(one, *numbered(90, queues=3), now_ms=NOW_MS)
    one.confirm()
    one.close(clean=True)
    for queue in sorted((one.root / "consumequeue/T").iterdir())[1:]:  # type: ignore[attr-defined]
        for file in queue.iterdir():
            file.unlink()
        queue.rmdir()
    again = make()
    for queue in range(3):
        assert bodies(again.store, queue) == [b"%d." % n for n in range(queue, 90, 3)]
