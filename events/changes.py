"""The changes: what an accepted command did to the state, with all results in them.

Responsible for their shape; field meanings stand in `schemas/changes/*.avsc`.
Refuses to know how they were decided.
"""

from collections.abc import Mapping

from msgspec import Struct

from events.envelope import ImportedReplica, MemberPosition


class ClusterStarted(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """The cluster exists."""

    cluster_id: str
    rules_version: int
    settings: Mapping[str, str]
    fingerprints: tuple[str, ...]


class LeadershipClaimed(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A controller decides from here on."""

    term: int
    controller_id: str
    controller_address: str
    release: str


class BrokerIdApplied(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A replica id was given away."""

    broker_name: str
    cluster_name: str
    broker_id: int
    broker_address: str
    register_check_code: str
    next_broker_id: int


class BrokerRegistered(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A start of a replica is known."""

    broker_name: str
    broker_id: int
    broker_address: str
    ha_address: str | None
    incarnation: str | None
    clean: bool
    last_epoch: int
    end_offset: int
    restarted_master: bool
    highest_epoch_seen: int


class MasterElected(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A set has a master in a new epoch."""

    broker_name: str
    master_broker_id: int
    master_address: str
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    highest_epoch_seen: int


class MasterCleared(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A set has no master from here on."""

    broker_name: str
    previous_master: int
    master_epoch: int
    reason: str
    highest_epoch_seen: int


class SyncStateSetAltered(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """The SyncStateSet changed."""

    broker_name: str
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    joined: tuple[int, ...]
    left: tuple[int, ...]
    reason: str
    unclean_members: tuple[int, ...]
    highest_epoch_seen: int


class BrokersCleaned(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Replicas were forgotten; ids and epochs go on where they stood (S9)."""

    broker_name: str
    broker_ids: tuple[int, ...]
    whole_set: bool


class SettingsChanged(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Settings that rules read have new values."""

    settings: Mapping[str, str]


class RulesActivated(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Another version of rules or schemas is in force."""

    rules_version: int
    fingerprints: tuple[str, ...]


class MasterAtRisk(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """The mastership that was just elected may lack acknowledged messages (S5)."""

    broker_name: str
    master_epoch: int


class BrokerSetImported(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A set stands here as another controller left it."""

    broker_name: str
    cluster_name: str
    next_broker_id: int
    replicas: tuple[ImportedReplica, ...]
    master_broker_id: int | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    highest_epoch_seen: int
    source: str


class MembersRemembered(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Who holds all that was acknowledged although it is no member, and who ever was one (S14)."""

    broker_name: str
    remembered: tuple[int, ...]
    former: tuple[int, ...]


class MinimumTold(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """With how few members a replica acknowledges when it is master."""

    broker_name: str
    broker_id: int
    min_in_sync: int


class PositionsShown(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """What the evidence of a command showed that members hold (S15)."""

    broker_name: str
    positions: tuple[MemberPosition, ...]


class SetDoubted(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A set has no master and no members until its replicas have reported what they hold (S11)."""

    broker_name: str
    uncertain: tuple[int, ...]
    master_epoch: int
    sync_state_set_epoch: int
    highest_epoch_seen: int


Change = (
    ClusterStarted
    | LeadershipClaimed
    | BrokerIdApplied
    | BrokerRegistered
    | MasterElected
    | MasterCleared
    | SyncStateSetAltered
    | BrokersCleaned
    | SettingsChanged
    | RulesActivated
    | MasterAtRisk
    | BrokerSetImported
    | MembersRemembered
    | MinimumTold
    | PositionsShown
    | SetDoubted
)

CHANGES: tuple[type, ...] = (
    ClusterStarted,
    LeadershipClaimed,
    BrokerIdApplied,
    BrokerRegistered,
    MasterElected,
    MasterCleared,
    SyncStateSetAltered,
    BrokersCleaned,
    SettingsChanged,
    RulesActivated,
    MasterAtRisk,
    BrokerSetImported,
    MembersRemembered,
    MinimumTold,
    PositionsShown,
    SetDoubted,
)
