"""The invariants of decisions, asked in a pass of their own over what the fold decided.

Ranges are folded beside one another, and none knows what the invariants know of those before it. So
each gathers, while it is folded, the decisions that say something to an invariant, and when all are
there one pass goes along them in the order of history, from what was kept or from the beginning.
Refuses to fold, and to hold an invariant.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from events.changes import Change
from events.commands import ClaimLeadership, ClusterFormed, Command
from events.envelope import Envelope
from events.outcomes import LABEL_REPEAT, Outcome
from lakehouse.invariants.invariants import OF_DECISIONS, Watch, carried_from_json, carried_to_json
from lakehouse.invariants.rows import Decided
from lakehouse.proof import kept_state
from processors.fold.folder import Applied

if TYPE_CHECKING:
    from lakehouse.proof.refold import RangeFolded, RangeTold

UNREAD, OF_A_TERM, CLAIM, FORMED = range(4)
"""What a command is to the invariants: bytes that nobody could read, one that a controller of a
term asked for, a claim of leadership, the cluster's first.
"""
_FAST = 1
"""Of zlib: such rows are a tenth of their bytes at any level."""
_NOBODY = bytes(16)
_WAKING = frozenset[type[Any]]().union(*(one.wakes for one in OF_DECISIONS if one.wakes))


class Row(Struct, array_like=True, frozen=True, gc=False):
    """A decision that says something to an invariant."""

    offset: int
    command: int
    term: int
    """That its command names."""
    expected_term: int
    """That a claim names."""
    kind: str
    accepted: bool
    repeat: bool
    changes: tuple[Change, ...]


class Gathered:
    """The decisions of one range, in the order in which they were made.

    Left out are those that say nothing: without a change that any invariant looks at, and asked for
    in the same term as the one before.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._term: int | None = None
        """In which the last one was asked for; None: whatever comes next is looked at."""

    def note(self, applied: Applied) -> None:
        """Go on by a command."""
        outcome = applied.outcome
        changes = outcome.changes
        if not changes and (not outcome.accepted or LABEL_REPEAT in outcome.labels):
            return  # Nothing was decided.
        record = applied.record
        command, term, expected = OF_A_TERM, 0, 0
        if record is None:
            command = UNREAD
        elif isinstance(record, ClaimLeadership):
            command, term, expected = CLAIM, record.envelope.term, record.expected_term
        elif isinstance(record, ClusterFormed):
            command = FORMED
        else:
            term = record.envelope.term
        if command == OF_A_TERM and term == self._term:
            for change in changes:
                if change.__class__ in _WAKING:
                    break
            else:
                return
        self._term = term if command == OF_A_TERM else None
        repeat = LABEL_REPEAT in outcome.labels
        self._rows.append(
            (
                applied.offset,
                command,
                term,
                expected,
                outcome.kind,
                outcome.accepted,
                repeat,
                changes,
            )
        )

    def packed(self) -> bytes:
        """All of them as bytes, for `judged`."""
        return zlib.compress(msgspec.msgpack.encode(self._rows), _FAST)


class Pass:
    """One pass, range by range in the order of history."""

    def __init__(self) -> None:
        self._watch = Watch(OF_DECISIONS)
        self._commands: dict[tuple[int, int, int], Command | None] = {}

    def begin(self, carried: bytes) -> bool:
        """Go on from what was kept behind a range; whether this release can read it."""
        try:
            self._watch = Watch(OF_DECISIONS, carried_from_json(carried))
        except msgspec.MsgspecError:
            return False
        return True

    @property
    def carried(self) -> bytes:
        """What the invariants know now."""
        return carried_to_json(self._watch.carried)

    def judge(self, packed: bytes) -> list[tuple[int, str]]:
        """Go on by the decisions of a range: what breaks an invariant, by offset."""
        return [
            (row.offset, ": ".join(filter(None, (one.broker_name, one.said))))
            for row in self._decided(packed)
            for one in self._watch.note(row)
        ]

    def _decided(self, packed: bytes) -> Iterator[Decided]:
        for row in _ROWS.decode(zlib.decompress(packed)):
            key = (row.command, row.term, row.expected_term)
            if key not in self._commands:
                self._commands[key] = _command(*key)
            yield Decided(row.offset, self._commands[key], _outcome(row))


def judged(
    folded: Mapping[int, RangeFolded], begins: Mapping[int, bytes]
) -> tuple[dict[int, RangeTold], dict[int, bytes]]:
    """What the invariants say of folded ranges, put to what else was told of each; and of those
    that are sound then, the states to be kept. `begins` are the kept states that runs began with,
    by range.

    A range behind one that is not whole is only judged where it is known what was known before it:
    it proves nothing in any case.
    """
    told: dict[int, RangeTold] = {}
    states: dict[int, bytes] = {}
    way, knows = Pass(), False
    for r, (one, state, decided) in sorted(folded.items()):
        goes_on = knows and r - 1 in told
        knows = goes_on or r == 0 or way.begin(kept_state.carried_in(begins.get(r, b"")))
        broken = way.judge(decided) if knows else []
        told[r] = one.with_problems(broken) if broken else one
        if knows and state is not None and told[r].is_sound:
            states[r] = kept_state.packed(state, way.carried)
        knows = knows and bool(one.after)
    return told, states


def can_begin(state: bytes) -> bool:
    """Whether this release knows what the invariants knew behind a kept state."""
    return Pass().begin(kept_state.carried_in(state))


def _outcome(row: Row) -> Outcome:
    """As far as the invariants look at one."""
    labels = (LABEL_REPEAT,) if row.repeat else ()
    accepted, changes = row.accepted, row.changes
    return Outcome(
        row.offset, _NOBODY, "", 0, row.kind, None, "", accepted, None, 0, labels, changes
    )


def _command(command: int, term: int, expected_term: int) -> Any:
    """As far as the invariants look at one: its term, and what it is."""
    if command == UNREAD:
        return None
    envelope = Envelope(_NOBODY, "", term, "", 0, "", None, -1, b"")
    if command == CLAIM:
        return ClaimLeadership(envelope, expected_term, "", "", "")
    if command == FORMED:
        return ClusterFormed(envelope, 0, {}, ())
    return OfATerm(envelope)


class OfATerm(Struct, frozen=True):
    """Any command that a controller of a term asked for."""

    envelope: Envelope


_ROWS: msgspec.msgpack.Decoder[list[Row]] = msgspec.msgpack.Decoder(list[Row])
