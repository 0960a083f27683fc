"""Locks for orderly consumers."""

from brokers.service.queue_locks import LOCK_EXPIRES_MS, QueueLocks

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
    assert locks.lock("g", "a", [QUEUE], 50_000) == [QUEUE] and locks.lock("h", "b", [QUEUE], 50_000) == [QUEUE]
    assert locks.lock("g", "b", [QUEUE], LOCK_EXPIRES_MS + 1) == []


def test_only_the_holder_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [QUEUE], 0)
    locks.unlock("g", "b", [QUEUE])
    assert locks.lock("g", "b", [QUEUE], 1) == []
    locks.unlock("g", "a", [QUEUE, OTHER])
    assert locks.lock("g", "b", [QUEUE], 1) == [QUEUE]
