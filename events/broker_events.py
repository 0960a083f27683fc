"""
The facts that brokers report (design section 7). They are never commands.

Responsible for their shape; field meanings stand in `schemas/broker_events/*.avsc`.
Refuses to know who reads them: losing one changes no decision.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerEventHeader:
    """Which start of which broker reported an event, and when."""

    event_id: bytes
    cluster_name: str
    broker_name: str
    broker_id: int
    incarnation: str
    at_ms: int
    sequence: int


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker process came up."""

    header: BrokerEventHeader
    clean: bool
    recovered_end_offset: int
    cut_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerStopped:
    """A broker process goes down in an orderly way."""

    header: BrokerEventHeader
    reason: str


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """A broker took a role."""

    header: BrokerEventHeader
    role: str
    master_epoch: int
    master_broker_id: int
    source: str


@dataclass(frozen=True, slots=True)
class EpochAppended:
    """An entry was added to the epoch file."""

    header: BrokerEventHeader
    epoch: int
    start_offset: int
    last_store_ms: int


@dataclass(frozen=True, slots=True)
class FirstMessageAcknowledged:
    """A master acknowledged its first message in an epoch."""

    header: BrokerEventHeader
    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """The end of a log was cut off."""

    header: BrokerEventHeader
    from_offset: int
    to_offset: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class HaLinkUp:
    """An HA connection was opened."""

    header: BrokerEventHeader
    peer_broker_id: int
    direction: str


@dataclass(frozen=True, slots=True)
class HaLinkDown:
    """An HA connection is gone."""

    header: BrokerEventHeader
    peer_broker_id: int
    direction: str
    reason: str


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """A slave compared its epochs with its master's."""

    header: BrokerEventHeader
    peer_broker_id: int
    consistent_offset: int
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SlaveCaughtUp:
    """A slave reached the confirm offset."""

    header: BrokerEventHeader
    slave_broker_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class SlaveFellBehind:
    """A slave left waiting bytes unacknowledged for too long."""

    header: BrokerEventHeader
    slave_broker_id: int
    lag_bytes: int


@dataclass(frozen=True, slots=True)
class ConfirmCrossedEpoch:
    """The confirm offset moved across the start of an epoch."""

    header: BrokerEventHeader
    epoch: int
    confirm_offset: int


@dataclass(frozen=True, slots=True)
class SyncStateSetProposed:
    """A master proposed a SyncStateSet."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


@dataclass(frozen=True, slots=True)
class SyncStateSetAccepted:
    """The controller accepted a proposal."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


@dataclass(frozen=True, slots=True)
class SyncStateSetRefused:
    """The controller refused a proposal."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


@dataclass(frozen=True, slots=True)
class IdentityWritten:
    """The identity file was written."""

    header: BrokerEventHeader
    broker_id_applied: int
    retried: bool


@dataclass(frozen=True, slots=True)
class StoreRecovered:
    """A store was opened."""

    header: BrokerEventHeader
    end_offset: int
    cut_bytes: int
    abnormal: bool


@dataclass(frozen=True, slots=True)
class RequestsForwarded:
    """Sends were forwarded to the master since the last such event."""

    header: BrokerEventHeader
    count: int
    to_broker_id: int


BrokerEvent = (
    BrokerStarted
    | BrokerStopped
    | RoleChanged
    | EpochAppended
    | FirstMessageAcknowledged
    | LogTruncated
    | HaLinkUp
    | HaLinkDown
    | HandshakeResult
    | SlaveCaughtUp
    | SlaveFellBehind
    | ConfirmCrossedEpoch
    | SyncStateSetProposed
    | SyncStateSetAccepted
    | SyncStateSetRefused
    | IdentityWritten
    | StoreRecovered
    | RequestsForwarded
)

BROKER_EVENTS: tuple[type, ...] = (
    BrokerStarted,
    BrokerStopped,
    RoleChanged,
    EpochAppended,
    FirstMessageAcknowledged,
    LogTruncated,
    HaLinkUp,
    HaLinkDown,
    HandshakeResult,
    SlaveCaughtUp,
    SlaveFellBehind,
    ConfirmCrossedEpoch,
    SyncStateSetProposed,
    SyncStateSetAccepted,
    SyncStateSetRefused,
    IdentityWritten,
    StoreRecovered,
    RequestsForwarded,
)
