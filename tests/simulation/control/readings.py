"""Linearizable answers: none is older than what anybody had been told before it was asked for.

Responsible for: stamping an answer with the offset whose state it shows, and comparing what answers
say of a set.
Refuses to know: how a controller makes sure of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from tests.simulation.world import InvariantBroken, World

STAMP = "simulatedOffset"
SOFT = (
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.CONTROLLER_GET_METADATA_INFO,
    RequestCode.REGENT_PROCESS_STATUS,
    RequestCode.REGENT_PEER_HEARTBEAT,
    RequestCode.REGENT_TRANSFER_LEADERSHIP,
)
"""Answered by every controller from what it knows just now."""
UNPROVEN = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.CONTROLLER_NOT_LEADER,
)
"""Answers that say nothing about the state."""


class Readings:
    """`floor` when a question leaves, `check` when its answer is there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._told_offset = -1
        self._told: dict[str, tuple[int, int, int]] = {}
        self._commands: dict[str, tuple[int, Mapping[str, tuple[int, int, int]]]] = {}
        self._floors: dict[int, tuple[int, Mapping[str, tuple[int, int, int]]]] = {}
        self._next = 0

    def stamp(self, request: RemotingCommand, response: RemotingCommand, offset: int) -> None:
        """On the way out of the first controller that made this answer; a standby hands on what it
        got.
        """
        if request.code not in SOFT and response.code not in UNPROVEN:
            response.ext.setdefault(STAMP, str(offset))

    def floor(self, request: RemotingCommand) -> int:
        """A command that is asked again under its id is one question, asked when it was asked
        first.
        """
        self._next += 1
        now = self._told_offset, dict(self._told)
        command_id = request.ext.get("regentCommandId")
        self._floors[self._next] = (
            now if command_id is None else self._commands.setdefault(command_id, now)
        )
        return self._next

    def check(
        self, name: str, request: RemotingCommand, answer: RemotingCommand, floor: int
    ) -> None:
        floor_offset, told = self._floors.pop(floor)
        if request.code in SOFT or answer.code in UNPROVEN:
            self.world.count(f"answer.unproven.{answer.code}")
            return
        self.world.count(f"answered.{request.code}")
        offset = int(answer.ext[STAMP])
        if offset < floor_offset:
            raise InvariantBroken(
                f"{name} asks {request.code} and is told of offset {offset}, {floor_offset} was "
                "told before"
            )
        self._told_offset = max(self._told_offset, offset)
        for set_name, facts in _facts(request, answer).items():
            before = told.get(set_name, (0, 0, 0))
            if any(0 <= now < then for now, then in zip(facts, before, strict=True)):
                raise InvariantBroken(
                    f"{name} is told {facts} of {set_name}, {before} was told before"
                )
            known = self._told.get(set_name, (0, 0, 0))
            self._told[set_name] = tuple(map(max, facts, known))  # type: ignore[assignment]


def _facts(request: RemotingCommand, answer: RemotingCommand) -> dict[str, tuple[int, int, int]]:
    """(next id, master epoch, set epoch) of each set that the answer speaks of; -1: not told."""
    name = request.ext.get("brokerName", "")
    if request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID and answer.code == 0:
        return {name: (int(answer.ext["nextBrokerId"]), -1, -1)}
    if request.code == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA and answer.code == 0:
        table = fastjson.loads(answer.body)["replicasInfoTable"]
        return {
            one: (-1, info["masterEpoch"], info["syncStateSetEpoch"]) for one, info in table.items()
        }
    if "regentMasterEpoch" in answer.ext:
        return {
            name: (
                -1,
                int(answer.ext["regentMasterEpoch"]),
                int(answer.ext["regentSyncStateSetEpoch"]),
            )
        }
    return {}
