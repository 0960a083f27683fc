"""What running controllers answer to the questions of `lake_questions`, over their wire.

Responsible for the requests: RocketMQ's own per set (1004 GetReplicaInfo, 1006 GetSyncStateData,
1012 GetNextBrokerId), and the leader's document (19003). Refuses to know what the answers ought to
be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from infra.controllers.admin import ControllerAdmin
from tests.support.lake_questions import (
    HEAD,
    IDS,
    LEADER,
    REPLICA_FIELDS,
    REPLICAS,
    SET_FACTS,
    SETS,
    Question,
    Rows,
)

HELD = (SETS, SET_FACTS, REPLICAS, IDS, LEADER, HEAD)
"""The questions that they can answer: they hold the state, not the history."""
OF_REPLICA = {"broker_id": "id", "is_registered": "registered"}
"""Their names of what tables call otherwise."""


class ControllerAnswers:
    """The controllers at these addresses; a call gives None for what they do not hold."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._admin = ControllerAdmin(addresses)
        ways = (self._sets, self._set_facts, self._replicas, self._ids, self._leader, self._head)
        self._ways: Mapping[str, Callable[[], Rows]] = dict(zip(HELD, ways, strict=True))

    def __call__(self, question: Question) -> Rows | None:
        way = self._ways.get(question.name)
        return None if way is None else way()

    def _document(self) -> dict[str, Any]:
        return self._admin.state()

    def _names(self) -> list[str]:
        return sorted(self._document()["sets"])

    def _sets(self) -> Rows:
        """By 1004; what 1006 says otherwise stands there too, so that it is a difference."""
        rows, table = [], self._admin.sync_state_data(self._names())
        for name in self._names():
            answer = self._admin.ask_leader(
                RequestCode.CONTROLLER_GET_REPLICA_INFO,
                {"brokerName": name},
                what=(f"replicas of {name}"),
            )
            master, body, told = (
                answer.ext.get("masterBrokerId"),
                fastjson.loads(answer.body),
                table[name],
            )
            members, epoch = body["syncStateSet"], body["syncStateSetEpoch"]
            rows.append(
                (
                    name,
                    None if master is None else int(master),
                    int(answer.ext["masterEpoch"]),
                    epoch,
                    members,
                )
            )
            inside = [one["brokerId"] for one in told["inSyncReplicas"]]
            also = (
                name,
                told["masterBrokerId"],
                told["masterEpoch"],
                told["syncStateSetEpoch"],
                inside,
            )
            rows += [] if also == rows[-1] else [also]
        return rows

    def _ids(self) -> Rows:
        table = self._admin.sync_state_data(self._names())
        replicas = (
            (name, one)
            for name, told in table.items()
            for one in (*told["inSyncReplicas"], *told["notInSyncReplicas"])
        )
        return sorted((name, one["brokerId"], one["brokerAddress"]) for name, one in replicas)

    def _set_facts(self) -> Rows:
        return [
            (
                name,
                one["cluster"],
                self._admin.next_broker_id(one["cluster"], name),
                one["highest_epoch_seen"],
                one["unclean_members"],
                one["master_restarted"],
                one["at_risk"],
                one["imported"],
                one["tombstone"],
            )
            for name, one in sorted(self._document()["sets"].items())
        ]

    def _replicas(self) -> Rows:
        return [
            (
                name,
                [
                    {field: each[OF_REPLICA.get(field, field)] for field in REPLICA_FIELDS}
                    for each in one["replicas"]
                ],
            )
            for name, one in sorted(self._document()["sets"].items())
        ]

    def _leader(self) -> Rows:
        found = self._document()
        return [(found["term"], found["leader"])]

    def _head(self) -> Rows:
        found = self._document()
        return [(found["applied_offset"], found["digest"])]
