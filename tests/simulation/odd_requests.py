"""Whoever else talks to controllers and log: operators with odd requests, strangers, garbage.

Responsible for: producing the refusals that no broker runs into, none of which may do harm.
Refuses to know: what the answers are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from events.codec import COMMAND_FINGERPRINTS, MARKER, encode
from events.commands import (
    ActivateRules,
    ChangeSettings,
    ClaimLeadership,
    ClusterFormed,
    ElectMaster,
)
from events.envelope import Envelope, ReplicaEvidence
from processors.fold.state import BrokerSet, ControllerState
from tests.simulation import ghost
from tests.simulation.network import End
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

ANSWER_MS = 3_000
EVERY_MS = (200, 900)
SUSPICION_LATE_MS = (0, 1_500)
STRANGER = "nobody-knows"


class Operator:
    """Sends one odd thing after the other until `stopped`. It never cleans the real set by itself:
    that would be legal.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, "operator"
        self.life, self.up, self.paused = 1, True, False
        self.stopped = False
        self._again()

    def _again(self) -> None:
        if not self.stopped:
            self.world.after(self.world.between(*EVERY_MS), self._act)

    def _state(self) -> ControllerState:
        return max(self.cluster.controllers, key=lambda node: node.folder.offset).folder.state

    def _act(self) -> None:
        state = self._state()
        if self.stopped:
            return
        # a log that does not begin with ClusterFormed is refused by every controller
        if not state.is_formed:
            self._again()
            return
        broker_set = state.sets.get(self.cluster.set_name)
        if self.world.one_in(2):
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
        epoch, set_epoch = known.master_epoch, known.sync_state_set_epoch
        others = [i for i in known.sync_state_set if i != known.master_broker_id] or [777]
        return [
            ghost.apply_id(name, known.next_broker_id + 90, "b9:1;1"),
            ghost.apply_id(name, 1, "b9:1;1"),
            ghost.register(STRANGER, 1, "b9:1"),
            ghost.register(name, 1 << 20, "b9:1"),
            ghost.register(name, self.world.between(1, 4), ""),
            ghost.alter(STRANGER, master, epoch, set_epoch, [1, 2]),
            ghost.alter(name, master, epoch, set_epoch, list(known.sync_state_set)),
            ghost.alter(name, 777, epoch, set_epoch, [777]),
            ghost.alter(name, master, epoch - 1, set_epoch, [master, 777]),
            ghost.alter(name, master, epoch, set_epoch - 1, [master, 777]),
            ghost.alter(name, master, epoch, set_epoch, [master, 777]),
            ghost.alter(name, master, epoch, set_epoch, others),
            ghost.elect(STRANGER, 1),
            ghost.elect(name, master),
            ghost.elect(name, 777, designate=True),
            ghost.elect(name, -1, designate=True),
            ghost.clean(STRANGER, "1"),
            ghost.clean(name, ";"),
        ]

    def designate(self, broker_id: int) -> None:
        """A planned change of the master."""
        self._request(ghost.elect(self.cluster.set_name, broker_id, designate=True))

    def clean(self, broker_id: int, *, living: bool) -> None:
        """A replica shall be forgotten; `living`: whether it lives or not, whatever it holds."""
        self._request(ghost.clean(self.cluster.set_name, str(broker_id), living=living))

    def suspect(self) -> bool:
        """A controller takes a living master for dead, and may be slow in saying so; False: there
        is no master.
        """
        state = self._state()
        known = state.sets.get(self.cluster.set_name)
        if known is None or known.master_broker_id is None:
            return False
        carried = self._carried()
        evidence = tuple(
            ReplicaEvidence(
                one.broker_id,
                lives,
                "heartbeat" if lives else "heartbeat_expired",
                incarnation=one.incarnation,
            )
            for one in known.replicas
            for lives in (one.broker_id != known.master_broker_id and one.broker_id in carried,)
        )
        command = ElectMaster(
            self.envelope(state),
            known.cluster_name,
            known.broker_name,
            -1,
            False,
            known.master_epoch,
            known.sync_state_set_epoch,
            evidence,
        )
        late_ms = self.world.between(*SUSPICION_LATE_MS)

        def say() -> None:
            # An id whose disk was lost in the meantime is nobody's: no controller would hear it.
            if carried <= self._carried():
                self._append(lambda: encode(command))

        self.world.after(late_ms, say)
        return True

    def _carried(self) -> set[int]:
        """Ids that some broker has on its disk: those that could have sent a heartbeat."""
        return {node.broker_id for node in self.cluster.brokers if node.broker_id is not None}

    # -- records that no controller would write ----------------------------------------------------

    def _append(self, make: Callable[[], bytes]) -> None:
        self.cluster.journal.append(self, make(), lambda offset: None)

    def _records(self, state: ControllerState) -> list[Callable[[], bytes]]:
        now = self.envelope(state)
        stale = self.envelope(state, term=state.term - 1)
        foreign = self.envelope(state, cluster_id="another")
        late = self.envelope(state, applied_offset=0)
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

    def envelope(
        self,
        state: ControllerState,
        term: int | None = None,
        cluster_id: str = "",
        applied_offset: int | None = None,
    ) -> Envelope:
        """Of a command that an operator's tool writes into the log by itself."""
        return Envelope(
            command_id=self.world.chance.getrandbits(128).to_bytes(16, "big"),
            cluster_id=cluster_id or self.cluster.cluster_id,
            term=state.term if term is None else term,
            issuer="operator",
            issued_at_ms=self.world.wall_ms,
            cause="odd",
            applied_offset=self.cluster.journal.end_offset()
            if applied_offset is None
            else applied_offset,
        )

    def _reused(self, state: ControllerState) -> bytes:
        """Two commands of different kinds under one id; the first of them is decided, the second is
        not.
        """
        envelope = self.envelope(state)
        self._append(lambda: encode(ChangeSettings(envelope, {})))
        return encode(ElectMaster(envelope, "DefaultCluster", STRANGER, -1, False, None, None, ()))
