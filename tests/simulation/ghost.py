"""Replicas that exist in the books only, in a set of their own: they play through what real ones
seldom do.

Responsible for: one play after the other, each a list of requests over one connection; the set is
theirs, so that whatever is decided about it costs no message of a real one.
Refuses to know: what the answers are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from processors.fold.state import BrokerSet
from tests.simulation.network import End, wake
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

GHOST_SET = "broker-ghost"
CLUSTER = "DefaultCluster"
ANSWER_MS = 3_000
BEAT_TIMEOUT_MS = 700
REST_MS = (100, 1_500)
PLAYS_BEFORE_THE_LAST = 5
EPOCH_LAST = 2_147_483_646

Step = Callable[[], RemotingCommand]


def apply_id(name: str, broker_id: int, check_code: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "appliedBrokerId": str(broker_id),
        "registerCheckCode": check_code,
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext)


def register(name: str, broker_id: int, address: str, **extra: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "brokerAddress": address,
        "regentClean": "true",
        "regentIncarnation": "x",
    } | extra
    return RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, ext)


def beat(name: str, broker_id: int, incarnation: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "brokerAddr": "ghost:1",
        "heartbeatTimeoutMills": str(BEAT_TIMEOUT_MS),
        "regentIncarnation": incarnation,
    }
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext)


def alter(
    name: str, master: int, epoch: int, set_epoch: int, members: list[int]
) -> RemotingCommand:
    ext = {"brokerName": name, "masterBrokerId": str(master), "masterEpoch": str(epoch)}
    body = fastjson.dumps({"syncStateSet": members, "syncStateSetEpoch": set_epoch})
    return RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body)


def elect(name: str, broker_id: int, *, designate: bool = False) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "designateElect": "true" if designate else "false",
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, ext)


def clean(name: str, ids: str, *, living: bool = False) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "isCleanLivingBroker": "true" if living else "false",
    }
    if ids:
        ext["brokerControllerIdsToClean"] = ids
    return RemotingCommand.request(RequestCode.CLEAN_BROKER_DATA, ext)


class Ghosts:
    """Plays until `stopped`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, "ghost"
        self.life, self.up, self.paused = 1, True, False
        self.stopped = False
        self._plays = 0
        self._rest()

    def known(self) -> BrokerSet:
        """The set as the newest fold has it."""
        newest = max(self.cluster.controllers, key=lambda node: node.folder.offset)
        return newest.folder.state.sets.get(GHOST_SET) or BrokerSet(CLUSTER, GHOST_SET)

    def _rest(self) -> None:
        if not self.stopped:
            self.world.after(self.world.between(*REST_MS), self._play)

    def _play(self) -> None:
        if self.stopped:
            return
        self._plays += 1
        place = self.cluster.node_at(self.world.chance.choice(self.cluster.controller_names))

        def opened(end: End) -> None:
            wire = Wire(self.world, end, lambda wire, request: None)
            first = self.known().next_broker_id
            self._go_on(wire, self._steps(first, f"life-{self._plays}"))

        self.cluster.network.connect(self, place, place.accept, opened, lambda why: self._rest())

    def _go_on(self, wire: Wire, steps: list[Step]) -> None:
        """One step after the answer to the one before; a pair at once now and then, so that both
        are on the way.
        """
        if not steps or not wire.open:
            wire.close("the play is over")
            self._rest()
            return
        if len(steps) > 1 and self.world.one_in(3):
            wire.call(steps.pop(0)(), ANSWER_MS, lambda answer: None)
        wire.call(
            steps.pop(0)(),
            ANSWER_MS,
            lambda answer: wake(self.world, self, 1, lambda: self._go_on(wire, steps)),
        )

    def _steps(self, one: int, life: str) -> list[Step]:
        two = one + 1
        return [
            lambda: apply_id(GHOST_SET, one, f"ghost:1;{one}"),
            lambda: register(
                GHOST_SET,
                one,
                "ghost:1",
                regentIncarnation=life,
                regentLastEpoch=str(EPOCH_LAST + 1),
            ),
            lambda: register(GHOST_SET, one, "ghost:1", regentIncarnation=life),
            lambda: apply_id(GHOST_SET, two, f"ghost:1;{two}"),
            lambda: apply_id(GHOST_SET, two + 90, "ghost:1;0"),
            lambda: self._alter(one, [one, two]),
            lambda: register(GHOST_SET, two, "ghost:1", regentIncarnation=life),
            lambda: beat(GHOST_SET, one, life),
            lambda: elect(GHOST_SET, one),
            lambda: self._alter(one, [one, 777]),
            lambda: self._alter(777, [777]),
            lambda: self._alter(one, [one, two], epoch=-1),
            lambda: self._alter(one, [one, two], set_epoch=-1),
            lambda: beat(GHOST_SET, two, life),
            lambda: self._alter(one, [two]),
            lambda: self._alter(one, [one, two]),
            lambda: self._alter(one, [one, two]),
            lambda: elect(GHOST_SET, one),
            lambda: elect(GHOST_SET, 777, designate=True),
            lambda: elect(GHOST_SET, -1, designate=True),
            lambda: elect(GHOST_SET, two, designate=True),
            lambda: clean(GHOST_SET, ""),
            lambda: clean(GHOST_SET, ";"),
            lambda: clean(GHOST_SET, str(one)),
            lambda: self._reborn(life),
            lambda: self._alter(two, [two]),
            lambda: self._alter(one, [one]),
            lambda: beat(GHOST_SET, one, life + "-again"),
            lambda: register(
                GHOST_SET, two, "ghost:1", regentClean="false", regentIncarnation=life + "-torn"
            ),
            lambda: elect(GHOST_SET, two),
            *(
                [
                    lambda: self._worn_out(two, life),
                    lambda: elect(GHOST_SET, two),
                    lambda: elect(GHOST_SET, one),
                    lambda: elect(GHOST_SET, one, designate=True),
                    lambda: elect(GHOST_SET, two, designate=True),
                ]
                if self._plays > PLAYS_BEFORE_THE_LAST
                else []
            ),
            lambda: clean(GHOST_SET, f"{one};{two}", living=True),
            lambda: clean(GHOST_SET, f"{one};{two}"),
        ]

    def _alter(
        self, master: int, members: list[int], epoch: int = 0, set_epoch: int = 0
    ) -> RemotingCommand:
        known = self.known()
        return alter(
            GHOST_SET,
            master,
            known.master_epoch + epoch,
            known.sync_state_set_epoch + set_epoch,
            members,
        )

    def _reborn(self, life: str) -> RemotingCommand:
        """The recorded master starts again: until the election its wishes are refused (S6)."""
        return register(
            GHOST_SET,
            self.known().master_broker_id or 1,
            "ghost:1",
            regentIncarnation=life + "-again",
        )

    def _worn_out(self, broker_id: int, life: str) -> RemotingCommand:
        """A replica that reports the last epoch but one: whoever is elected next gets the last,
        then there is none.
        """
        return register(
            GHOST_SET, broker_id, "ghost:1", regentIncarnation=life, regentLastEpoch=str(EPOCH_LAST)
        )
