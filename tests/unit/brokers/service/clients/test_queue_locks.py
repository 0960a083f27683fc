"""Locks for orderly consumers."""

import pytest

from brokers.service.clients import queue_locks
from brokers.service.clients.queue_locks import (
    BELIEVED_MS,
    EXPIRE_EVERY_MS,
    LOCK_EXPIRES_MS,
    LOCKS_PER_CONNECTION_MAX,
    LOCKS_PER_GROUP_MAX,
    QueueLocks,
)

QUEUE, OTHER = ("b", "T", 0), ("b", "T", 1)


def test_a_held_queue_is_refused_to_others_until_it_expires() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "a", [QUEUE], 0) == [QUEUE]
    assert locks.lock("g", "b", [QUEUE, OTHER], 10) == [OTHER]
    assert locks.lock("g", "b", [QUEUE], LOCK_EXPIRES_MS) == []
    assert locks.lock("g", "b", [QUEUE], LOCK_EXPIRES_MS + 1) == [QUEUE]


def test_the_holder_renews_and_another_group_has_its_own_locks() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [QUEUE], 0)
    assert locks.lock("g", "a", [QUEUE], 50_000) == [QUEUE] and locks.lock(
        "h", "b", [QUEUE], 50_000
    ) == [QUEUE]
    assert locks.lock("g", "b", [QUEUE], LOCK_EXPIRES_MS + 1) == []


def test_only_the_holder_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [QUEUE], 0)
    locks.unlock("g", "b", [QUEUE])
    assert locks.lock("g", "b", [QUEUE], 1) == []
    locks.unlock("g", "a", [QUEUE, OTHER])
    assert locks.lock("g", "b", [QUEUE], 1) == [QUEUE]


def queues(first: int, count: int) -> list[tuple[str, str, int]]:
    return [("b", "T", number) for number in range(first, first + count)]


def test_one_group_takes_no_more_than_its_share_and_others_get_theirs() -> None:
    locks = QueueLocks()
    assert (
        len(locks.lock("hog", "a", queues(0, LOCKS_PER_GROUP_MAX + 100), 0, 1))
        == LOCKS_PER_GROUP_MAX
    )
    assert locks.lock("hog", "b", [OTHER], 1, 2) == [] and locks.lock("g", "b", [OTHER], 1, 2) == [
        OTHER
    ]
    locks.unlock("hog", "a", [QUEUE])
    assert locks.lock("hog", "a", queues(LOCKS_PER_GROUP_MAX, 2), 2, 1) == queues(
        LOCKS_PER_GROUP_MAX, 1
    )


def test_one_connection_takes_no_more_than_its_share_whatever_groups_it_names() -> None:
    locks, taken, groups = QueueLocks(), 0, 4 * LOCKS_PER_CONNECTION_MAX // LOCKS_PER_GROUP_MAX
    for number in range(groups):
        taken += len(locks.lock(f"g{number}", "a", queues(0, LOCKS_PER_GROUP_MAX // 2), 0, 1))
    assert taken == LOCKS_PER_CONNECTION_MAX
    assert locks.lock(f"g{groups - 1}", "b", [OTHER], 0, 2) == [OTHER]


def test_locks_that_are_over_make_room_and_are_looked_for_once_in_a_while_only() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", queues(0, LOCKS_PER_GROUP_MAX), 0)
    assert locks.lock("g", "b", queues(LOCKS_PER_GROUP_MAX, 1), LOCK_EXPIRES_MS) == []
    assert locks.lock("g", "b", queues(LOCKS_PER_GROUP_MAX, 1), LOCK_EXPIRES_MS + 1) == []
    after = LOCK_EXPIRES_MS + EXPIRE_EVERY_MS
    assert locks.lock("g", "b", queues(LOCKS_PER_GROUP_MAX, LOCKS_PER_GROUP_MAX), after) == queues(
        LOCKS_PER_GROUP_MAX, LOCKS_PER_GROUP_MAX
    )


def test_a_new_master_keeps_what_others_gave_as_long_as_their_holders_believe_in_it() -> None:
    locks = QueueLocks()
    locks.become({"g": {"a": [QUEUE]}}, 0)
    # when: it leads, however long ago its copy was made
    now_ms = 10 * LOCK_EXPIRES_MS
    locks.lead(now_ms)
    # then: who held the queue renews it, another one waits for what a client believes
    assert locks.lock("g", "b", [QUEUE, OTHER], now_ms + BELIEVED_MS) == [OTHER]
    assert locks.holds_any("g", now_ms)
    assert locks.lock("g", "a", [QUEUE], now_ms + BELIEVED_MS) == [QUEUE]
    assert locks.lock("g", "b", [QUEUE], now_ms + BELIEVED_MS + LOCK_EXPIRES_MS) == []


def test_what_nobody_renews_at_the_new_master_is_free_when_nobody_can_believe_in_it() -> None:
    locks = QueueLocks()
    locks.become({"g": {"a": [QUEUE]}}, 0)
    locks.lead(1_000)
    assert locks.lock("g", "b", [QUEUE], 1_001 + BELIEVED_MS) == [QUEUE]


@pytest.mark.parametrize(
    ("renewed_ms", "free_ms"),
    [
        pytest.param(100_000, 100_000 + BELIEVED_MS, id="just before: as long as is believed"),
        pytest.param(60_000, 60_000 + LOCK_EXPIRES_MS, id="long ago: as it would have expired"),
    ],
)
def test_what_it_gave_itself_in_an_earlier_mastership_never_binds_longer(
    renewed_ms: int, free_ms: int
) -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [QUEUE], renewed_ms)
    locks.lead(100_000)
    assert locks.lock("g", "b", [QUEUE], free_ms) == []
    assert locks.lock("g", "b", [QUEUE], free_ms + 1) == [QUEUE]


def test_a_copy_has_what_the_masters_table_has_and_counts_its_changes() -> None:
    master, copy = QueueLocks(), QueueLocks()
    master.lock("g", "a", [QUEUE, OTHER], 0)
    copy.lock("g", "z", [("b", "U", 7)], 0)
    copy.become(master.table(), 0)
    assert copy.table() == master.table() == {"g": {"a": [QUEUE, OTHER]}}
    changes = master.changes
    master.lock("g", "a", [QUEUE, OTHER], 50)  # a renewal is none
    assert master.changes == changes
    master.unlock("g", "a", [OTHER])
    master.lock("g", "b", [OTHER], 60)
    assert master.changes == changes + 2
    copy.put("g", OTHER, "b", 60)
    copy.put("g", QUEUE, None, 60)
    assert copy.table() == {"g": {"b": [OTHER]}}


def test_a_copy_takes_no_more_than_a_master_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_PER_GROUP_MAX", 3)
    copy = QueueLocks()
    copy.become({"g": {"a": queues(0, 9)}}, 0)
    assert len(copy.table()["g"]["a"]) == 3
