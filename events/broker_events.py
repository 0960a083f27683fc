"""The facts that brokers report (DESIGN 7). They are never commands.

Responsible for their shape; field meanings stand in `schemas/broker_events/*.avsc`.
Refuses to know their readers: losing one changes no decision.
"""

from typing import get_args

from msgspec import Struct


class BrokerEventHeader(Struct, frozen=True, gc=False):
    """Which start of which broker reported an event, and when."""

    event_id: bytes
    cluster_name: str
    broker_name: str
    broker_id: int
    incarnation: str
    at_ms: int
    sequence: int


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


class ActingBegan(Struct, frozen=True, gc=False):
    """A slave began to act for its master, which is away."""

    header: BrokerEventHeader
    min_address: str


class ActingOver(Struct, frozen=True, gc=False):
    """A slave acts for its master no more."""

    header: BrokerEventHeader
    min_broker_id: int
    min_address: str


class MinBrokerIdChanged(Struct, frozen=True, gc=False):
    """Another broker is the smallest of a set without controllers, as this one sees it."""

    header: BrokerEventHeader
    min_broker_id: int
    min_address: str


class MasterExpelled(Struct, frozen=True, gc=False):
    """Name servers dropped a master that lives."""

    header: BrokerEventHeader
    reason: str
    fenced: bool


class PreOnlineOver(Struct, frozen=True, gc=False):
    """A broker of a set without controllers knows what became of it meanwhile, and goes online."""

    header: BrokerEventHeader
    min_broker_id: int
    left_out: tuple[int, ...]


class PreOnlineWithoutMember(Struct, frozen=True, gc=False):
    """A master on its way back goes on without the link, or without the tables, of a member."""

    header: BrokerEventHeader
    member_broker_id: int
    reason: str
    tables: bool


class EscapeBatch(Struct, frozen=True, gc=False):
    """What became of messages of one kind that left a set without a master, towards one other
    set.
    """

    header: BrokerEventHeader
    kind: str
    to_broker_name: str
    messages: int
    soft: int
    failed: int
    size_bytes: int
    topics: tuple[str, ...]
    over_ms: int


class EscapeWaits(Struct, frozen=True, gc=False):
    """Messages are due in a set without a master, and nobody takes them."""

    header: BrokerEventHeader
    messages: int
    reasons: tuple[str, ...]
    waiting: tuple[int, ...]


class LockRounds(Struct, frozen=True, gc=False):
    """What became of locks that clients of one group asked a set without controllers for."""

    header: BrokerEventHeader
    consumer_group: str
    rounds: int
    clients: int
    queues_won: int
    queues_lost: int
    asked: int
    silent: int
    over_ms: int


class LockVotes(Struct, frozen=True, gc=False):
    """Votes that a broker gave in rounds of other members of its set, for one group."""

    header: BrokerEventHeader
    consumer_group: str
    requests: int
    queues_given: int
    queues_refused: int
    over_ms: int


class MemberGroupSeen(Struct, frozen=True, gc=False):
    """A set whose slaves may act has other members; a name server reports it."""

    header: BrokerEventHeader
    name_server: str
    acting_master: bool
    broker_ids: tuple[int, ...]
    addresses: tuple[str, ...]
    left_ids: tuple[int, ...]
    left_why: tuple[str, ...]


class NameServerMinIdChanged(Struct, frozen=True, gc=False):
    """The smallest id of a set whose slaves may act is another one; a name server reports it."""

    header: BrokerEventHeader
    name_server: str
    min_broker_id: int
    min_address: str
    offline_address: str
    told: int


class ActingRouteGiven(Struct, frozen=True, gc=False):
    """A name server shows a slave in the place of the master from now on, and reports it."""

    header: BrokerEventHeader
    name_server: str
    acting_broker_id: int
    acting_address: str


class ActingRouteWithdrawn(Struct, frozen=True, gc=False):
    """A name server shows a slave in the place of the master no more, and reports it."""

    header: BrokerEventHeader
    name_server: str
    acting_broker_id: int
    acting_address: str
    reason: str
    given_for_ms: int


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
    | ActingBegan
    | ActingOver
    | MinBrokerIdChanged
    | MasterExpelled
    | PreOnlineOver
    | PreOnlineWithoutMember
    | EscapeBatch
    | EscapeWaits
    | LockRounds
    | LockVotes
    | MemberGroupSeen
    | NameServerMinIdChanged
    | ActingRouteGiven
    | ActingRouteWithdrawn
)

BROKER_EVENTS: tuple[type, ...] = get_args(BrokerEvent)
