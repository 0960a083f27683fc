"""Locks for orderly consumers."""

from brokers.service.clients.queue_locks import (
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
