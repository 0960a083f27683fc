"""The commands of the log: what controllers ask the fold to decide (design D1).

Responsible for their shape; field meanings stand in `schemas/commands/*.avsc`.
Refuses to know any rule: a command that can be built may well be refused.
"""

from collections.abc import Mapping

from msgspec import Struct

from events.envelope import UNKNOWN, Envelope, ImportedReplica, ReplicaEvidence


class ClusterFormed(Struct, frozen=True, gc=False):
    """Record 0 of every log."""

    envelope: Envelope
    rules_version: int
    settings: Mapping[str, str]
    fingerprints: tuple[str, ...]


class ClaimLeadership(Struct, frozen=True, gc=False):
    """A controller wants to decide from here on (design D6)."""

    envelope: Envelope
    expected_term: int
    controller_id: str
    controller_address: str
    release: str


class ApplyBrokerId(Struct, frozen=True, gc=False):
    """A new replica takes the id it was offered (RULES 5.2)."""

    envelope: Envelope
    cluster_name: str
    broker_name: str
    applied_broker_id: int
    register_check_code: str


class RegisterBroker(Struct, frozen=True, gc=False):
    """A start of a replica makes itself known; a Java broker leaves the six after its address out.

    `heard_*`: what the issuer heard last of the start before.
    """

    envelope: Envelope
    cluster_name: str
    broker_name: str
    broker_id: int
    broker_address: str
    ha_address: str | None = None
    incarnation: str | None = None
    clean: bool | None = None
    last_epoch: int | None = None
    end_offset: int | None = None
    min_in_sync: int | None = None
    heard_epoch: int | None = None
    heard_offset: int | None = None


class AlterSyncStateSet(Struct, frozen=True, gc=False):
    """The master asks for another SyncStateSet (RULES 5.6)."""

    envelope: Envelope
    broker_name: str
    master_broker_id: int
    expected_master_epoch: int
    expected_set_epoch: int
    new_sync_state_set: tuple[int, ...]
    evidence: tuple[ReplicaEvidence, ...] = ()
    lost_members: tuple[int, ...] = ()


class ElectMaster(Struct, frozen=True, gc=False):
    """Elect a master; `broker_id` is -1 when a controller acts by itself (5.5, 7)."""

    envelope: Envelope
    cluster_name: str
    broker_name: str
    broker_id: int
    designate: bool
    expected_master_epoch: int | None = None
    expected_set_epoch: int | None = None
    evidence: tuple[ReplicaEvidence, ...] = ()
    waited_ms: int | None = None


class CleanBrokerData(Struct, frozen=True, gc=False):
    """Forget some replicas, or the whole set when `broker_ids` is None (5.7)."""

    envelope: Envelope
    cluster_name: str
    broker_name: str
    broker_ids: tuple[int, ...] | None
    clean_living: bool
    evidence: tuple[ReplicaEvidence, ...] = ()


class ImportBrokerSet(Struct, frozen=True, gc=False):
    """Take over a set as another controller left it (rules 2 and later)."""

    envelope: Envelope
    cluster_name: str
    broker_name: str
    next_broker_id: int
    master_broker_id: int | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    replicas: tuple[ImportedReplica, ...]
    source: str
    evidence_epoch: int = UNKNOWN


class DoubtBrokerSet(Struct, frozen=True, gc=False):
    """What the log says of a set may be older than what happened (rules 3 and later)."""

    envelope: Envelope
    broker_name: str
    epochs_lifted: int


class ChangeSettings(Struct, frozen=True, gc=False):
    """Change settings that rules read; those not named stay."""

    envelope: Envelope
    settings: Mapping[str, str]


class ActivateRules(Struct, frozen=True, gc=False):
    """Another version of the rules, or more schemas, from here on (design D3)."""

    envelope: Envelope
    rules_version: int
    fingerprints: tuple[str, ...]


Command = (
    ClusterFormed
    | ClaimLeadership
    | ApplyBrokerId
    | RegisterBroker
    | AlterSyncStateSet
    | ElectMaster
    | CleanBrokerData
    | ChangeSettings
    | ActivateRules
    | ImportBrokerSet
    | DoubtBrokerSet
)

COMMANDS: tuple[type, ...] = (
    ClusterFormed,
    ClaimLeadership,
    ApplyBrokerId,
    RegisterBroker,
    AlterSyncStateSet,
    ElectMaster,
    CleanBrokerData,
    ChangeSettings,
    ActivateRules,
    ImportBrokerSet,
    DoubtBrokerSet,
)
