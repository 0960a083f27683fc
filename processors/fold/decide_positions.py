"""What members showed to hold, so that a replica whose log went back in time is not trusted
(design S15).

Responsible for the positions that the state keeps, and for what lies below one. Refuses to know
what follows for the set: registrations and elections decide that.

A position is kept for each replica that ever was a member: the epoch that the set was led in, and
the confirm offset that its heartbeats named there. Bytes below it were acknowledged by all members,
so whoever may lead without risk holds them, and no master that is elected so cuts them away. Hence
a replica below its position lost data; a tail that was never acknowledged, and that a new master
cuts, is no loss. Heartbeats of an earlier start, without an epoch, or of another epoch than the set
is led in show nothing. Where a master is elected whose log ends in an earlier epoch, nothing was
confirmed in the epoch that ended: those that stay members are cut to where it began. Who joins
begins anew with what it shows then, for it was cut to its master's log in between. After an
election at risk nothing above the winner's log is expected of anybody.
"""

from collections.abc import Iterable, Sequence

from events.changes import PositionsShown
from events.commands import RegisterBroker
from events.envelope import MemberPosition
from processors.fold.candidates import Candidate
from processors.fold.state import BrokerSet

NO_IDS: tuple[int, ...] = ()


def shown_in(
    before: BrokerSet, candidates: Sequence[Candidate], joined: tuple[int, ...] = NO_IDS
) -> tuple[MemberPosition, ...]:
    """Return the positions after what the evidence of one command showed of members and joiners."""
    epoch, known = before.master_epoch, before.positions
    rows: list[MemberPosition] = []
    at, changed = 0, False
    count = len(known)
    # Written out: the fold comes by for each replica of most decisions.
    for candidate in candidates:
        broker_id = candidate.broker_id
        row = None
        # Both ascend by id, and a cleaned replica has no row any more.
        if at < count and known[at].broker_id == broker_id:
            row = known[at]
            at += 1
        joins = broker_id in joined
        new = None if joins else row
        if candidate.epoch == epoch and (joins or candidate.in_set):
            end = candidate.confirm_offset
            if end > candidate.max_offset:
                end = candidate.max_offset
            if end >= 0 and (
                new is None or new.epoch < epoch or (new.epoch == epoch and new.end_offset < end)
            ):
                new = MemberPosition(broker_id, epoch, end)
        if new is not None:
            if new.restarted and _position_of_evidence(candidate) >= (new.epoch, new.end_offset):
                new = MemberPosition(broker_id, new.epoch, new.end_offset)
            rows.append(new)
        if new is not row:
            changed = True
    return tuple(rows) if changed else known


def after_an_election(
    rows: tuple[MemberPosition, ...], members: tuple[int, ...], winner: Candidate, *, at_risk: bool
) -> tuple[MemberPosition, ...]:
    """Return the positions under a new master: `rows` before it, at most as far as its own log
    goes.
    """
    top = _position_of_evidence(winner)
    if not at_risk:
        # What it reported may be of a moment ago: it holds what it showed before, too.
        row = position_of(rows, winner.broker_id)
        top = top if row is None else max(top, (row.epoch, row.end_offset))
        if top[0] < 0:
            return rows
    kept: list[MemberPosition] = []
    for row in rows:
        if at_risk and (row.epoch, row.end_offset) > top:
            row = MemberPosition(row.broker_id, *top, row.restarted)
        elif row.epoch > top[0] and row.broker_id in members:
            row = MemberPosition(row.broker_id, top[0], min(row.end_offset, top[1]), row.restarted)
        if row.end_offset >= 0:
            kept.append(row)
    return tuple(kept)


def change_of(before: BrokerSet, rows: tuple[MemberPosition, ...]) -> tuple[PositionsShown, ...]:
    """Return the change that keeps `rows`, if they are others than before."""
    if rows is before.positions or rows == before.positions:
        return ()
    return (PositionsShown(before.broker_name, rows),)


def is_below(before: BrokerSet, command: RegisterBroker) -> bool:
    """Return whether a start reports a log that ends before what this id showed to hold."""
    row = position_of(before.positions, command.broker_id)
    if row is None or command.last_epoch is None or command.end_offset is None:
        return False
    return (command.last_epoch, command.end_offset) < (row.epoch, row.end_offset)


def is_below_heard(before: BrokerSet, command: RegisterBroker) -> bool:
    """Return whether a start tells a log that ends before what the start before it named in this
    mastership.

    Between two commands only its heartbeats tell what it held; the leader puts the last of them
    beside the registration. In the epoch of one master nobody cuts anything.
    """
    heard = _heard_before(before, command)
    if heard is None or command.last_epoch is None or command.end_offset is None:
        return False
    if command.broker_id not in before.sync_state_set and command.broker_id not in before.former:
        return False
    return (command.last_epoch, command.end_offset) < heard


def _heard_before(before: BrokerSet, command: RegisterBroker) -> tuple[int, int] | None:
    """Return what the start before named, if that was in this mastership."""
    epoch, offset = command.heard_epoch, command.heard_offset
    return (
        None if epoch is None or offset is None or epoch != before.master_epoch else (epoch, offset)
    )


def restarted_unseen(before: BrokerSet, command: RegisterBroker) -> tuple[PositionsShown, ...]:
    """Return the change that expects a replica to show its log anew: it started and did not tell
    where it ends.

    Java's do not. The evidence of the elections to come tells whether it lost data: below what it
    showed in decisions, or named last in this mastership, also where no decision fell in between.
    """
    broker_id, heard = command.broker_id, _heard_before(before, command)
    if command.last_epoch is not None and command.end_offset is not None:
        return ()
    row = position_of(before.positions, broker_id)
    held = (-1, -1) if row is None else (row.epoch, row.end_offset)
    if heard is not None and broker_id in before.former:
        held = max(held, heard)
    if min(held) < 0 or (row is not None and row.restarted and held == (row.epoch, row.end_offset)):
        return ()
    others = [one for one in before.positions if one is not row]
    waiting = MemberPosition(broker_id, *held, True)
    return change_of(before, tuple(sorted([*others, waiting], key=lambda one: one.broker_id)))


def gone_back(before: BrokerSet, candidates: Iterable[Candidate]) -> tuple[int, ...]:
    """Return clean replicas that restarted without stating a position and now show less than
    before; ascending.
    """
    lost = []
    for row in before.positions:
        if not row.restarted:
            continue
        for candidate in candidates:
            if candidate.broker_id == row.broker_id and candidate.replica.clean:
                told = _position_of_evidence(candidate)
                if candidate.is_alive and min(told) >= 0 and told < (row.epoch, row.end_offset):
                    lost.append(row.broker_id)
    return tuple(lost)


def position_of(rows: Iterable[MemberPosition], broker_id: int) -> MemberPosition | None:
    """Return what is kept of one replica."""
    for row in rows:
        if row.broker_id == broker_id:
            return row
    return None


def _position_of_evidence(candidate: Candidate) -> tuple[int, int]:
    return candidate.epoch, candidate.max_offset
