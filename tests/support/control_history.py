"""A control history under construction: commands go through the codec into a real `Folder`.

Responsible for envelopes and for checking after each record what must hold after every record.
Knows no rule.
"""

from events.changes import MasterCleared, MembersRemembered, PositionsShown, SyncStateSetAltered
from events.codec import COMMAND_FINGERPRINTS, decode, encode, fingerprint_of
from events.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ChangeSettings,
    ClaimLeadership,
    CleanBrokerData,
    ClusterFormed,
    Command,
    DoubtBrokerSet,
    ElectMaster,
    ImportBrokerSet,
    RegisterBroker,
)
from events.envelope import Envelope, ImportedReplica, ReplicaEvidence
from events.outcomes import Outcome
from processors.fold.decide_positions import position_of
from processors.fold.folder import Applied, Folder
from processors.fold.rules import RULES, RULES_VERSION
from processors.fold.state import BrokerSet, check_invariants

CLUSTER_ID = "cluster-1"
CLUSTER = "DefaultCluster"
NAME = "broker-a"
OF_FAILED_ELECTIONS = {MasterCleared, SyncStateSetAltered, MembersRemembered, PositionsShown}
# What clusters under rules 2 and under rules 1 were formed with.
SECOND_FINGERPRINTS = tuple(sorted(RULES[2].fingerprints))
FIRST_FINGERPRINTS = tuple(m for m in SECOND_FINGERPRINTS if m != fingerprint_of(ImportBrokerSet))


def address(broker_id: int) -> str:
    """Return the address that a replica of these histories has."""
    return f"h{broker_id}:10911"


def seen(
    broker_id: int,
    *,
    alive: bool = True,
    epoch: int = 1,
    offset: int = 1000,
    priority: int = 2_147_483_647,
    incarnation: str | None = "",
    reason: str = "heartbeat",
) -> ReplicaEvidence:
    """Return evidence; an incarnation of "" stands for the first one of that replica."""
    incarnation = f"i{broker_id}" if incarnation == "" else incarnation
    return ReplicaEvidence(
        broker_id, alive, reason, 100, epoch, offset, offset, priority, incarnation
    )


class History:
    """A log that grows by commands, and the folder that follows it."""

    def __init__(
        self, *, formed: bool = True, led: bool = True, rules: int = RULES_VERSION
    ) -> None:
        self.folder = Folder()
        self.records: list[bytes] = []
        self._ids = 0
        if formed:
            marks = {1: FIRST_FINGERPRINTS, 2: SECOND_FINGERPRINTS}.get(rules, COMMAND_FINGERPRINTS)
            self.do(ClusterFormed(self.envelope(), rules, {}, marks))
        if formed and led:
            self.do(ClaimLeadership(self.envelope(), 0, "n0", "n0:9878", "0.1.0"))

    @property
    def set(self) -> BrokerSet:
        """The set that these histories are about."""
        return self.folder.state.sets[NAME]

    def envelope(self, **other: object) -> Envelope:
        """Return the envelope of a well-behaved leader, but for what `other` names."""
        self._ids += 1
        values: dict[str, object] = {
            "command_id": self._ids.to_bytes(16, "big"),
            "cluster_id": CLUSTER_ID,
            "term": self.folder.state.term,
            "issuer": "n0",
            "issued_at_ms": 1_700_000_000_000 + self._ids,
            "cause": "asked",
            "applied_offset": self.folder.offset,
            "applied_digest": self.folder.digest if self.folder.offset >= 0 else b"",
        }
        return Envelope(**{**values, **other})  # type: ignore[arg-type]

    def do(self, command: Command) -> Outcome:
        """Append and fold a command; return its outcome."""
        return self.append(encode(command)).outcome

    def append(self, data: bytes) -> Applied:
        """Append and fold bytes; check what must hold after every record."""
        self.records.append(data)
        before = self.folder.state
        applied = self.folder.apply(self.folder.next_offset, data)
        outcome = applied.outcome
        assert check_invariants(self.folder.state) == []
        assert applied.digest_agrees is not False
        assert decode(encode(outcome)) == outcome
        if not outcome.changes:
            assert self.folder.state == before
        if not outcome.accepted:
            # A failed election may clear the master, or take out who shows that it lost data.
            assert {type(c) for c in outcome.changes} <= OF_FAILED_ELECTIONS
        return applied

    def claim(self, expected_term: int, controller_id: str = "n1") -> Outcome:
        """A controller claims leadership."""
        return self.do(
            ClaimLeadership(self.envelope(), expected_term, controller_id, "n1:9878", "0.1.0")
        )

    def doubt(self, lifted: int = 1000, broker_name: str = NAME) -> Outcome:
        """The log may have lost decisions about the set."""
        return self.do(DoubtBrokerSet(self.envelope(), broker_name, lifted))

    def setting(self, name: str, value: str) -> Outcome:
        """Change one setting."""
        return self.do(ChangeSettings(self.envelope(), {name: value}))

    def apply_id(self, broker_id: int, code: str | None = None) -> Outcome:
        """A replica takes an id."""
        code = f"{address(broker_id)};secret" if code is None else code
        return self.do(ApplyBrokerId(self.envelope(), CLUSTER, NAME, broker_id, code))

    def register(self, broker_id: int, incarnation: str = "", **other: object) -> Outcome:
        """A start of a replica of ours registers; unless told otherwise its log is as long as it
        ever showed.
        """
        broker_set = self.folder.state.sets.get(NAME)
        row = broker_set and position_of(broker_set.positions, broker_id)
        values: dict[str, object] = {
            "broker_address": address(broker_id),
            "ha_address": f"h{broker_id}:10912",
            "incarnation": incarnation or f"i{broker_id}",
            "clean": True,
            "last_epoch": row.epoch if row else -1,
            "end_offset": row.end_offset if row else 0,
        }
        values |= other
        head = (self.envelope(), CLUSTER, NAME, broker_id)
        return self.do(RegisterBroker(*head, **values))  # type: ignore[arg-type]

    def register_java(self, broker_id: int, broker_address: str = "", **heard: int) -> Outcome:
        """A Java broker registers: it sends none of our fields. `heard`: what the leader puts
        beside it.
        """
        where = broker_address or address(broker_id)
        return self.do(RegisterBroker(self.envelope(), CLUSTER, NAME, broker_id, where, **heard))

    def elect(
        self,
        broker_id: int = -1,
        *evidence: ReplicaEvidence,
        designate: bool = False,
        master_epoch: int | None = None,
        set_epoch: int | None = None,
        waited_ms: int | None = None,
    ) -> Outcome:
        """Somebody wants a master."""
        return self.do(
            ElectMaster(
                self.envelope(),
                CLUSTER,
                NAME,
                broker_id,
                designate,
                master_epoch,
                set_epoch,
                evidence,
                waited_ms,
            )
        )

    def alter(
        self,
        members: tuple[int, ...],
        *evidence: ReplicaEvidence,
        master: int | None = None,
        master_epoch: int | None = None,
        set_epoch: int | None = None,
        lost: tuple[int, ...] = (),
    ) -> Outcome:
        """The master asks for a set; its own view is the current one unless said otherwise."""
        now = self.folder.state.sets.get(NAME, BrokerSet(CLUSTER, NAME))
        return self.do(
            AlterSyncStateSet(
                self.envelope(),
                NAME,
                (now.master_broker_id or 0) if master is None else master,
                now.master_epoch if master_epoch is None else master_epoch,
                now.sync_state_set_epoch if set_epoch is None else set_epoch,
                members,
                evidence,
                lost,
            )
        )

    def clean(
        self, ids: tuple[int, ...] | None, *evidence: ReplicaEvidence, living: bool = False
    ) -> Outcome:
        """The operator forgets replicas."""
        return self.do(CleanBrokerData(self.envelope(), CLUSTER, NAME, ids, living, evidence))

    def import_set(self, *ids: int, **other: object) -> Outcome:
        """A set of Java replicas comes over; the first of `ids` is its master, all are members."""
        values: dict[str, object] = {
            "cluster_name": CLUSTER,
            "broker_name": NAME,
            "next_broker_id": max(ids, default=0) + 1,
            "master_broker_id": ids[0] if ids else None,
            "master_epoch": 7,
            "sync_state_set": tuple(sorted(ids)),
            "sync_state_set_epoch": 9,
            "replicas": tuple(ImportedReplica(i, address(i)) for i in ids),
            "source": "java:9878",
            "evidence_epoch": 7,
        }
        return self.do(ImportBrokerSet(self.envelope(), **{**values, **other}))  # type: ignore[arg-type]


def with_replicas(*ids: int, rules: int = RULES_VERSION) -> History:
    """Return a history in which these replicas, 1 to n, have ids and are registered."""
    history = History(rules=rules)
    for broker_id in ids:
        assert history.apply_id(broker_id).accepted
        assert history.register(broker_id).accepted
    return history


def with_master(
    *members: int, replicas: tuple[int, ...] = (1, 2, 3), rules: int = RULES_VERSION
) -> History:
    """Return a history in which the first of `members` is master and all of them in the set."""
    history = with_replicas(*replicas, rules=rules)
    assert history.elect(members[0]).accepted
    if len(members) > 1:
        everyone = tuple(seen(broker_id) for broker_id in members)
        assert history.alter(tuple(sorted(members)), *everyone).accepted
    return history


def verdicts(outcome: Outcome) -> dict[int, str]:
    """Return id -> verdict of an election."""
    return {row.broker_id: row.verdict for row in outcome.candidates}
