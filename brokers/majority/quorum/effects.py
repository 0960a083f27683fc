"""What a member asks its shell to do.

Responsible for: the closed list of effects, as values. They are carried out in their order, each
before the next, and all of them before the member hears anything else. One that fails ends its
list: what follows is not done, and the member is told (`storage_failed`).
Refuses to know: how anything is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from brokers.majority.entry import Entry
from brokers.majority.log_port import TermAndVote
from brokers.majority.quorum.standing import Standing
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import Request, Response


@dataclass(frozen=True, slots=True)
class Send:
    """To this member. Answered by `answered` once, within `call_ms`: None when no answer came.
    `binary`: the peer takes entries in binary.
    """

    token: int
    peer: str
    message: Request
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The request that came with this token is answered so."""

    token: object
    message: Response


@dataclass(frozen=True, slots=True)
class SaveTerm:
    """Term and vote, durable before the next effect: `TermStore.save`."""

    state: TermAndVote


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A body of `size` bytes, which `build(position of its entry)` makes. `token`: of the client
    that waits, None where nobody does.
    """

    token: object
    size: int
    build: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class AppendAsLeader:
    """One after the other by `append_as_leader`. Answered by `appended`."""

    term: int
    entries: tuple[NewEntry, ...]


@dataclass(frozen=True, slots=True)
class AppendAsFollower:
    """One after the other by `append_as_follower`, up to the first that is not taken. Answered by
    `taken`.
    """

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class TruncateFrom:
    """This entry and all behind it are dropped, durably."""

    index: int


@dataclass(frozen=True, slots=True)
class RestartAt:
    """The log begins anew with this entry. Answered by `taken`, as one entry."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Flush:
    """Begin `flush`, on any thread; answered by `flushed`. One at a time is under way."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Entries up to here are committed, and may be read and applied."""

    index: int


@dataclass(frozen=True, slots=True)
class AppendDone:
    """The client of an append hears this. SUCCESS: entry `index` is committed. A code of
    NOT_APPENDED: it is nowhere. Any other: unknown, it may be committed later.
    """

    token: object
    code: Code
    index: int
    term: int
    leader_id: str | None


@dataclass(frozen=True, slots=True)
class ReadDone:
    """The client of a read hears this. SUCCESS: everything that anybody was acknowledged, or read,
    before it asked is committed up to `index`. Any other code: ask again, or another one.
    """

    token: object
    code: Code
    index: int
    term: int
    leader_id: str | None


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """What this member is from here on, as one value, and why, in few words."""

    standing: Standing
    why: str = ""


@dataclass(frozen=True, slots=True)
class LeaderReady:
    """The first entry of the own term is committed: everything before it is, too. From here on the
    leader takes appends and reads.
    """

    term: int


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """This replica contradicts what is committed, or its disk refused: it answers nothing more, and
    its folder needs a person or a fresh start.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """A fact for people: what happened and its fields."""

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)


Effect = (
    Send
    | Answer
    | SaveTerm
    | AppendAsLeader
    | AppendAsFollower
    | TruncateFrom
    | RestartAt
    | Flush
    | Commit
    | AppendDone
    | ReadDone
    | RoleChanged
    | LeaderReady
    | LeaveGroup
    | Report
)
