"""A control log to fold: the bytes of commands as a busy cluster of many broker sets appends them.

Each set gets ids and registrations, then lives through rounds of: a heartbeat's worth of
registration, a shrink, an expand, an election, a refused proposal. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator

from events.codec import COMMAND_FINGERPRINTS, encode
from events.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ClaimLeadership,
    ClusterFormed,
    Command,
    ElectMaster,
    RegisterBroker,
)
from events.envelope import Envelope, ReplicaEvidence
from processors.fold.folder import Folder
from processors.fold.rules import RULES_VERSION
from processors.fold.state import BrokerSet

CLUSTER = "DefaultCluster"
MEMBERS = (1, 2, 3)
PRIORITY = 2_147_483_647


class ControlLog:
    """Appends by folding, so that every command fits the state it meets."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.refused = 0
        self._folder = Folder()
        self._append(ClusterFormed(self._envelope(), RULES_VERSION, {}, COMMAND_FINGERPRINTS))
        self._append(ClaimLeadership(self._envelope(), 0, "controller-1", "10.0.0.1:9878", "0.1.0"))

    def grow(self, records: int, sets: int) -> None:
        """Until the log has that many records, over that many broker sets."""
        names = [f"broker-{number:03d}" for number in range(sets)]
        for name in names:
            for command in self._arrivals(name):
                self._append(command)
        turn = 0
        while len(self.records) < records:
            turn += 1
            for name in names:
                self._round(name, turn)
        del self.records[records:]

    def _append(self, command: Command) -> None:
        data = encode(command)
        self.records.append(data)
        self.refused += not self._folder.apply(self._folder.next_offset, data).outcome.accepted

    def _envelope(self) -> Envelope:
        folder = self._folder
        return Envelope(
            command_id=len(self.records).to_bytes(16, "big"),
            cluster_id="cluster-1",
            term=folder.state.term,
            issuer="controller-1",
            issued_at_ms=1_700_000_000_000 + len(self.records),
            cause="broker_request",
            requested_by="10.0.0.7:53122",
            applied_offset=folder.offset,
            applied_digest=folder.digest if folder.offset >= 0 else b"",
        )

    def _arrivals(self, name: str) -> Iterator[Command]:
        for member in MEMBERS:
            code = f"10.0.1.{member}:10911;secret"
            yield ApplyBrokerId(self._envelope(), CLUSTER, name, member, code)
            yield self._registration(name, member, 0)
        yield ElectMaster(self._envelope(), CLUSTER, name, 1, False, None, None, self._evidence(0))
        yield self._alteration(name, MEMBERS, 0)

    def _round(self, name: str, turn: int) -> None:
        """One of each kind; after the election the set is whole again by itself (S7)."""
        master = self._set(name).master_broker_id or 1
        other = next(member for member in MEMBERS if member != master)
        self._append(self._registration(name, other, turn))
        self._append(self._alteration(name, tuple(m for m in MEMBERS if m != other), turn))
        self._append(self._alteration(name, MEMBERS, turn))
        self._append(self._alteration(name, MEMBERS, turn, set_epoch=0))
        self._append(
            ElectMaster(
                self._envelope(), CLUSTER, name, other, True, None, None, self._evidence(turn)
            )
        )

    def _set(self, name: str) -> BrokerSet:
        return self._folder.state.sets[name]

    def _registration(self, name: str, member: int, turn: int) -> RegisterBroker:
        address = f"10.0.1.{member}"
        return RegisterBroker(
            self._envelope(),
            CLUSTER,
            name,
            member,
            f"{address}:10911",
            f"{address}:10912",
            f"i{member}",
            True,
            -1,
            turn,
        )

    def _alteration(
        self, name: str, members: tuple[int, ...], turn: int, set_epoch: int | None = None
    ) -> AlterSyncStateSet:
        now = self._set(name)
        epoch = now.sync_state_set_epoch if set_epoch is None else set_epoch
        return AlterSyncStateSet(
            self._envelope(),
            name,
            now.master_broker_id or 0,
            now.master_epoch,
            epoch,
            members,
            self._evidence(turn),
        )

    @staticmethod
    def _evidence(turn: int) -> tuple[ReplicaEvidence, ...]:
        return tuple(
            ReplicaEvidence(
                member,
                True,
                "heartbeat",
                400,
                turn + 1,
                1000 * turn,
                1000 * turn,
                PRIORITY,
                f"i{member}",
            )
            for member in MEMBERS
        )
