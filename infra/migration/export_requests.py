"""The Java requests that bring a fresh RocketMQ controller to a set of ours, with ids and epochs
above ours.

Responsible for: the sequence, and the code each request must be answered with.
Refuses to know: whether a set may go (`export_plan`), sockets, and how requests are sent.

A Java controller has no import; it is led there by what brokers and operators may ask
(RULES 5 and 6):

1. 1013 for 1, 2, ... next id - 1: each assigned id moves the next one (5.2).
2. 1002 by the master's own id: the first election asks for no proof (5.5 row 2). Epoch 1,
   SyncStateSet {master}. Nobody counts as alive yet, so no broker is told (9).
3. 904 in the name of the master and of one more id, then 1001 that take the other in and out until
   the set's epoch is above ours: a master that goes on in place ignores a set with an epoch below
   the one it has (10.5).
4. 1002 designated for id -1: answers 2004, takes the master away and moves the master epoch by one
   (5.5 edge cases). Repeated until that epoch is above every broker's: a running broker asks for an
   election only then (10.5). Nobody is told of it (9: a set with no master elected is never
   notified).
5. 904 with a timeout below zero: nobody is alive there any more (8). 1011 for ids that are not ours
   any more; the master stays in the set, so the set goes on to exist (6, clean edge cases).

What stands then: no master, epoch above ours, SyncStateSet exactly {our master}. Whoever arrives
first, only that one can be elected (7: a round over the set; unclean must be off), and it holds
everything acknowledged. Its first election there is one more epoch. Between reading here and
arriving there nobody may elect: our controllers are stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.remoting.codes import RequestCode, ResponseCode
from infra.migration.plan import JavaSet

BEAT_TIMEOUT_MS = 20_000
"""How long the borrowed heartbeats of step 3 last, if nobody ends them."""
BEAT_EVERY = 500
"""Requests between two borrowed heartbeats."""
BEAT_ENDS_MS = -1
"""With such a timeout nobody counts as alive (8). Closing the connection is not enough: 5.3.3 drops
one broker for it.
"""
_OK = int(ResponseCode.SUCCESS)
_NO_MASTER = int(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Goal:
    """What the Java controller must hold of a set. `epoch` and `set_epoch` are the least that will
    do.
    """

    cluster_name: str
    name: str
    master_id: int
    next_broker_id: int
    addresses: Mapping[int, str]
    epoch: int
    set_epoch: int
    java_brokers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the Java leader, and the code it must answer with."""

    code: int
    fields: Mapping[str, str]
    body: Mapping[str, Any] | None = None
    answers: int = _OK
    meaning: str = ""


def _set_fields(goal: Goal) -> dict[str, str]:
    return {"clusterName": goal.cluster_name, "brokerName": goal.name}


def _elect(
    goal: Goal, broker_id: int, designate: bool, answers: int, now_ms: int, meaning: str
) -> Ask:
    fields = {
        **_set_fields(goal),
        "brokerId": str(broker_id),
        "designateElect": str(designate).lower(),
        "invokeTime": str(now_ms),
    }
    return Ask(RequestCode.CONTROLLER_ELECT_MASTER, fields, None, answers, meaning)


def forget_requests(goal: Goal, there: JavaSet, now_ms: int) -> tuple[Ask, ...]:
    """Erase a set of that name that nobody lives in: only a set without a master may go as a whole
    (5.7 row 1).
    """
    away = (
        ()
        if there.master_id is None
        else (_elect(goal, -1, True, _NO_MASTER, now_ms, "take its master away"),)
    )
    return (*away, _clean(goal, (), now_ms, "forget the set of that name"))


def drive_requests(goal: Goal, now_ms: int) -> tuple[Ask, ...]:
    """Return steps 1 to 4 of the page's head, and the end of the heartbeats, for a controller that
    knows nothing of the set.
    """
    other = companion(goal)
    asks = [_apply(goal, broker_id, now_ms) for broker_id in range(1, _last_id(goal) + 1)]
    asks.append(
        _elect(
            goal,
            goal.master_id,
            False,
            _OK,
            now_ms,
            f"first election: master {goal.master_id}, epoch 1",
        )
    )
    alters = _alters(goal, other, now_ms)
    for first in range(0, len(alters), BEAT_EVERY):
        asks += [_beat(goal, broker_id) for broker_id in (goal.master_id, other)]
        asks += alters[first : first + BEAT_EVERY]
    asks += [
        _elect(goal, -1, True, _NO_MASTER, now_ms, f"master epoch to {epoch}, no master")
        for epoch in range(2, goal.epoch + 1)
    ]
    asks += [_beat(goal, broker_id, BEAT_ENDS_MS) for broker_id in (goal.master_id, other)]
    return tuple(asks)


def drive_count(goal: Goal) -> int:
    """The number of `drive_requests`, without making them: each moves one number by one, and there
    may be billions.
    """
    changes = _changes(goal)
    beats = 2 * (-(-changes // BEAT_EVERY) + 1)
    return _last_id(goal) + 1 + changes + beats + max(0, goal.epoch - 1)


def companion(goal: Goal) -> int:
    """The replica that goes in and out of the set in step 3; a set of one borrows the next id, and
    cleans it away again.
    """
    return min(2 if goal.master_id == 1 else 1, goal.next_broker_id)


def _last_id(goal: Goal) -> int:
    return max(goal.next_broker_id - 1, companion(goal))


def _changes(goal: Goal) -> int:
    changes = max(0, goal.set_epoch - 1)
    return changes + changes % 2


def _apply(goal: Goal, broker_id: int, now_ms: int) -> Ask:
    # The controller takes the address from the text before the ';' (RULES 3.12).
    code = f"{goal.addresses.get(broker_id, 'forgotten:0')};{now_ms}"
    fields = {**_set_fields(goal), "appliedBrokerId": str(broker_id), "registerCheckCode": code}
    return Ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, meaning=f"assign id {broker_id}")


def _beat(goal: Goal, broker_id: int, timeout_ms: int = BEAT_TIMEOUT_MS) -> Ask:
    fields = {
        **_set_fields(goal),
        "brokerId": str(broker_id),
        "brokerAddr": goal.addresses.get(broker_id, "forgotten:0"),
        "epoch": "-1",
        "maxOffset": "-1",
        "confirmOffset": "-1",
        "heartbeatTimeoutMills": str(timeout_ms),
    }
    return Ask(
        RequestCode.BROKER_HEARTBEAT, fields, meaning=(f"heartbeat in the name of {broker_id}")
    )


def _alters(goal: Goal, other: int, now_ms: int) -> list[Ask]:
    """An even number of changes, from set epoch 1: the set ends as {master}, with an epoch of at
    least the goal's.
    """
    fields = {
        "brokerName": goal.name,
        "masterBrokerId": str(goal.master_id),
        "masterEpoch": "1",
        "invokeTime": str(now_ms),
    }
    asks = []
    for base in range(1, _changes(goal) + 1):
        members = sorted([goal.master_id, other]) if base % 2 else [goal.master_id]
        body = {"syncStateSet": members, "syncStateSetEpoch": base}
        asks.append(
            Ask(
                RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
                fields,
                body,
                meaning=(f"set epoch to {base + 1}"),
            )
        )
    return asks


def clean_requests(goal: Goal, now_ms: int) -> tuple[Ask, ...]:
    """Return step 5: ids that are not ours any more. The master's is never among them, so the set
    goes on to exist.
    """
    gone = tuple(one for one in range(1, _last_id(goal) + 1) if one not in goal.addresses)
    return (_clean(goal, gone, now_ms, f"forget {gone}"),) if gone else ()


def _clean(goal: Goal, ids: Sequence[int], now_ms: int, meaning: str) -> Ask:
    fields = {**_set_fields(goal), "isCleanLivingBroker": "false", "invokeTime": str(now_ms)}
    if ids:
        fields["brokerControllerIdsToClean"] = ";".join(map(str, ids))
    return Ask(RequestCode.CLEAN_BROKER_DATA, fields, meaning=meaning)
