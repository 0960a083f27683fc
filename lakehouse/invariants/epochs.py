"""What is known of the epochs of one set, from decisions and from what its brokers say.

Decisions and broker events are two topics without a common order: what a broker says of an epoch
that no landed decision has reached waits here until one has. Responsible for that waiting and for
the facts per epoch. Refuses to judge (`invariants.of_brokers`), and to need an event: brokers may
lose some.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from events.broker_events import (
    EpochAppended,
    FirstMessageAcknowledged,
    LogTrimmed,
    LogTruncated,
    RoleChanged,
)
from events.changes import BrokerRegistered, BrokerSetImported, MasterElected
from events.outcomes import LABEL_AT_RISK, LABEL_DESIGNATED, LABEL_UNCLEAN
from lakehouse.invariants.rows import Decided, Reported, Row, changes_of

EPOCHS_KEPT = 1_000
"""Epochs of one set that are remembered; what is said of older ones is not judged."""
CLAIMS_WAITING_MAX = 1_000
"""Claims of one set that wait for a decision; the oldest are given up first."""
# Elections that may lose what was acknowledged, and say so.
LABELS_OF_LOSS = frozenset({LABEL_AT_RISK, LABEL_DESIGNATED, LABEL_UNCLEAN})

MASTER, FOLLOWS, EPOCH, ACKNOWLEDGED, CUT = "MASTER", "FOLLOWS", "EPOCH", "ACKNOWLEDGED", "CUT"


class Claim(Struct, frozen=True):
    """What one broker event says of an epoch; offsets in bytes of the log, -1 when it names
    none.
    """

    kind: str
    epoch: int
    broker_id: int
    incarnation: str
    sequence: int
    at: tuple[int, int]
    """Partition and offset of the event."""
    master: int = -1
    start: int = -1
    end: int = -1
    """For a cut: where the log ended before; `start` is where it ends now."""


class EpochFacts(Struct, frozen=True):
    """One epoch that an election began, or that an import brought."""

    master: int | None
    may_lose: bool = False
    claimed_by: tuple[int, ...] = ()
    begins: int = -1
    """Where its own master said that it starts."""
    acknowledged: int = -1
    """End of the first message that its master acknowledged."""
    acknowledged_at: tuple[int, int] = (0, 0)


class EpochLedger(Struct, frozen=True):
    """The epochs of a set.

    Invariants: every epoch in `epochs` lies above `floor` or is it; `newest` is the highest; those
    waiting are above it.
    """

    floor: int = 0
    """What is below was decided by another controller, or is forgotten."""
    newest: int = 0
    elected_here: bool = False
    trimmed: int = 0
    """Up to here brokers deleted old files: an epoch that is learned afterwards may seem to start
    there.
    """
    epochs: dict[int, EpochFacts] = {}
    waiting: tuple[Claim, ...] = ()

    def judged(self, epoch: int) -> bool:
        """Whether something can be said about an epoch."""
        return self.floor <= epoch <= self.newest and epoch > 0

    def with_facts(self, epoch: int, facts: EpochFacts) -> EpochLedger:
        """The book with other facts about an epoch."""
        return replace(self, epochs={**self.epochs, epoch: facts})


def claim_of(row: Reported) -> Claim | None:
    """What an event says of an epoch, None when nothing."""
    event, head = row.event, row.event.header
    who = (head.broker_id, head.incarnation, head.sequence, (row.partition, row.offset))
    match event:
        case RoleChanged():
            kind = MASTER if event.role.upper() == MASTER else FOLLOWS
            return Claim(kind, event.master_epoch, *who, master=event.master_broker_id)
        case EpochAppended():
            return Claim(EPOCH, event.epoch, *who, start=event.start_offset)
        case FirstMessageAcknowledged():
            return Claim(ACKNOWLEDGED, event.epoch, *who, end=event.offset)
        case LogTruncated():
            return Claim(CUT, event.epoch, *who, start=event.to_offset, end=event.from_offset)
    return None


def advance(book: EpochLedger, subject: str, row: Row) -> tuple[EpochLedger, tuple[Claim, ...]]:
    """Go on by a row; the claims that can be judged from here on."""
    if isinstance(row, Decided):
        return _released(_learned(book, subject, row))
    if isinstance(row.event, LogTrimmed):
        return replace(book, trimmed=max(book.trimmed, row.event.to_offset)), ()
    claim = claim_of(row)
    if claim is None:
        return book, ()
    if claim.epoch <= book.newest:
        return book, (claim,)
    return replace(book, waiting=(*book.waiting, claim)[-CLAIMS_WAITING_MAX:]), ()


def _learned(book: EpochLedger, subject: str, row: Decided) -> EpochLedger:
    may_lose = bool(LABELS_OF_LOSS.intersection(row.outcome.labels))
    for change in changes_of(row, subject):
        match change:
            case BrokerRegistered() if book.newest == 0:
                # It brought epochs along from before this controller.
                book = replace(book, floor=max(book.floor, change.last_epoch))
            case MasterElected():
                facts = book.epochs.get(
                    change.master_epoch, EpochFacts(change.master_broker_id, may_lose)
                )
                book = replace(_with_epoch(book, change.master_epoch, facts), elected_here=True)
            case BrokerSetImported() if change.master_epoch > book.newest:
                facts = EpochFacts(change.master_broker_id, may_lose=True)
                book = replace(
                    _with_epoch(book, change.master_epoch, facts),
                    floor=change.master_epoch,
                    elected_here=False,
                )
    return book


def _with_epoch(book: EpochLedger, epoch: int, facts: EpochFacts) -> EpochLedger:
    epochs = {**book.epochs, epoch: facts}
    floor = book.floor
    if len(epochs) > EPOCHS_KEPT:
        del epochs[min(epochs)]
        floor = max(floor, min(epochs))
    return replace(book, epochs=epochs, floor=floor, newest=max(book.newest, epoch))


def _released(book: EpochLedger) -> tuple[EpochLedger, tuple[Claim, ...]]:
    if not book.waiting:
        return book, ()
    ready = tuple(claim for claim in book.waiting if claim.epoch <= book.newest)
    if not ready:
        return book, ()
    return replace(book, waiting=tuple(c for c in book.waiting if c.epoch > book.newest)), ready
