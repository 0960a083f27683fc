"""The outcome of one record of the command log, as the leader publishes it (design D7).

Responsible for its shape; field meanings stand in `schemas/outcomes/outcome.avsc`.
Refuses to know how the digest is made and who publishes.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from events.changes import Change

UNREADABLE_KIND = "Unreadable"
LABEL_AT_RISK = "AT_RISK"
LABEL_UNCLEAN = "UNCLEAN"
LABEL_DESIGNATED = "DESIGNATED"
LABEL_REMEMBERED = "REMEMBERED"
LABEL_REPEAT = "REPEAT"
LABELS = (LABEL_AT_RISK, LABEL_DESIGNATED, LABEL_REMEMBERED, LABEL_REPEAT, LABEL_UNCLEAN)


class CandidateVerdict(Struct, frozen=True, gc=False, array_like=True):
    """One replica in an election, and the rule that chose or rejected it."""

    broker_id: int
    address: str | None
    in_set: bool
    alive: bool
    clean: bool
    epoch: int
    max_offset: int
    election_priority: int
    chosen: bool
    verdict: str


class Outcome(Struct, frozen=True, gc=False):
    """What one record led to.

    What follows `digest` stays outside it: three fields that the publisher stamps, and the digest
    of the state itself, which the fold gives to every hundredth outcome
    (`processors.fold.state_digest`).
    """

    command_offset: int
    command_id: bytes
    cluster_id: str
    term: int
    kind: str
    broker_name: str | None
    cause: str
    accepted: bool
    refusal: str | None
    code: int
    labels: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    candidates: tuple[CandidateVerdict, ...] = ()
    digest: bytes = b""
    publisher: str = ""
    published_at_ms: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)
    state_digest: bytes = b""


BACKLOG_MAX = 200_000
"""Outcomes kept while nobody is known to have published them."""
