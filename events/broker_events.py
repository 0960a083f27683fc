"""The facts that brokers report (DESIGN 7). They are never commands.

Responsible for their shape; field meanings stand in `schemas/broker_events/*.avsc`.
Refuses to know their readers: losing one changes no decision.
"""

from typing import get_args

from msgspec import Struct

from events.acting_events import AboutActing
from events.event_header import BrokerEventHeader as BrokerEventHeader
from events.majority_events import AboutMajority


class BrokerStarted(Struct, frozen=True, gc=False):
    """A broker process came up."""

    header: BrokerEventHeader
    clean: bool
    recovered_end_offset: int
    cut_bytes: int


class BrokerStopped(Struct, frozen=True, gc=False):
    """A broker process goes down in an orderly way."""

    header: BrokerEventHeader
    reason: str


class RoleChanged(Struct, frozen=True, gc=False):
    """A broker took a role."""

    header: BrokerEventHeader
    role: str
    master_epoch: int
    master_broker_id: int
    source: str


class EpochAppended(Struct, frozen=True, gc=False):
    """An entry was added to the epoch file."""

    header: BrokerEventHeader
    epoch: int
    start_offset: int
    last_store_ms: int


class FirstMessageAcknowledged(Struct, frozen=True, gc=False):
    """A master acknowledged its first message in an epoch."""

    header: BrokerEventHeader
    epoch: int
    offset: int


class LogTruncated(Struct, frozen=True, gc=False):
    """The end of a log was cut off."""

    header: BrokerEventHeader
    from_offset: int
    to_offset: int
    epoch: int
    reason: str


class HaLinkUp(Struct, frozen=True, gc=False):
    """An HA connection was opened."""

    header: BrokerEventHeader
    peer_broker_id: int
    direction: str


class HaLinkDown(Struct, frozen=True, gc=False):
    """An HA connection is gone."""

    header: BrokerEventHeader
    peer_broker_id: int
    direction: str
    reason: str


class HandshakeResult(Struct, frozen=True, gc=False):
    """A slave compared its epochs with its master's."""

    header: BrokerEventHeader
    peer_broker_id: int
    consistent_offset: int
    ok: bool
    reason: str


class SlaveCaughtUp(Struct, frozen=True, gc=False):
    """A slave reached the confirm offset."""

    header: BrokerEventHeader
    slave_broker_id: int
    offset: int


class SlaveFellBehind(Struct, frozen=True, gc=False):
    """A slave left waiting bytes unacknowledged for too long."""

    header: BrokerEventHeader
    slave_broker_id: int
    lag_bytes: int


class ConfirmCrossedEpoch(Struct, frozen=True, gc=False):
    """The confirm offset moved across the start of an epoch."""

    header: BrokerEventHeader
    epoch: int
    confirm_offset: int


class SyncStateSetProposed(Struct, frozen=True, gc=False):
    """A master proposed a SyncStateSet."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


class SyncStateSetAccepted(Struct, frozen=True, gc=False):
    """The controller accepted a proposal."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


class SyncStateSetRefused(Struct, frozen=True, gc=False):
    """The controller refused a proposal."""

    header: BrokerEventHeader
    members: tuple[int, ...]
    base_epoch: int
    new_epoch: int
    code: int


class IdentityWritten(Struct, frozen=True, gc=False):
    """The identity file was written."""

    header: BrokerEventHeader
    broker_id_applied: int
    retried: bool


class StoreRecovered(Struct, frozen=True, gc=False):
    """A store was opened."""

    header: BrokerEventHeader
    end_offset: int
    cut_bytes: int
    abnormal: bool


class RequestsForwarded(Struct, frozen=True, gc=False):
    """Sends were forwarded to the master since the last such event."""

    header: BrokerEventHeader
    count: int
    to_broker_id: int


class RecordRefused(Struct, frozen=True, gc=False):
    """A stored message is damaged and is not served."""

    header: BrokerEventHeader
    offset: int
    size: int
    topic: str
    queue_id: int
    reason: str
    found_by: str


class RecordRepaired(Struct, frozen=True, gc=False):
    """A damaged message was replaced by the bytes of another replica."""

    header: BrokerEventHeader
    offset: int
    size: int
    source: str


class LogTrimmed(Struct, frozen=True, gc=False):
    """Old files of a log were deleted."""

    header: BrokerEventHeader
    from_offset: int
    to_offset: int
    reason: str


class DiskFull(Struct, frozen=True, gc=False):
    """A store takes no more messages for want of space."""

    header: BrokerEventHeader
    log_end: int
    reason: str


class DiskWritable(Struct, frozen=True, gc=False):
    """A store that was full takes messages again."""

    header: BrokerEventHeader
    log_end: int
    full_for_ms: int


class HandOverBegun(Struct, frozen=True, gc=False):
    """A master began to hand over and holds writes."""

    header: BrokerEventHeader
    target_broker_id: int
    master_epoch: int
    took_ms: int


class HandOverCompleted(Struct, frozen=True, gc=False):
    """Another replica leads, as a planned hand-over wanted it."""

    header: BrokerEventHeader
    target_broker_id: int
    master_epoch: int
    new_master_epoch: int
    took_ms: int


class HandOverRefused(Struct, frozen=True, gc=False):
    """A hand-over was not begun, or was given up."""

    header: BrokerEventHeader
    target_broker_id: int
    master_epoch: int
    reason: str
    took_ms: int


class HeartbeatGap(Struct, frozen=True, gc=False):
    """A replica was heard again after a long silence; a controller reports it."""

    header: BrokerEventHeader
    silent_broker_id: int
    gap_ms: int
    timeout_ms: int
    was_gone: bool
    restarted: bool


class TableEntriesLeftOut(Struct, frozen=True, gc=False):
    """Entries of a broker's table, stored or copied from a master, are not valid and were left
    out.
    """

    header: BrokerEventHeader
    table: str
    source: str
    count: int
    names: tuple[str, ...]


class LossNoticed(Struct, frozen=True, gc=False):
    """A replica holds less than it acknowledged."""

    header: BrokerEventHeader
    lost_broker_id: int
    claimed_epoch: int
    claimed_offset: int
    acknowledged_offset: int
    why: str


class QueueEndsBehind(Struct, frozen=True, gc=False):
    """A master goes on in front of queue offsets that a slave has seen."""

    header: BrokerEventHeader
    queues: int
    topic: str
    queue_id: int
    master_slot: int
    own_slot: int


class BrokerConfigChanged(Struct, frozen=True, gc=False):
    """An operator changed settings of a running broker."""

    header: BrokerEventHeader
    changes: tuple[str, ...]
    at_next_start: tuple[str, ...]
    source: str
    counter: int


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
    | RecordRefused
    | RecordRepaired
    | LogTrimmed
    | DiskFull
    | DiskWritable
    | HandOverBegun
    | HandOverCompleted
    | HandOverRefused
    | HeartbeatGap
    | TableEntriesLeftOut
    | LossNoticed
    | QueueEndsBehind
    | BrokerConfigChanged
    | AboutActing
    | AboutMajority
)

BROKER_EVENTS: tuple[type, ...] = get_args(BrokerEvent)
