"""What a set without controllers does too often to tell each time is counted, and told in time."""

from __future__ import annotations

from typing import Any

from brokers.acting import effects as fx
from brokers.acting.counted import (
    CLIENTS_MAX,
    ESCAPE_BATCH_MS,
    LOCK_BATCH_MS,
    PARTS_MAX,
    TOPICS_MAX,
    EscapeBatches,
    LockCounts,
)
from brokers.acting.escape import Escape
from brokers.acting.forms import Kind
from brokers.acting.lock_messages import LockRequest
from brokers.acting.lock_quorum import VOTE_WAIT_MS, LockQuorum
from brokers.acting.outcomes import Put
from brokers.acting.targets import Route
from brokers.remoting.codes import ResponseCode
from brokers.service.clients.queue_locks import Queue, QueueLocks
from brokers.store.log.records import MessageFields, host_bytes
from tests.support.acting_rig import of

Q: Queue = ("broker-a", "T", 0)
R: Queue = ("broker-a", "T", 1)
HOST = host_bytes("10.0.0.2", 10911)


def told(effects: list[fx.Effect], kind: str) -> list[dict[str, Any]]:
    return [dict(one.fields) for one in of(effects, fx.Report) if one.kind == kind]


def test_a_batch_says_what_went_where_and_what_was_tried_again() -> None:
    batches = EscapeBatches()
    for put in (Put.STORED, Put.SOFT, Put.UNKNOWN):
        batches.put(Kind.LEVEL, "broker-b", put, 10, "orders")
    batches.put(Kind.TIMER, "broker-c", Put.STORED, 5, "mails")
    assert batches.due(0) == [], "the batch has just begun"
    assert batches.due(ESCAPE_BATCH_MS - 1) == []
    level, timer = told(batches.due(ESCAPE_BATCH_MS), "EscapeBatch")
    assert level == {
        "kind": "delay level",
        "to_broker_name": "broker-b",
        "messages": 2,
        "soft": 1,
        "failed": 1,
        "size_bytes": 20,
        "topics": ["orders"],
        "over_ms": ESCAPE_BATCH_MS,
    }
    assert (timer["kind"], timer["to_broker_name"], timer["messages"]) == ("timer", "broker-c", 1)
    assert batches.due(10 * ESCAPE_BATCH_MS) == [], "each put is in one batch"


def test_an_acting_that_ends_closes_its_batch_at_once() -> None:
    batches = EscapeBatches()
    batches.put(Kind.HALF, "broker-b", Put.STORED, 10, "T")
    [last] = told(batches.due(7, at_once=True), "EscapeBatch")
    assert (last["messages"], last["over_ms"]) == (1, 0)
    assert batches.due(7, at_once=True) == []


def test_a_batch_has_a_bounded_number_of_parts_and_names_and_loses_no_count() -> None:
    batches = EscapeBatches()
    for number in range(3 * PARTS_MAX):
        batches.put(Kind.LEVEL, f"broker-{number}", Put.STORED, 1, "T")
    for number in range(2 * TOPICS_MAX):
        batches.put(Kind.LEVEL, "broker-0", Put.STORED, 1, f"topic-{number}")
    found = told(batches.due(0, at_once=True), "EscapeBatch")
    assert len(found) == PARTS_MAX + 1
    assert sum(one["messages"] for one in found) == 3 * PARTS_MAX + 2 * TOPICS_MAX
    assert next(one for one in found if not one["to_broker_name"])["messages"] == 2 * PARTS_MAX
    assert max(len(one["topics"]) for one in found) == TOPICS_MAX


def test_the_escape_tells_its_batches_with_what_is_to_be_sent() -> None:
    one = Escape(allowed=True, has_local_master=lambda: False)
    message = MessageFields("T", 0, b"body", b"", 77, HOST, HOST)
    one.offer("s", 0, Kind.LEVEL, message)
    one.tick(0, 0.5)
    one.route_told("T", Route((("broker-b", "b:1", 4),)), 0)
    [sent] = of(one.tick(0, 0.5), fx.SendAway)
    one.answered(sent.token, ResponseCode.SYSTEM_BUSY, 10, 0.5)
    [again] = of(one.tick(60_000, 0.5), fx.SendAway)
    one.answered(again.token, ResponseCode.SUCCESS, 60_010, 0.5)
    [batch] = told(one.tick(60_000 + ESCAPE_BATCH_MS, 0.5), "EscapeBatch")
    assert (batch["messages"], batch["failed"], batch["size_bytes"]) == (1, 1, 4)
    assert one.last_batch(99_000) == []


def quorum() -> LockQuorum:
    return LockQuorum(QueueLocks(), "m0", 3, strict=True)


def test_rounds_are_told_with_queues_won_and_lost_and_members_that_were_silent() -> None:
    one = quorum()
    round_id, _ = one.lock(LockRequest("G", "c1", (Q, R)), ("m1:1", "m2:1"), 0)
    one.voted(round_id, "m1:1", (Q,), round_id)
    assert told(one.tick(VOTE_WAIT_MS), "LockRounds") == []
    [found] = told(one.tick(VOTE_WAIT_MS + LOCK_BATCH_MS), "LockRounds")
    assert found == {
        "consumer_group": "G",
        "rounds": 1,
        "clients": 1,
        "queues_won": 1,
        "queues_lost": 1,
        "asked": 2,
        "silent": 1,
        "over_ms": LOCK_BATCH_MS,
    }


def test_a_queue_that_is_held_here_by_another_is_lost_without_asking_anybody() -> None:
    one = quorum()
    one.vote(LockRequest("G", "c2", (Q,)), 0)
    one.lock(LockRequest("G", "c1", (Q,)), ("m1:1", "m2:1"), 0)
    one.tick(0)
    [found] = told(one.tick(LOCK_BATCH_MS), "LockRounds")
    assert (found["queues_lost"], found["asked"], found["silent"]) == (1, 0, 0)


def test_votes_for_other_members_are_told_and_own_ones_are_not() -> None:
    one = quorum()
    one.vote(LockRequest("G", "c2", (R,)), 0)
    given = one.vote_for(LockRequest("G", "c1", (Q, R), True, "m1-1"), 0)
    assert given == (Q,)
    one.tick(0)
    [found] = told(one.tick(LOCK_BATCH_MS), "LockVotes")
    assert (found["requests"], found["queues_given"], found["queues_refused"]) == (1, 1, 1)


def test_locks_without_votes_are_no_history() -> None:
    one = LockQuorum(QueueLocks(), "m0", 3, strict=False)
    one.lock(LockRequest("G", "c1", (Q,)), ("m1:1",), 0)
    one.vote_for(LockRequest("G", "c1", (R,), True), 0)
    one.tick(0)
    assert one.tick(LOCK_BATCH_MS) == []


def test_more_groups_and_clients_than_are_named_are_counted_together() -> None:
    counts = LockCounts()
    for number in range(2 * PARTS_MAX):
        counts.round_over(f"G{number}", "c", won=1, lost=0, asked=0, silent=0)
    for number in range(2 * CLIENTS_MAX):
        counts.round_over("G0", f"c{number}", won=0, lost=0, asked=0, silent=0)
    counts.due(0)
    found = told(counts.due(LOCK_BATCH_MS), "LockRounds")
    assert len(found) == PARTS_MAX + 1
    assert sum(one["queues_won"] for one in found) == 2 * PARTS_MAX
    assert max(one["clients"] for one in found) == CLIENTS_MAX
