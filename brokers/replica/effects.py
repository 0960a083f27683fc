"""What a replica asks its shell to do.

Responsible for: the closed list of effects, as values. They are performed strictly in order; disk
effects are done, and durable where said, before the next one starts: an acknowledgement that stands
behind its bytes is the whole protocol. Refuses to know: how anything is performed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokers.ha.epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class SendBytes:
    """One whole packet, in one write."""

    link_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SendRange:
    """One packet: `header`, then `count` bytes of the commit log from physical `offset` (one
    file).
    """

    link_id: int
    header: bytes
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Close; the replica has forgotten the link already and hears no `link_closed` for it."""

    link_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectHa:
    """Connect to a master's HA address ("host:port"). Replaces an attempt under way; answered by
    `link_opened(outbound=True)` or `connect_failed`.
    """

    address: str


@dataclass(frozen=True, slots=True)
class AppendRaw:
    """Write log bytes at `offset`, the log's end (any file start when the log is empty). Written,
    not synced, as in RocketMQ; `data` is valid only now.
    """

    offset: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Cut the log at `to_offset` (0: empty it) so that the bytes never come back after a crash;
    answered by `truncated`. Not ok, and nothing cut, when no record starts there.
    """

    to_offset: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class CutIncompleteTail:
    """Cut what follows the last complete record, if anything; answered by `truncated`."""


@dataclass(frozen=True, slots=True)
class FindRecord:
    """Whether the log has a whole record between `offset`, where a slave's log ends, and `below`,
    which that slave acknowledged; answered by `record_found`. Found too when the log has nothing
    readable there.
    """

    broker_id: int
    offset: int
    below: int


@dataclass(frozen=True, slots=True)
class CompareLog:
    """How many bytes of `data`, from the front, this log has at `offset`; answered by `compared`.
    `data` is valid only now.
    """

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CutDiverged:
    """Keep a copy of the bytes from `offset` on beside the log, then cut it at the last record
    border in `above` to `offset`; answered by `truncated`, not ok when there is none.
    """

    offset: int
    above: int
    reason: str


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Begin to make durable what is written, beside everything else; nothing waits for it, nothing
    is promised on it. Where a master is gone, what this log holds may be the last copy.
    """


@dataclass(frozen=True, slots=True)
class WriteEpochs:
    """Make the epoch history durable, with the highest master epoch ever heard of. `none_of_seen`:
    no link of that epoch was agreed on yet, so the log holds no byte of it.
    """

    entries: tuple[EpochEntry, ...]
    epoch_seen: int
    none_of_seen: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmMoved:
    """Everything below `offset` is confirmed: release waiters, dispatch to queues."""

    offset: int


@dataclass(frozen=True, slots=True)
class Readable:
    """Everything below `offset` may be read: dispatch to queues. In a set without controllers that
    does not wait for acknowledgements.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Everything below `offset` is on as many replicas as sends wait for: release waiters."""

    offset: int


@dataclass(frozen=True, slots=True)
class ProposeSyncSet:
    """ALTER_SYNC_STATE_SET; answered by `on_alter_result`. The same token again is a retry of the
    same command and carries the same command id.
    """

    token: int
    members: tuple[int, ...]
    base_set_epoch: int
    master_epoch: int
    lost_members: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AskController:
    """Ask for the state of the set (1004); with `elect` ask for an election (1002)."""

    elect: bool


@dataclass(frozen=True, slots=True)
class RegisterAgain:
    """Register once more (1003), as unclean: the controllers chose this replica as if its log could
    be trusted.
    """


@dataclass(frozen=True, slots=True)
class AskHaAddress:
    """Ask where `master_address` takes HA links: the master itself and the name servers. Answered
    by `ha_address_told`, if at all.
    """

    master_address: str


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """The replica acts in this role from now on. `role`: FENCED, MASTER, SLAVE."""

    role: str
    master_epoch: int
    master_id: int | None
    master_address: str | None
    members: tuple[int, ...]
    set_epoch: int
    replicas: dict[int, str] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class ReportEvent:
    """A fact for `regent.broker-events`: record name and its fields but the header."""

    kind: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AbortWaiters:
    """Waiters for a confirm offset will not get it from this mastership: outcome unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepRefused:
    """Durably: these ends of logs, by host, were refused by this master (PROTOCOL 2.12)."""

    ends: tuple[tuple[str, int], ...]


Effect = (
    SendBytes
    | SendRange
    | CloseLink
    | ConnectHa
    | AppendRaw
    | TruncateLog
    | CutIncompleteTail
    | FindRecord
    | CompareLog
    | CutDiverged
    | FlushLog
    | WriteEpochs
    | ConfirmMoved
    | Readable
    | Acknowledged
    | ProposeSyncSet
    | AskController
    | RegisterAgain
    | AskHaAddress
    | RoleChanged
    | ReportEvent
    | AbortWaiters
    | KeepRefused
)
