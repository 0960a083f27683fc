"""Requests and answers between members of a majority group, and of its clients, as values.

Responsible for: their fields under our names (PROTOCOL 10.2, 10.3). Refuses to know: bytes, and
what follows from a message.

Fields that only members of ours write are None from Java's; they decide nothing that Java's own
fields could not decide more slowly.
"""

from __future__ import annotations

from msgspec import Struct

from brokers.majority.entry import NONE, Entry, Place
from brokers.majority.wire.codes import Code, PushType, VoteResult


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """What every body has. `remote_id` receives, `local_id` sends; Java's answers leave out most of
    it. `code` is a number, since a later release may say one that we do not know.
    """

    group: str | None = None
    remote_id: str | None = None
    local_id: str | None = None
    leader_id: str | None = None
    term: int = NONE
    code: int = Code.SUCCESS


class MetadataRequest(Message, frozen=True, kw_only=True, gc=False):
    """Who leads, and where is everybody?"""


class MetadataResponse(Message, frozen=True, kw_only=True):
    """`peers`: address by member id; the leader stands in `leader_id`. Ours: `end`, where the log
    of who answers ends, and how far it is committed.
    """

    peers: dict[str, str] = {}
    end: Place | None = None
    committed_index: int | None = None


class AppendRequest(Message, frozen=True, kw_only=True, gc=False):
    """A client's entry."""

    body: bytes = b""


class AppendResponse(Message, frozen=True, kw_only=True, gc=False):
    """Where it went; -1 where it did not."""

    index: int = NONE
    pos: int = NONE


class GetRequest(Message, frozen=True, kw_only=True, gc=False):
    """One entry, at `begin_index`."""

    begin_index: int = NONE


class GetResponse(Message, frozen=True, kw_only=True):
    """The entry, or none."""

    entries: tuple[Entry, ...] = ()


class VoteRequest(Message, frozen=True, kw_only=True, gc=False):
    """`leader_id` wants to lead `term`; `end`: where its log ends."""

    end: Place = Place()


class VoteResponse(Message, frozen=True, kw_only=True, gc=False):
    """`term`: the voter's own, or that of its last entry."""

    result: VoteResult = VoteResult.UNKNOWN


class HeartBeatRequest(Message, frozen=True, kw_only=True, gc=False):
    """`leader_id` leads `term`."""


class HeartBeatResponse(Message, frozen=True, kw_only=True, gc=False):
    """`term` is set where it is refused. Ours: `end`, where the follower's log ends."""

    end: Place | None = None


class PushRequest(Message, frozen=True, kw_only=True):
    """`entries`: one or more for APPEND, one for COMPARE and TRUNCATE, none for COMMIT.

    Ours: `previous`, where the entry before the first one stands (APPEND); `counts_current`: the
    sender commits entries of its own term only, and lets earlier ones follow them.
    """

    type: PushType
    commit_index: int = NONE
    entries: tuple[Entry, ...] = ()
    previous: Place | None = None
    counts_current: bool = False

    @property
    def first_index(self) -> int:
        return self.entries[0].index if self.entries else NONE

    @property
    def last_index(self) -> int:
        return self.entries[-1].index if self.entries else NONE


class PushResponse(Message, frozen=True, kw_only=True, gc=False):
    """`count`: entries that were taken, from `index` on; 0 where an old peer leaves it out.

    Ours: `end_term`, the term at `end_index`; `conflict`, term and first index of the run of
    entries that stands where a COMPARE looked; `takes_binary`: a push may have its entries in
    binary.
    """

    index: int | None = None
    begin_index: int = 0
    end_index: int = 0
    count: int = 0
    end_term: int | None = None
    conflict: Place | None = None
    takes_binary: bool = False


class TransferRequest(Message, frozen=True, kw_only=True, gc=False):
    """To `transfer_id`: hand over to `transferee_id`. To that one: take over, from `ledger_index`
    on.
    """

    transfer_id: str | None = None
    transferee_id: str | None = None
    ledger_index: int = 0


class TransferResponse(Message, frozen=True, kw_only=True, gc=False):
    """What became of it."""


Request = (
    MetadataRequest
    | AppendRequest
    | GetRequest
    | VoteRequest
    | HeartBeatRequest
    | PushRequest
    | TransferRequest
)
Response = (
    MetadataResponse
    | AppendResponse
    | GetResponse
    | VoteResponse
    | HeartBeatResponse
    | PushResponse
    | TransferResponse
)
