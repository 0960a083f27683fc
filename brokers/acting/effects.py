"""What the machines of a set without controllers ask their shell to do.

Responsible for: the closed list of effects, as values; they are carried out in their order. An
effect with a `token` is answered with that token; answers with another one are of no use any more.
Refuses to know: how anything is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokers.acting.messages import HaInfo
from brokers.acting.reverse_sync import MemberTables
from brokers.acting.targets import Target
from brokers.service.clients.queue_locks import Queue
from brokers.store.log.records import MessageFields

# -- who acts --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpecialServices:
    """Start or stop what delivers by itself, each service by `special.SWITCHES`. Off: nothing is
    put any more when this has been carried out. What is under way to other sets is waited for, and
    then the places are told.
    """

    on: bool
    reason: str


@dataclass(frozen=True, slots=True)
class BumpVersions:
    """Add `step` to the counters of the versions of consumer offsets, delay offsets and the timer's
    check point: they are newer from here on than whatever the master has.
    """

    step: int


@dataclass(frozen=True, slots=True)
class ForgetMaster:
    """The master is gone: close connections to it and to its port − 2 and the link to it, copy no
    tables from it, try no link again.
    """

    address: str


@dataclass(frozen=True, slots=True)
class FollowMaster:
    """Copy tables from this master and link to it at once, without the pause of a failed link.
    `ha_address` None: where it was told by the settings.
    """

    address: str
    ha_address: str | None


@dataclass(frozen=True, slots=True)
class StoreFlushedOffset:
    """Keep the master's flushed offset, if none is kept yet and the settings want it."""

    offset: int


@dataclass(frozen=True, slots=True)
class RerunHeldPulls:
    """Look again at all pulls that wait, so that their clients hear where to go."""


@dataclass(frozen=True, slots=True)
class Register:
    """Register at every name server. Answered by `registered`, with when it was begun."""


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """To every name server, one-way, in this way each."""

    compat: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class AskMembers:
    """Ask every name server, each in its way (True: by route). Answered for each of them by
    `members_answered`, with `asked_ms`.
    """

    compat: Mapping[str, bool]
    asked_ms: int


@dataclass(frozen=True, slots=True)
class AliveReplicas:
    """So many replicas live, for what a write needs."""

    count: int


@dataclass(frozen=True, slots=True)
class Fence:
    """This broker was taken for dead. It has no place in the routes, and refuses what would part it
    from who acts for it (`served.FENCED`), until `WentOnline`.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class WentOnline:
    """The broker has its place: heartbeats and registrations begin."""

    min_id: int
    min_address: str


@dataclass(frozen=True, slots=True)
class Report:
    """A fact for people: what happened and its fields."""

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)


# -- the way back ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PushHaInfo:
    """906 with these fields to a member. Answered by `pushed`."""

    token: int
    address: str
    info: HaInfo


@dataclass(frozen=True, slots=True)
class AskHaInfo:
    """906 as a question to a master. Answered by `ha_info_told`."""

    token: int
    address: str


@dataclass(frozen=True, slots=True)
class FetchTables:
    """43, 45 and 60 of a member. Answered by `fetched`."""

    token: int
    address: str


@dataclass(frozen=True, slots=True)
class TakeTables:
    """Decide by `reverse_sync.decide` with own tables of this moment what is taken of these, and
    make it durable. Answered by `taken`.
    """

    token: int
    tables: tuple[MemberTables, ...]


# -- locks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendLock:
    """41 or 42 to a member: `body` of `lock_messages`. Of a lock the answer is told to `voted`."""

    address: str
    lock: bool
    round_id: str
    group: str
    client_id: str
    queues: tuple[Queue, ...]


@dataclass(frozen=True, slots=True)
class AnswerLock:
    """The client's answer: these queues are its own."""

    round_id: str
    queues: tuple[Queue, ...]


# -- escape ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendAway:
    """310 to the master of another set. Answered by `answered`, an error or a silence too."""

    token: int
    target: Target
    message: MessageFields


@dataclass(frozen=True, slots=True)
class PutLocally:
    """Into the log of a master in this process. Answered by `answered`."""

    token: int
    message: MessageFields


@dataclass(frozen=True, slots=True)
class AskRoute:
    """105 for this topic. Answered by `route_told`."""

    topic: str


Effect = (
    SpecialServices
    | BumpVersions
    | ForgetMaster
    | FollowMaster
    | StoreFlushedOffset
    | RerunHeldPulls
    | Register
    | SendHeartbeat
    | AskMembers
    | AliveReplicas
    | Fence
    | WentOnline
    | Report
    | PushHaInfo
    | AskHaInfo
    | FetchTables
    | TakeTables
    | SendLock
    | AnswerLock
    | SendAway
    | PutLocally
    | AskRoute
)
