"""What members of groups that replicate by majority report (DESIGN 7, PROTOCOL 10.14).

Responsible for their shape; field meanings stand in `schemas/broker_events/*.avsc`.
Refuses to know their readers, and the rules that lead to them.
"""

from msgspec import Struct

from events.event_header import BrokerEventHeader


class MajorityVoteCast(Struct, frozen=True, gc=False):
    """A member gave its vote of a term."""

    header: BrokerEventHeader
    member_id: str
    term: int
    candidate_id: str
    end_index: int
    end_term: int
    committed_index: int
    committed_term: int


class MajorityLeaderElected(Struct, frozen=True, gc=False):
    """A majority voted for this member: it leads from here on."""

    header: BrokerEventHeader
    member_id: str
    term: int
    members: tuple[str, ...]
    silent_ms: int
    end_index: int
    end_term: int
    committed_index: int
    committed_term: int


class MajorityLeaderOver(Struct, frozen=True, gc=False):
    """This member leads no more."""

    header: BrokerEventHeader
    member_id: str
    term: int
    why: str
    was_ready: bool
    lasted_ms: int
    committed_index: int
    committed_term: int


class MajorityCommitCrossedTerm(Struct, frozen=True, gc=False):
    """What is committed reached entries of a later term; a leader takes appends from here on."""

    header: BrokerEventHeader
    member_id: str
    term: int
    leader_id: str
    leads: bool
    index: int
    entry_term: int
    took_ms: int
    committed_index: int
    committed_term: int


class MajorityLogCut(Struct, frozen=True, gc=False):
    """A member dropped the end of its log, because it is not the leader's."""

    header: BrokerEventHeader
    member_id: str
    term: int
    leader_id: str
    from_index: int
    to_index: int
    restarted: bool
    why: str
    dropped_terms: tuple[int, ...]
    dropped_from: tuple[int, ...]
    committed_index: int
    committed_term: int


AboutMajority = (
    MajorityVoteCast
    | MajorityLeaderElected
    | MajorityLeaderOver
    | MajorityCommitCrossedTerm
    | MajorityLogCut
)
