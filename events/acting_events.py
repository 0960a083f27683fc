"""What brokers of sets without controllers report, and name servers of such sets (DESIGN 7).

Responsible for their shape; field meanings stand in `schemas/broker_events/*.avsc`.
Refuses to know their readers, and the rules that lead to them.
"""

from msgspec import Struct

from events.event_header import BrokerEventHeader


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
    left_silent_ms: tuple[int, ...] = ()


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


class PlaceChanged(Struct, frozen=True, gc=False):
    """A replica began anew with another place: its set was adopted by controllers, or released."""

    header: BrokerEventHeader
    change: str
    kind: str
    address: str
    leader: str
    epoch: int
    copies: int


AboutActing = (
    ActingBegan
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
    | PlaceChanged
)
