"""
Whoever else talks to controllers and log: operators with odd requests, strangers, garbage.

Responsible for: producing every refusal the rules know, none of which may do harm.
Refuses to know: what the answers are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from events.codec import COMMAND_FINGERPRINTS, MARKER, encode
from events.commands import ActivateRules, ChangeSettings, ClaimLeadership, ClusterFormed, ElectMaster
from events.envelope import Envelope
from processors.state import BrokerSet, ControllerState
from tests.simulation.network import End
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

ANSWER_MS = 3_000
EVERY_MS = (200, 900)
STRANGER = "nobody-knows"


class Operator:
    """Sends one odd thing after the other until `stopped`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, "operator"
        self.life, self.up, self.paused = 1, True, False
        self.stopped = False
        self._used_id = bytes(16)
        self._again()

    def _again(self) -> None:
        if not self.stopped:
            self.world.after(self.world.chance.randint(*EVERY_MS), self._act)

    def _act(self) -> None:
        newest = max(self.cluster.controllers, key=lambda node: node.folder.offset)
        state = newest.folder.state
        broker_set = state.sets.get(self.cluster.set_name)
        if self.world.chance.randrange(3) == 0:
            self._append(self.world.chance.choice(self._records(state)))
        elif broker_set is not None:
            self._request(self.world.chance.choice(self._requests(broker_set)))
        self._again()

    # -- requests over the wire --------------------------------------------------------------------

    def _request(self, request: RemotingCommand) -> None:
        node = self.cluster.node_at(self.world.chance.choice(self.cluster.controller_names))

        def opened(end: End) -> None:
            wire = Wire(self.world, end, lambda wire, request: None)
            wire.call(request, ANSWER_MS, lambda answer: wire.close("done"))

        self.cluster.network.connect(self, node, node.accept, opened, lambda why: None)

    def _requests(self, known: BrokerSet) -> list[RemotingCommand]:
        name, master = known.broker_name, known.master_broker_id or 1
        any_id = self.world.chance.randint(1, 4)
        return [
            self._apply(name, known.next_broker_id + 90),
            self._apply(name, 1),
            self._register(STRANGER, 1, "b9:1"),
            self._register(name, 1 << 20, "b9:1"),
            self._register(name, any_id, ""),
            self._alter(STRANGER, master, known.master_epoch, known.sync_state_set_epoch, [1, 2]),
            self._alter(name, master, known.master_epoch, known.sync_state_set_epoch, list(known.sync_state_set)),
            self._alter(name, 777, known.master_epoch, known.sync_state_set_epoch, [777]),
            self._alter(name, master, known.master_epoch - 1, known.sync_state_set_epoch, [master, 777]),
            self._alter(name, master, known.master_epoch, known.sync_state_set_epoch - 1, [master, 777]),
            self._alter(name, master, known.master_epoch, known.sync_state_set_epoch, [master, 777]),
            self._alter(name, master, known.master_epoch, known.sync_state_set_epoch, self._others(known)),
            self._elect(STRANGER, 1, designate=False),
            self._elect(name, master, designate=False),
            self._elect(name, 777, designate=True),
            self._elect(name, -1, designate=True),
            self._clean(STRANGER, "1"),
            self._clean(name, ""),
            self._clean(name, ";"),
            *self._ghost_requests(known),
        ]

    def _ghost_requests(self, known: BrokerSet) -> list[RemotingCommand]:
        """A replica that exists in the books only: it gets an id, registers, beats once, and is cleaned away."""
        name = known.broker_name
        ghost = next((one for one in known.replicas if one.register_check_code.startswith("ghost")), None)
        if ghost is None:
            return [self._apply(name, known.next_broker_id, "ghost:1;1")]
        beat = {"clusterName": "DefaultCluster", "brokerName": name, "brokerId": str(ghost.broker_id),
                "brokerAddr": "ghost:1", "heartbeatTimeoutMills": "3000", "regentIncarnation": "x"}  # fmt: skip
        return [
            self._register(name, ghost.broker_id, "ghost:1"),
            RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, beat),
            self._clean(name, str(ghost.broker_id)),
        ]

    @staticmethod
    def _others(known: BrokerSet) -> list[int]:
        return [i for i in known.sync_state_set if i != known.master_broker_id] or [777]

    def _apply(self, name: str, broker_id: int, check_code: str = "b9:1;1") -> RemotingCommand:
        ext = {"clusterName": "DefaultCluster", "brokerName": name, "appliedBrokerId": str(broker_id),
               "registerCheckCode": check_code}  # fmt: skip
        return RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext)

    def _register(self, name: str, broker_id: int, address: str) -> RemotingCommand:
        ext = {"clusterName": "DefaultCluster", "brokerName": name, "brokerId": str(broker_id),
               "brokerAddress": address, "regentClean": "true", "regentIncarnation": "x"}  # fmt: skip
        return RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, ext)

    def _alter(self, name: str, master: int, epoch: int, set_epoch: int, members: list[int]) -> RemotingCommand:
        ext = {"brokerName": name, "masterBrokerId": str(master), "masterEpoch": str(epoch)}
        body = fastjson.dumps({"syncStateSet": members, "syncStateSetEpoch": set_epoch})
        return RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body)

    def _elect(self, name: str, broker_id: int, *, designate: bool) -> RemotingCommand:
        ext = {"clusterName": "DefaultCluster", "brokerName": name, "brokerId": str(broker_id),
               "designateElect": "true" if designate else "false"}  # fmt: skip
        return RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, ext)

    def _clean(self, name: str, ids: str) -> RemotingCommand:
        ext = {"clusterName": "DefaultCluster", "brokerName": name, "isCleanLivingBroker": "false"}
        if ids:
            ext["brokerControllerIdsToClean"] = ids
        return RemotingCommand.request(RequestCode.CLEAN_BROKER_DATA, ext)

    def designate(self, broker_id: int) -> None:
        """A planned change of the master."""
        self._request(self._elect(self.cluster.set_name, broker_id, designate=True))

    # -- records that no controller would write ----------------------------------------------------

    def _append(self, make: Callable[[], bytes]) -> None:
        self.cluster.journal.append(self, make(), lambda offset: None)

    def _records(self, state: ControllerState) -> list[Callable[[], bytes]]:
        now = self._envelope(state)
        stale = self._envelope(state, term=state.term - 1)
        foreign = self._envelope(state, cluster_id="another")
        late = self._envelope(state, applied_offset=0)
        elect = ("DefaultCluster", STRANGER, -1, False, None, None, ())
        return [
            lambda: b"garbage",
            lambda: encode(ElectMaster(now, *elect))[:-3],
            lambda: MARKER + bytes(8) + b"unknown schema",
            lambda: encode(ClusterFormed(now, 1, {}, COMMAND_FINGERPRINTS)),
            lambda: encode(ClaimLeadership(now, state.term - 1, "c9", "c9", "old")),
            lambda: encode(ElectMaster(stale, *elect)),
            lambda: encode(ElectMaster(foreign, *elect)),
            lambda: encode(ElectMaster(late, *elect)),
            lambda: encode(ChangeSettings(now, {"dedupeWindowOffsets": "none"})),
            lambda: encode(ActivateRules(now, 1, COMMAND_FINGERPRINTS)),
            lambda: encode(ActivateRules(now, 2, ("not a fingerprint",))),
            lambda: self._reused(state),
        ]

    def _envelope(
        self, state: ControllerState, term: int | None = None, cluster_id: str = "", applied_offset: int | None = None
    ) -> Envelope:
        return Envelope(
            command_id=self.world.chance.getrandbits(128).to_bytes(16, "big"),
            cluster_id=cluster_id or self.cluster.cluster_id,
            term=state.term if term is None else term,
            issuer="operator",
            issued_at_ms=self.world.wall_ms,
            cause="odd",
            applied_offset=self.cluster.journal.end_offset() if applied_offset is None else applied_offset,
        )

    def _reused(self, state: ControllerState) -> bytes:
        """Two commands of different kinds under one id; the first of them is decided, the second is not."""
        envelope = self._envelope(state)
        self._append(lambda: encode(ChangeSettings(envelope, {})))
        return encode(ElectMaster(envelope, "DefaultCluster", STRANGER, -1, False, None, None, ()))
