"""What must hold between the elections and what brokers say they did, each as a pure step.

Responsible for masters, epoch files, cuts and acknowledgements. Refuses to compare the clocks of
two machines, and to take a missing event for a breach: what brokers say may be lost, what they say
must fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from events.changes import BrokerRegistered, MasterElected
from lakehouse.invariants.epochs import (
    ACKNOWLEDGED,
    CUT,
    EPOCH,
    FOLLOWS,
    MASTER,
    Claim,
    EpochFacts,
    EpochLedger,
    advance,
    claim_of,
)
from lakehouse.invariants.rows import Breach, Decided, Reported, Row, changes_of


class Heard(Struct, frozen=True):
    """The last word of one start of a broker about its role and epoch."""

    incarnation: str
    sequence: int
    epoch: int
    leads: bool = False


class BookAndVoices(Struct, frozen=True):
    """The epochs of a set, and by broker id what each said last."""

    book: EpochLedger = EpochLedger()
    heard: dict[int, Heard] = {}


def one_master_per_epoch(
    book: EpochLedger, subject: str, row: Row
) -> tuple[EpochLedger, list[Breach]]:
    """By the elections, and by what brokers say: the leader of an epoch is the winner of its
    election.
    """
    found: list[Breach] = []
    if isinstance(row, Decided):
        for change in changes_of(row, subject):
            before = (
                book.epochs.get(change.master_epoch) if isinstance(change, MasterElected) else None
            )
            if (
                isinstance(change, MasterElected)
                and before
                and before.master != change.master_broker_id
            ):
                found.append(
                    Breach(
                        f"epoch {change.master_epoch} has masters {before.master} and "
                        f"{change.master_broker_id}"
                    )
                )
    book, ready = advance(book, subject, row)
    for claim in ready:
        if claim.kind not in (MASTER, FOLLOWS) or not book.judged(claim.epoch):
            continue
        facts = book.epochs.get(claim.epoch)
        named = claim.broker_id if claim.kind == MASTER else claim.master
        verb = "leads" if claim.kind == MASTER else f"follows {named} in"
        if facts is None:
            found.append(
                Breach(
                    f"broker {claim.broker_id} {verb} epoch {claim.epoch}, which no election began",
                    claim.at,
                )
            )
        elif (
            named != facts.master
            and (claim.kind == MASTER or named >= 0)
            and facts.master is not None
        ):
            found.append(
                Breach(
                    f"broker {claim.broker_id} {verb} epoch {claim.epoch}, its elected master is "
                    f"{facts.master}",
                    claim.at,
                )
            )
        elif claim.kind == MASTER and claim.broker_id not in facts.claimed_by:
            found += [
                Breach(f"brokers {other} and {claim.broker_id} lead epoch {claim.epoch}", claim.at)
                for other in facts.claimed_by
            ]
            book = book.with_facts(
                claim.epoch, replace(facts, claimed_by=(*facts.claimed_by, claim.broker_id))
            )
    return book, found


def epoch_files_agree(
    book: EpochLedger, subject: str, row: Row
) -> tuple[EpochLedger, list[Breach]]:
    """An entry of an epoch file stands for an election, and begins where its master began."""
    found: list[Breach] = []
    if isinstance(row, Decided) and book.elected_here:
        found += [
            Breach(
                f"broker {change.broker_id} registered with epoch {change.last_epoch}, the newest "
                f"election began {book.newest}"
            )
            for change in changes_of(row, subject)
            if isinstance(change, BrokerRegistered) and change.last_epoch > book.newest
        ]
    book, ready = advance(book, subject, row)
    for claim in ready:
        if claim.kind != EPOCH or not book.judged(claim.epoch):
            continue
        facts = book.epochs.get(claim.epoch)
        who = f"broker {claim.broker_id} wrote epoch {claim.epoch}"
        if facts is None:
            found.append(Breach(f"{who}, which no election began", claim.at))
        elif facts.begins < 0:
            book = book.with_facts(claim.epoch, replace(facts, begins=claim.start))
        elif claim.start != facts.begins and max(claim.start, facts.begins) > book.trimmed:
            found.append(
                Breach(
                    f"{who} with start {claim.start}, another start {facts.begins} was told before",
                    claim.at,
                )
            )
    return book, found


def truncations_agree(
    known: BookAndVoices, subject: str, row: Row
) -> tuple[BookAndVoices, list[Breach]]:
    """A cut shortens a log, ends it in an elected epoch at or behind its start, and is never made
    by a master.
    """
    found: list[Breach] = []
    claim = claim_of(row) if isinstance(row, Reported) else None
    if claim is not None and claim.kind == CUT:
        voice = known.heard.get(claim.broker_id)
        if (
            voice
            and voice.leads
            and voice.incarnation == claim.incarnation
            and claim.sequence == voice.sequence + 1
        ):
            found.append(
                Breach(
                    f"broker {claim.broker_id} cut its log while it led epoch {voice.epoch}",
                    claim.at,
                )
            )
        if claim.start > claim.end:
            found.append(
                Breach(
                    f"broker {claim.broker_id} cut its log from {claim.end} up to {claim.start}",
                    claim.at,
                )
            )
    known = _listened(known, row, claim, (MASTER, FOLLOWS))
    book, ready = advance(known.book, subject, row)
    for one in ready:
        facts = book.epochs.get(one.epoch)
        if one.kind == EPOCH and facts and one.broker_id == facts.master:
            book = book.with_facts(one.epoch, replace(facts, begins=one.start))
        elif one.kind == CUT and book.judged(one.epoch):
            found += _cut(book, one, facts)
    return replace(known, book=book), found


def _cut(book: EpochLedger, claim: Claim, facts: EpochFacts | None) -> Iterator[Breach]:
    who = (
        f"broker {claim.broker_id} cut its log to {claim.start}, the end is of epoch {claim.epoch}"
    )
    if facts is None:
        yield Breach(f"{who}, which no election began", claim.at)
    elif facts.begins > max(claim.start, book.trimmed):
        yield Breach(f"{who}, which starts at {facts.begins}", claim.at)


def acknowledged_before_the_successor(
    known: BookAndVoices, subject: str, row: Row
) -> tuple[BookAndVoices, list[Breach]]:
    """What was acknowledged in an epoch lies below where the next ones begin.

    Elections that may lose messages and say so are taken out. A broker that spoke of a later epoch
    acknowledges nothing in an earlier one.
    """
    found: list[Breach] = []
    claim = claim_of(row) if isinstance(row, Reported) else None
    if claim is not None and claim.kind == ACKNOWLEDGED:
        voice = known.heard.get(claim.broker_id)
        later = voice and voice.incarnation == claim.incarnation and claim.sequence > voice.sequence
        if voice and later and voice.epoch > claim.epoch:
            found.append(
                Breach(
                    f"broker {claim.broker_id} acknowledged in epoch {claim.epoch} after it knew "
                    f"{voice.epoch}",
                    claim.at,
                )
            )
    known = _listened(known, row, claim, (MASTER, FOLLOWS, EPOCH))
    book, ready = advance(known.book, subject, row)
    for one in ready:
        facts = book.epochs.get(one.epoch)
        if facts is None or not book.judged(one.epoch):
            continue
        if one.kind == ACKNOWLEDGED and one.broker_id != facts.master and facts.master is not None:
            found.append(
                Breach(
                    f"broker {one.broker_id} acknowledged in epoch {one.epoch}, its master is "
                    f"{facts.master}",
                    one.at,
                )
            )
        elif one.kind == ACKNOWLEDGED:
            book = book.with_facts(
                one.epoch, replace(facts, acknowledged=one.end, acknowledged_at=one.at)
            )
            found += _beyond(book, one.epoch)
        elif one.kind == EPOCH and one.broker_id == facts.master:
            book = book.with_facts(one.epoch, replace(facts, begins=one.start))
            found += _reaching_into(book, one.epoch)
    return replace(known, book=book), found


def _beyond(book: EpochLedger, epoch: int) -> Iterator[Breach]:
    """Successors of an epoch that begin below what was acknowledged in it."""
    for later in sorted(number for number in book.epochs if number > epoch):
        if book.epochs[later].may_lose:
            return
        yield from _overlap(book, epoch, later)


def _reaching_into(book: EpochLedger, later: int) -> Iterator[Breach]:
    """Earlier epochs in which more was acknowledged than lies below the start of this one."""
    if book.epochs[later].may_lose:
        return
    for epoch in sorted((number for number in book.epochs if number < later), reverse=True):
        yield from _overlap(book, epoch, later)
        if book.epochs[epoch].may_lose:
            return


def _overlap(book: EpochLedger, epoch: int, later: int) -> Iterator[Breach]:
    facts, successor = book.epochs[epoch], book.epochs[later]
    if 0 <= successor.begins < facts.acknowledged:
        yield Breach(
            f"broker {facts.master} acknowledged up to {facts.acknowledged} in epoch {epoch}, "
            f"epoch {later} of broker {successor.master} begins at {successor.begins}",
            facts.acknowledged_at,
        )


def _listened(
    known: BookAndVoices, row: Row, claim: Claim | None, kinds: tuple[str, ...]
) -> BookAndVoices:
    """Every event counts: a gap in the sequence may have been a change of role, so then the master
    is unknown.
    """
    if not isinstance(row, Reported):
        return known
    head = row.event.header
    before = known.heard.get(head.broker_id)
    if before is None or before.incarnation != head.incarnation:
        before = Heard(head.incarnation, -1, 0)
    elif head.sequence <= before.sequence:
        return known
    leads, epoch = before.leads and head.sequence == before.sequence + 1, before.epoch
    if claim is not None and claim.kind in kinds:
        epoch = max(epoch, claim.epoch)
        leads = claim.kind == MASTER or (leads and claim.kind != FOLLOWS)
    heard = Heard(head.incarnation, head.sequence, epoch, leads)
    return replace(known, heard={**known.heard, head.broker_id: heard})
