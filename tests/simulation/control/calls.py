"""Calls of those who name no command id: however often controllers hand one on, it is decided once
(D5).

Refuses to know: who asked whom.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from events.commands import AlterSyncStateSet, ApplyBrokerId, RegisterBroker
from processors.controller.leading import CAUSE_WENT_BACK
from processors.fold.folder import Applied
from tests.simulation.world import InvariantBroken

Wish: TypeAlias = tuple[object, ...]


class Calls:
    """How often each wish was uttered, and under how many ids it stands in the log."""

    def __init__(self) -> None:
        self._made: Counter[Wish] = Counter()
        self._ids: dict[Wish, set[bytes]] = {}

    def made(self, request: RemotingCommand) -> None:
        wish = _wish_of_request(request)
        if wish is not None:
            self._made[wish] += 1

    def decided(self, applied: Applied) -> None:
        wish = _wish_of_record(applied.record)
        # that wish is a leader's
        if wish is None or wish not in self._made or applied.outcome.cause == CAUSE_WENT_BACK:
            return
        ids = self._ids.setdefault(wish, set())
        ids.add(applied.outcome.command_id)
        if len(ids) > self._made[wish]:
            raise InvariantBroken(
                f"offset {applied.offset}: {wish} was asked {self._made[wish]} times and decided "
                f"{len(ids)} times"
            )


def _wish_of_request(request: RemotingCommand) -> Wish | None:
    ext = request.ext
    if "regentCommandId" in ext:
        return None
    if request.code == RequestCode.CONTROLLER_APPLY_BROKER_ID:
        return "apply", ext["brokerName"], int(ext["appliedBrokerId"]), ext["registerCheckCode"]
    if request.code == RequestCode.CONTROLLER_REGISTER_BROKER:
        return "register", ext["brokerName"], int(ext["brokerId"]), ext["brokerAddress"]
    if request.code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
        body = fastjson.loads(request.body)
        base = int(ext["masterEpoch"]), body["syncStateSetEpoch"], tuple(body["syncStateSet"])
        return "alter", ext["brokerName"], int(ext["masterBrokerId"]), *base
    return None


def _wish_of_record(record: object) -> Wish | None:
    match record:
        case ApplyBrokerId():
            return "apply", record.broker_name, record.applied_broker_id, record.register_check_code
        case RegisterBroker():
            return "register", record.broker_name, record.broker_id, record.broker_address
        case AlterSyncStateSet():
            base = (
                record.expected_master_epoch,
                record.expected_set_epoch,
                tuple(record.new_sync_state_set),
            )
            return "alter", record.broker_name, record.master_broker_id, *base
    return None
