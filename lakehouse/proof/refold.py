"""History folded once more, range by range, and compared with what was published (P apart from its
Arrow types).

Responsible for the function that Spark runs in its workers over Arrow batches: it folds commands in
the order of offsets from a state that was kept, beside what was published about them. Trouble is
told with its offset. Refuses to hold a rule: it uses the fold of the controllers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from lakehouse.invariants.invariants import (
    OF_DECISIONS,
    Carried,
    Watch,
    carried_from_json,
    carried_to_json,
)
from lakehouse.invariants.rows import Decided
from lakehouse.proof.pieces import outcome_hash, says_the_same
from processors.fold import snapshot_codec
from processors.fold.folder import READ_AHEAD, Applied, Folder, ReleaseTooOld

PROBLEMS_TOLD_MAX = 20
"""Of one range; more of them say nothing new."""
REFUSED_UNREAD = frozenset({"UNREADABLE", "UNKNOWN_SCHEMA"})

# What an entry is, in the order in which those of one offset are taken.
BEGIN, COMMAND, SAID = 0, 1, 2

TOLD_SCHEMA = pa.schema(
    [pa.field("told", pa.binary(), nullable=False), pa.field("state", pa.binary())]
)
TOLD_COLUMNS = "told binary, state binary"

Entry = tuple[int, int, int, bytes | None, str | None, str | None, str | None]
"""First offset of the run of ranges that are folded in one go, offset, what it is, value, digest,
outcome hash, publisher.
"""


class RangeTold(Struct):
    """What folding one range of commands gave. Offsets are those of the command log."""

    first: int
    last: int
    """The last one that was folded; `first` - 1 when none was."""
    before: str = ""
    """Names the state in which it began; empty when that could not be read."""
    after: str = ""
    """Names the state behind its last command; empty unless the whole range was folded."""
    commands: int = 0
    compared: int = 0
    unreadable: int = 0
    mismatches: int = 0
    first_mismatch: int | None = None
    proven: int = -1
    """The last offset below any mismatch whose folded digest equals a published one; -1 when there
    is none.
    """
    digest: str | None = None
    """At `proven`."""
    unsaid: int = 0
    """Folded commands of which nothing was published, in all."""
    unsaid_after: int = 0
    """The same, above `proven`."""
    publishers: tuple[str, ...] = ()
    problems: tuple[tuple[int, str], ...] = ()

    @property
    def is_sound(self) -> bool:
        """All of it was folded, its last digest was published, nothing is wrong with it."""
        return (
            bool(self.after)
            and self.proven == self.last
            and self.first_mismatch is None
            and not self.problems
        )


class KeptState(Struct, array_like=True):
    """What a fold goes on from: the folder, and what the invariants know."""

    snapshot: bytes
    carried: bytes


def prove(entries: Iterable[Entry], size: int) -> Iterator[tuple[RangeTold, bytes | None]]:
    """Fold runs of ranges of `size` commands each; entries ascend by start, offset and what they
    are.

    A run that does not start at 0 begins with a kept state (`BEGIN`), and its first range is told
    to have begun in no state when there is none or it cannot be read. Each range is told with the
    state behind it, None unless it is sound.
    """
    for start, own in groupby(entries, itemgetter(0)):
        yield from _Run(start, size).told(own)


class _Run:
    """Consecutive ranges, folded in one go."""

    def __init__(self, start: int, size: int) -> None:
        self._size = size
        self._folder: Folder | None = None
        self._ahead: list[tuple[int, list[Entry]]] = []
        """What is to be folded next: a command each, and what was published about it."""
        self._watch = Watch(OF_DECISIONS)
        if start == 0:
            self._folder = Folder()
        self._range = RangeTold(
            start, start - 1, "" if start else state_name(packed(Folder(), self._watch))
        )

    def told(self, entries: Iterable[Entry]) -> Iterator[tuple[RangeTold, bytes | None]]:
        for offset, same in groupby(entries, itemgetter(1)):
            if offset >= self._range.first + self._size:
                self._fold_ahead()
                yield self._closed(offset // self._size * self._size)
            own = list(same)
            if _is_plain(own):
                self._ahead.append((offset, own))
            else:
                self._fold_ahead()
                self._take(offset, own)
            if len(self._ahead) == READ_AHEAD or (offset + 1) % self._size == 0:
                self._fold_ahead()
            if (
                (offset + 1) % self._size == 0
                and self._range.commands
                and self._range.last == offset
            ):
                yield self._closed(offset + 1)
        self._fold_ahead()
        if self._range.commands or self._range.problems or self._range.first_mismatch is not None:
            yield self._range, None

    def _fold_ahead(self) -> None:
        """Fold what waits, in one go, and one by one from the first that cannot be folded on."""
        ahead, self._ahead = self._ahead, []
        applied: list[Applied] = []
        if ahead and self._folder is not None and ahead[0][0] == self._folder.next_offset:
            first = ahead[0][0]
            whole = takewhile(lambda one: one[1][0] == first + one[0], enumerate(ahead))
            values = [own[0][3] or b"" for _, (_, own) in whole]
            with suppress(ReleaseTooOld):
                self._folder.apply_each(first, values, applied)
        for (offset, own), one in zip(ahead, applied, strict=False):
            self._compare(offset, self._noted(one), own[1:])
        for offset, own in ahead[len(applied) :]:
            self._take(offset, own)

    def _take(self, offset: int, entries: list[Entry]) -> None:
        folded: tuple[str, str] | None = None
        taken = None
        for entry in entries:
            if entry[2] == BEGIN:
                self._begin(offset, entry[3] or b"")
            elif entry[2] == COMMAND and taken is None:
                taken = entry
                folded = self._folded(offset, entry[3] or b"")
            elif entry[2] == COMMAND and taken is not None:
                self._problem(
                    offset,
                    "landed twice" if entry[3] == taken[3] else ("landed twice, with other bytes"),
                )
        said = [entry for entry in entries if entry[2] == SAID]
        if folded is not None:
            self._compare(offset, folded, said)
        elif taken is None and self._folder is not None and offset == self._folder.offset:
            # What was published for the very state in which the run begins.
            self._note_difference(offset, any(one[4] != self._folder.digest.hex() for one in said))

    def _begin(self, offset: int, state: bytes) -> None:
        found = unpacked(state)
        if found is not None and found.folder.offset == offset:
            self._folder, self._range.before = found.folder, found.name
            self._watch = Watch(OF_DECISIONS, found.carried)

    def _folded(self, offset: int, value: bytes) -> tuple[str, str] | None:
        """As `_noted`; None when it could not be folded: after a hole nothing is folded any
        more.
        """
        folder = self._folder
        if folder is None or offset != folder.next_offset:
            self._folder = None
            return None
        try:
            applied = folder.apply(offset, value)
        except ReleaseTooOld as error:
            self._folder = None
            self._problem(offset, str(error))
            return None
        return self._noted(applied)

    def _noted(self, applied: Applied) -> tuple[str, str]:
        """Digest and outcome hash of a command that was folded."""
        offset, outcome, tally = applied.offset, applied.outcome, self._range
        for one in self._watch.note(Decided(offset, applied.record, outcome)):
            self._problem(offset, ": ".join(filter(None, (one.broker_name, one.said))))
        if applied.digest_agrees is False:
            assert applied.record is not None
            self._problem(
                offset,
                "its issuer had another digest after offset "
                f"{applied.record.envelope.applied_offset}",
            )
        tally.last, tally.commands = offset, tally.commands + 1
        tally.unreadable += outcome.refusal in REFUSED_UNREAD
        return outcome.digest.hex(), outcome_hash(outcome)

    def _compare(self, offset: int, folded: tuple[str, str], said: list[Entry]) -> None:
        """Readers drop repeats by offset, but a repeat that says something else differs too."""
        tally = self._range
        if not said:
            tally.unsaid, tally.unsaid_after = tally.unsaid + 1, tally.unsaid_after + 1
            return
        tally.compared += 1
        for one in said:
            if one[6] not in tally.publishers:
                tally.publishers = tuple(sorted((*tally.publishers, one[6] or "")))
        differs = any(
            one[4] != folded[0] or not says_the_same(one[5] or "", folded[1]) for one in said
        )
        self._note_difference(offset, differs)
        if tally.first_mismatch is None:
            tally.proven = offset
            tally.digest = folded[0]
            tally.unsaid_after = 0

    def _note_difference(self, offset: int, differs: bool) -> None:
        tally = self._range
        tally.mismatches += differs
        if differs and tally.first_mismatch is None:
            tally.first_mismatch = offset

    def _problem(self, offset: int, text: str) -> None:
        if len(self._range.problems) < PROBLEMS_TOLD_MAX:
            self._range.problems = (*self._range.problems, (offset, text))

    def _closed(self, next_first: int) -> tuple[RangeTold, bytes | None]:
        """The range that is at its end; the next one begins where it ended."""
        tally, state = self._range, None
        if self._folder is not None and self._folder.next_offset == tally.first + self._size:
            plain = packed(self._folder, self._watch)
            tally.after = state_name(plain)
            state = zlib.compress(plain) if tally.is_sound else None
        self._range = RangeTold(next_first, next_first - 1, tally.after)
        return tally, state


def _is_plain(entries: Sequence[Entry]) -> bool:
    """Whether it is one command and what was published about it."""
    return entries[0][2] == COMMAND and (len(entries) == 1 or entries[1][2] == SAID)


def packed(folder: Folder, watch: Watch) -> bytes:
    """A state to go on from, as bytes; equal states give equal bytes."""
    kept = KeptState(snapshot_codec.dump(folder), carried_to_json(watch.carried))
    return msgspec.msgpack.encode(kept)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A kept state, ready to go on from."""

    name: str
    folder: Folder
    carried: Carried


def unpacked(state: bytes) -> Unpacked | None:
    """A state as it was kept, compressed; None when this release cannot read it."""
    try:
        plain = zlib.decompress(state)
        kept = msgspec.msgpack.decode(plain, type=KeptState)
        return Unpacked(
            state_name(plain), snapshot_codec.load(kept.snapshot), carried_from_json(kept.carried)
        )
    except (zlib.error, msgspec.MsgspecError, snapshot_codec.SnapshotError):
        return None


def state_name(plain: bytes) -> str:
    """Names a packed state."""
    return sha256(plain).hexdigest()


def prove_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """`prove` for `mapInArrow`: the columns of an `Entry` in, `TOLD_SCHEMA` out."""
    for told, state in prove(_entries(batches), size):
        columns = [
            pa.array([value], pa.binary()) for value in (msgspec.msgpack.encode(told), state)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=TOLD_SCHEMA)


def _entries(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    for batch in batches:
        yield from zip(
            *(batch.column(place).to_pylist() for place in range(batch.num_columns)), strict=True
        )
