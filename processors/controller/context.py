"""What the parts of one controller core share: who it is, what it may read, and what time it is.

Responsible for: the configuration, the view of the folder, liveness, leadership and the clock
handed in by the last call; envelopes are made here. Refuses to know: any request or effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import structs

from brokers.remoting.addresses import host_of
from events.changes import MasterElected
from events.envelope import Envelope, ReplicaEvidence
from events.outcomes import LABEL_AT_RISK, Outcome
from processors.controller.leadership import Leadership
from processors.controller.metrics import Metrics
from processors.controller.overload import Patience
from processors.controller.peer_reports import PeerReports
from processors.fold.candidates import REASON_STALE
from processors.fold.rules import SUPPORTED_RULES
from processors.fold.state import BrokerSet, ControllerState, Replica
from processors.liveness.replicas import Liveness
from processors.liveness.role_taking import RoleTakings

REQUEST_DEADLINE_MS = 2_500
"""Below the 3 s that brokers wait (RULES 10.4)."""
LOGGER_ROOTS = frozenset({"regent"})
"""Loggers of ours begin with the name of a package of ours."""


def begins_as_ours(name: str) -> bool:
    """True for the name of a package of ours, and whatever is below one."""
    return name.partition(".")[0] in LOGGER_ROOTS


class FolderView(Protocol):
    """What the core reads of the folder; it never writes."""

    @property
    def state(self) -> ControllerState: ...
    @property
    def offset(self) -> int: ...
    @property
    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Who this controller is. `peers`: controller id -> advertised address, itself included or
    not.
    """

    controller_id: str
    address: str
    cluster_id: str
    peers: Mapping[str, str] = field(default_factory=dict)
    release: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    request_deadline_ms: int = REQUEST_DEADLINE_MS
    supported_rules: tuple[int, ...] = SUPPORTED_RULES
    http_address: str = ""
    requests_max: int = 20_000
    """Requests that may wait at once, of each kind; more are told that the system is busy."""
    networks: Mapping[str, str] = field(default_factory=dict)
    """CIDR -> the address of this controller that those who ask from that network can reach."""
    startup: Mapping[str, str] = field(default_factory=dict)
    """What 1010 shows beside the recorded settings, under RocketMQ's names."""
    is_of_peer: Callable[[str, str], bool] = lambda peer_id, address: True
    """Whether the configured controller of that id speaks from that "host:port"; the empty id is
    any of them.
    """
    knows_logger: Callable[[str], bool] = begins_as_ours
    """Whether a level can be set for that name."""


class CoreContext:
    """Shared by the parts of one core. `now_ms` is monotonic; `wall_ms` is for stamps only."""

    def __init__(
        self,
        config: CoreConfig,
        folder: FolderView,
        ids: Iterator[bytes],
        metrics: Metrics | None = None,
    ) -> None:
        self.config = config
        self.metrics = metrics or Metrics()
        self.folder = folder
        self.ids = ids
        self.liveness = Liveness()
        self.takings = RoleTakings()
        self.patience = Patience()
        self.leadership = Leadership(config.controller_id, config.peers)
        self.peer_reports = PeerReports(self.leadership.peers)
        self.leading_since_ms = 0
        self.now_ms = 0
        self.wall_skew_ms = 0
        self._at_risk: dict[str, int] = {}

    def clock(self, now_ms: int, wall_ms: int | None = None) -> None:
        """Take the time of a call; without a wall clock the last known distance goes on."""
        self.now_ms = now_ms
        if wall_ms is not None:
            self.wall_skew_ms = wall_ms - now_ms

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_skew_ms

    @property
    def state(self) -> ControllerState:
        return self.folder.state

    @property
    def is_active(self) -> bool:
        return self.leadership.is_active

    def leader_address(self) -> str | None:
        """The address of the controller that leads, as far as can be told; None when nobody
        does.
        """
        if self.is_active:
            return self.config.address
        if self.state.leader_id is None or self.leadership.leader_lost_ms(self.now_ms) is not None:
            return None
        return self.state.leader_address

    def envelope(self, command_id: bytes, cause: str, requested_by: str | None = None) -> Envelope:
        """The envelope of a command issued now, in the term that is known here (design D1, D6)."""
        return Envelope(
            command_id=command_id,
            cluster_id=self.state.cluster_id or self.config.cluster_id,
            term=self.state.term,
            issuer=self.config.controller_id,
            issued_at_ms=self.wall_ms,
            cause=cause,
            requested_by=requested_by,
            applied_offset=self.folder.offset,
            applied_digest=self.folder.digest if self.folder.offset >= 0 else b"",
        )

    def evidence_of(
        self, name: str, asker: int | None, also: str = "", /
    ) -> tuple[ReplicaEvidence, ...]:
        """Evidence for a set's replicas. Replicas that are silent under the set's cluster name are
        also looked up under `also`.
        """
        broker_set = self.state.sets.get(name)
        rows = self.liveness.evidence(broker_set, self.now_ms, asker)
        if broker_set is None or also in ("", broker_set.cluster_name):
            return rows
        there = self.liveness.evidence(
            structs.replace(broker_set, cluster_name=also), self.now_ms, asker
        )
        heard = [other.alive or other.reason == REASON_STALE for other in there]
        return tuple(
            there[at] if heard[at] and not row.alive else row for at, row in enumerate(rows)
        )

    def is_alive(self, broker_set: BrokerSet, replica: Replica) -> bool:
        return self.liveness.is_alive(broker_set, replica, self.now_ms)

    def replica_hosts(self) -> frozenset[str]:
        """The hosts of registered replicas: where they registered, and from where they are
        heard.
        """
        hosts: set[str] = set()
        for broker_set in self.state.sets.values():
            for replica in broker_set.replicas:
                pulse = self.liveness.pulse(
                    (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
                )
                if replica.is_registered:
                    hosts |= {host_of(replica.address), "" if pulse is None else pulse.host}
        return frozenset(hosts - {""})

    def note_elections(self, outcome: Outcome) -> None:
        """Remember which masterships may lack messages (design S5), while rules 1 do not record
        it.
        """
        for change in outcome.changes:
            if isinstance(change, MasterElected):
                if LABEL_AT_RISK in outcome.labels:
                    self._at_risk[change.broker_name] = change.master_epoch
                else:
                    self._at_risk.pop(change.broker_name, None)

    def is_at_risk(self, name: str | None) -> bool:
        """True when the set's current mastership was labelled AT_RISK when it was decided."""
        broker_set = None if name is None else self.state.sets.get(name)
        if broker_set is None:
            return False
        return (
            broker_set.at_risk
            or self._at_risk.get(broker_set.broker_name) == broker_set.master_epoch
        )
