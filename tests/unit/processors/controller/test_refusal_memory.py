"""Requests that changed nothing, and when they are the same again."""

from typing import Any

from immutables import Map

from brokers.remoting.command import RemotingCommand
from events.envelope import ReplicaEvidence
from events.outcomes import LABEL_REPEAT, Outcome
from processors.controller.refusal_memory import RefusalMemory, can_be_remembered, situation
from processors.fold.state import BrokerSet, ControllerState

REFUSED: dict[str, Any] = {
    "command_offset": 5,
    "command_id": bytes(16),
    "cluster_id": "c",
    "term": 1,
    "kind": "ElectMaster",
    "broker_name": "a",
    "cause": "broker_request",
    "accepted": False,
    "refusal": "ELECT_MASTER_FAILED",
    "code": 2012,
    "labels": (),
    "changes": (),
    "candidates": (),
    "digest": bytes(32),
}


def outcome(**other: Any) -> Outcome:
    return Outcome(**(REFUSED | other))


def asked(body: bytes = b"", **ext: str) -> RemotingCommand:
    return RemotingCommand.request(1002, {"brokerName": "a", "brokerId": "1"} | ext, body)


def row(
    alive: bool = True, epoch: int = 3, offset: int = 10, incarnation: str | None = None
) -> ReplicaEvidence:
    return ReplicaEvidence(1, alive, "heartbeat", 0, epoch, offset, 0, 1, incarnation)


STATE = ControllerState(sets=Map({"a": BrokerSet("C", "a"), "b": BrokerSet("C", "b")}))
NOW = situation(STATE, "a", [row()])


def known() -> RefusalMemory:
    memory = RefusalMemory()
    memory.remember(asked(), outcome(), NOW)
    return memory


def test_times_ids_and_signatures_do_not_make_another_request() -> None:
    again = asked(
        invokeTime="99",
        regentCommandId="ab" * 16,
        Signature="s",
        AccessKey="k",
        SecurityToken="t",
        regentForwardedFor="x:1",
    )
    assert known().find(again, NOW) == outcome()


def test_another_field_or_body_is_another_request() -> None:
    for other in (asked(brokerId="2"), asked(designateElect="true"), asked(body=b"x")):
        assert not known().knows(other) and known().find(other, NOW) is None
    moved = RemotingCommand.request(1001, asked().ext)
    assert not known().knows(moved)


def test_neighbouring_fields_cannot_imitate_each_other() -> None:
    memory = RefusalMemory()
    memory.remember(RemotingCommand.request(1002, {"a": "bc", "d": ""}), outcome(), NOW)
    assert not memory.knows(RemotingCommand.request(1002, {"ab": "c", "d": ""}))


def test_what_decided_must_be_the_same() -> None:
    changed = (
        situation(STATE, "a", [row(alive=False)]),
        situation(STATE, "a", [row(epoch=4)]),
        situation(STATE, "a", [row(incarnation="new")]),
        situation(STATE, "a", []),
        situation(STATE.with_set(BrokerSet("C", "a", next_broker_id=2)), "a", [row()]),
        situation(ControllerState(sets=STATE.sets, settings=Map({"x": "1"})), "a", [row()]),
        situation(ControllerState(sets=STATE.sets, rules_version=9), "a", [row()]),
    )
    for one in changed:
        memory = known()
        assert memory.find(asked(), one) is None
        assert memory.find(asked(), NOW) is None, "forgotten for good"


def test_what_does_not_decide_may_change() -> None:
    other_set = STATE.with_set(BrokerSet("C", "b", next_broker_id=7))
    assert known().find(asked(), situation(other_set, "a", [row(offset=99)])) is not None


def test_only_what_would_come_again_is_remembered() -> None:
    assert can_be_remembered(outcome()) and can_be_remembered(
        outcome(accepted=True, refusal=None, code=0)
    )
    assert not can_be_remembered(outcome(labels=(LABEL_REPEAT,)))
    assert not can_be_remembered(outcome(changes=("one",)))
    assert not any(
        can_be_remembered(outcome(refusal=one))
        for one in ("STALE_TERM", "OUTSIDE_WINDOW", "COMMAND_ID_REUSED")
    )


def test_counts_are_kept_per_set_code_and_refusal() -> None:
    memory = known()
    for at in (100, 200):
        memory.count(asked(), outcome(), at)
    memory.count(RemotingCommand.request(1001), outcome(refusal="SET_UNCHANGED", code=2013), 300)
    assert memory.rows_of("a") == [
        {"code": 1001, "refusal": "SET_UNCHANGED", "count": 1, "last_ms": 300},
        {"code": 1002, "refusal": "ELECT_MASTER_FAILED", "count": 2, "last_ms": 200},
    ]
    assert memory.rows_of("b") == []


def test_the_memory_is_bounded() -> None:
    memory = RefusalMemory(refusals_max=3)
    for number in range(10):
        memory.remember(asked(brokerId=str(number)), outcome(), NOW)
    assert (
        len(memory) == 3
        and memory.knows(asked(brokerId="9"))
        and not memory.knows(asked(brokerId="0"))
    )
