"""What must hold over all decisions, each as a pure step.

Responsible for terms, epochs, sets, ids and who may decide. A second, dumber look at what the fold
decided: it shares no code with the rules. Refuses to know what brokers say
(`invariants.of_brokers`) and how rows are read.

A step takes what is known of one subject and a row, and gives what is known then with what the row
breaks.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from events.changes import (
    BrokerIdApplied,
    BrokersCleaned,
    BrokerSetImported,
    Change,
    LeadershipClaimed,
    MasterCleared,
    MasterElected,
    SyncStateSetAltered,
)
from events.commands import ClaimLeadership, ClusterFormed
from events.outcomes import LABEL_REPEAT
from lakehouse.invariants.rows import Breach, Decided, Row, changes_of


class Newest(Struct, frozen=True):
    """The highest number so far, and its owner."""

    number: int = 0
    master: int | None = None
    members: tuple[int, ...] = ()


class Membership(Struct, frozen=True):
    """Master and SyncStateSet of a set."""

    master: int | None = None
    members: tuple[int, ...] = ()


class GivenIds(Struct, frozen=True):
    """The owners of a set's ids: id -> check code, empty when unknown; ids below `next_id` are
    gone.
    """

    next_id: int = 1
    codes: dict[int, str] = {}


def terms_grow(known: Newest, _: str, row: Row) -> tuple[Newest, list[Breach]]:
    """Each claim that won began a term above all before."""
    found: list[Breach] = []
    if isinstance(row, Decided):
        for change in row.outcome.changes:
            if isinstance(change, LeadershipClaimed):
                found += _grown("term", known.number, change.term)
                known = Newest(max(known.number, change.term))
    return known, found


def no_decision_by_an_old_term(known: Newest, _: str, row: Row) -> tuple[Newest, list[Breach]]:
    """What was decided was asked for in the term that held; a repeat gets the former decision."""
    if not isinstance(row, Decided):
        return known, []
    outcome, command = row.outcome, row.command
    found: list[Breach] = []
    decided = row.landed and (
        bool(outcome.changes) or (outcome.accepted and LABEL_REPEAT not in outcome.labels)
    )
    if decided and command is None:
        found.append(Breach("bytes that nobody could read were decided"))
    elif isinstance(command, ClaimLeadership) and decided and command.expected_term != known.number:
        found.append(
            Breach(f"a claim that expected term {command.expected_term} won in term {known.number}")
        )
    elif decided and not isinstance(command, ClaimLeadership | ClusterFormed):
        assert command is not None
        if command.envelope.term != known.number:
            found.append(
                Breach(
                    f"{outcome.kind} of term {command.envelope.term} was decided in term "
                    f"{known.number}"
                )
            )
    for change in outcome.changes:
        if isinstance(change, LeadershipClaimed):
            known = Newest(max(known.number, change.term))
    return known, found


def epochs_grow(known: Newest, subject: str, row: Row) -> tuple[Newest, list[Breach]]:
    """Each election began an epoch above all before; an import stands at or above what was."""
    found: list[Breach] = []
    for change in _changes(row, subject):
        match change:
            case MasterElected():
                found += _grown("master epoch", known.number, change.master_epoch)
                known = Newest(max(known.number, change.master_epoch), change.master_broker_id)
            case MasterCleared():
                known = replace(known, master=None)
            case BrokersCleaned() if change.whole_set or known.master in change.broker_ids:
                known = replace(known, master=None)
            case BrokerSetImported():
                found += _imported(
                    "master epoch",
                    known.number,
                    change.master_epoch,
                    anew=change.master_broker_id not in (None, known.master),
                )
                known = Newest(max(known.number, change.master_epoch), change.master_broker_id)
    return known, found


def set_epochs_grow(known: Newest, subject: str, row: Row) -> tuple[Newest, list[Breach]]:
    """Each SyncStateSet has a set epoch above all before."""
    found: list[Breach] = []
    for change in _changes(row, subject):
        match change:
            case MasterElected() | SyncStateSetAltered():
                found += _grown("set epoch", known.number, change.sync_state_set_epoch)
                known = Newest(
                    max(known.number, change.sync_state_set_epoch), None, change.sync_state_set
                )
            case BrokersCleaned():
                known = replace(known, members=_without(known.members, change))
            case BrokerSetImported():
                members = tuple(change.sync_state_set)
                found += _imported(
                    "set epoch",
                    known.number,
                    change.sync_state_set_epoch,
                    anew=members != known.members,
                )
                known = Newest(max(known.number, change.sync_state_set_epoch), None, members)
    return known, found


def master_is_in_its_set(
    known: Membership, subject: str, row: Row
) -> tuple[Membership, list[Breach]]:
    """After every record; within one a master may fall out of the set and be cleared."""
    changes = _changes(row, subject)
    for change in changes:
        match change:
            case MasterElected():
                known = Membership(change.master_broker_id, change.sync_state_set)
            case SyncStateSetAltered():
                known = replace(known, members=change.sync_state_set)
            case MasterCleared():
                known = replace(known, master=None)
            case BrokerSetImported():
                known = Membership(change.master_broker_id, tuple(change.sync_state_set))
            case BrokersCleaned():
                gone = change.whole_set or known.master in change.broker_ids
                known = Membership(None if gone else known.master, _without(known.members, change))
    if changes and known.master is not None and known.master not in known.members:
        return known, [Breach(f"master {known.master} is not in its set {known.members}")]
    return known, []


def one_broker_per_id(known: GivenIds, subject: str, row: Row) -> tuple[GivenIds, list[Breach]]:
    """The owner of an id is known by its check code; an id that was forgotten is not given away
    again (S9).
    """
    found: list[Breach] = []
    for change in _changes(row, subject):
        match change:
            case BrokerIdApplied():
                found += _given(known, change.broker_id, change.register_check_code, again=True)
                codes = {**known.codes, change.broker_id: change.register_check_code}
                known = GivenIds(
                    max(known.next_id, change.next_broker_id, change.broker_id + 1), codes
                )
            case BrokerSetImported():
                for replica in change.replicas:
                    found += _given(
                        known, replica.broker_id, replica.register_check_code, again=False
                    )
                codes = {**known.codes}
                codes |= {
                    r.broker_id: r.register_check_code
                    for r in change.replicas
                    if r.register_check_code
                }
                known = GivenIds(max(known.next_id, change.next_broker_id), codes)
    return known, found


def _given(known: GivenIds, broker_id: int, code: str, *, again: bool) -> Iterator[Breach]:
    before = known.codes.get(broker_id, "")
    if code and before and code != before:
        yield Breach(
            f"id {broker_id} was given to {code.partition(';')[0]}, it was "
            f"{before.partition(';')[0]}'s"
        )
    elif again and broker_id < known.next_id:
        yield Breach(f"id {broker_id} was given away again, the next one was {known.next_id}")


def _changes(row: Row, subject: str) -> tuple[Change, ...]:
    return changes_of(row, subject) if isinstance(row, Decided) else ()


def _without(members: tuple[int, ...], cleaned: BrokersCleaned) -> tuple[int, ...]:
    return tuple(i for i in members if i not in cleaned.broker_ids)


def _grown(what: str, before: int, now: int) -> Iterator[Breach]:
    if now <= before:
        yield Breach(f"{what} {now} after {before}")


def _imported(what: str, before: int, now: int, *, anew: bool) -> Iterator[Breach]:
    """It may be stated again while no controller decides here: so equal epochs say the same."""
    if now < before or (anew and now == before):
        yield Breach(f"imported {what} {now} after {before}")
