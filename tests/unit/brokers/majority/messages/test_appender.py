"""Messages into entries: their bytes, who refuses, what is remembered of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from brokers.majority.entry import HEAD_BYTES
from brokers.majority.messages.appender import OFFSET_AT
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.wire.codes import Code
from brokers.service.sending.log_writes import NotPut, into_log
from brokers.store.files.errors import DiskFull
from brokers.store.log.records import RecordError
from tests.support.message_stores import OfEntries, put
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, encoded, message


@pytest.fixture
def leader(tmp_path: Path):
    one = OfEntries(tmp_path)
    one.lead()
    yield one
    one.close(clean=True)


def test_an_entry_holds_the_message_as_rocketmq_stores_it(leader: OfEntries) -> None:
    put(leader, message(body=b"first"), now_ms=NOW_MS)
    (second,) = put(leader, message(body=b"second", tag="t"), now_ms=NOW_MS)
    entry = leader.folder.log.get(2)
    assert entry is not None
    assert second.physical_offset == entry.position + HEAD_BYTES
    assert entry.body == encoded(message(body=b"second", tag="t"), 1, second.physical_offset)
    assert int.from_bytes(entry.body[OFFSET_AT : OFFSET_AT + 8], "big") == second.physical_offset
    assert second.end_offset == entry.position + entry.size == leader.store.log_end


def test_who_does_not_lead_takes_nothing(leader: OfEntries) -> None:
    put(leader, message(), now_ms=NOW_MS)
    leader.leads = False
    before = leader.folder.log.last
    with pytest.raises(NotPut, match="NOT_LEADER") as refused:
        into_log(leader.store, [(message(),)], NOW_MS)
    assert refused.value.disk_failed is None, "no reason to leave the group"
    assert leader.folder.log.last == before
    leader.leads = True
    (again,) = put(leader, message(), now_ms=NOW_MS)
    assert again.queue_offset == 1, "the refused one took no place"


def test_a_message_as_long_as_an_entry_may_be_is_the_longest(leader: OfEntries) -> None:
    room = 4_096 - HEAD_BYTES - 8
    fixed = len(encoded(message(body=b"")))
    (fits,) = put(leader, message(body=b"x" * (room - fixed)), now_ms=NOW_MS)
    assert fits.end_offset - fits.physical_offset == room
    (refused,) = leader.store.put_many([(message(body=b"x" * (room - fixed + 1)),)], NOW_MS)
    assert isinstance(refused, RecordError)


def test_what_is_committed_while_it_is_put_is_dispatched_once(leader: OfEntries) -> None:
    """A group of one commits before the call returns."""
    propose = leader.propose

    def commits(entries: Sequence[NewEntry]) -> Code:
        code = propose(entries)
        leader.confirm()
        return code

    leader.store._appender._propose = commits  # type: ignore[attr-defined]
    for number in range(30):
        put(leader, message(body=b"%d" % number), now_ms=NOW_MS)
    assert bodies(leader.store) == [b"%d" % number for number in range(30)]
    leader.confirm()
    assert leader.store.queue_bounds("T", 0) == (0, 30)


def test_what_was_put_is_dispatched_without_reading_it_back(
    leader: OfEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(leader, *[message(body=b"%d" % n) for n in range(8)], now_ms=NOW_MS)
    leader.confirm()  # the first entry of the term was read
    put(leader, *[message(body=b"%d" % n) for n in range(8, 16)], now_ms=NOW_MS)
    monkeypatch.setattr(
        type(leader.store.entries), "walk", lambda *_, **__: pytest.fail("read from the log")
    )
    leader.confirm()
    monkeypatch.undo()
    assert len(bodies(leader.store)) == 16


def test_a_refusal_for_want_of_room_leaves_queue_offsets_as_they_were(leader: OfEntries) -> None:
    put(leader, message(), now_ms=NOW_MS)
    leader.folder.log.full = "the disk is as full as it may be"
    with pytest.raises(DiskFull):
        leader.store.put(message(), NOW_MS)
    leader.folder.log.full = None
    (again,) = put(leader, message(), now_ms=NOW_MS)
    assert again.queue_offset == 1


def test_prepared_messages_take_no_queue_offset(leader: OfEntries) -> None:
    half = message(body=b"half", sys_flag=4)
    found = put(leader, message(), half, message(), now_ms=NOW_MS)
    assert [one.queue_offset for one in found] == [0, 0, 1]
    leader.confirm()
    assert bodies(leader.store) == [b"body", b"body"]
