"""History folded once more, range by range, and compared with what was published (P apart from its
Arrow types).

Responsible for the function that a worker, here or of Spark, runs over columns: it folds commands
in the order of offsets from a state that was kept, beside what was published about them. Trouble is
told with its offset. Refuses to hold a rule: it uses the fold of the controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from events.outcome_bytes import stamps_behind, unstamped
from lakehouse.proof import kept_state
from lakehouse.proof.entries import BEGIN, COMMAND, SAID, Entries, cut_up, entries_of
from lakehouse.proof.own_pass import Gathered
from lakehouse.proof.pieces import Unread, outcome_in, says_the_same
from processors.fold.folder import READ_AHEAD, Applied, Folder, ReleaseTooOld

PROBLEMS_TOLD_MAX = 20
"""Of one range; more of them say nothing new."""
REFUSED_UNREAD = frozenset({"UNREADABLE", "UNKNOWN_SCHEMA"})

TOLD_SCHEMA = pa.schema(
    [
        pa.field("told", pa.binary(), nullable=False),
        pa.field("state", pa.binary()),
        pa.field("decided", pa.binary(), nullable=False),
    ]
)
TOLD_COLUMNS = "told binary, state binary, decided binary"


class RangeTold(Struct):
    """What folding one range of commands gave. Offsets are those of the command log."""

    first: int
    last: int
    """The last one that was folded; `first` - 1 when none was."""
    before: str = ""
    """Names the state in which it began; empty when that could not be read."""
    after: str = ""
    """Names the state behind its last command; empty unless the whole range was folded."""
    begun: str = ""
    """Names the kept bytes that it began with (`kept_state.kept_name`); empty when it went on from
    the range before.
    """
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
    unread: tuple[tuple[int, str], ...] = ()
    """Outcomes about it that cannot be read: their own offsets, and why."""
    unread_pieces: tuple[int, ...] = ()
    """The pieces of the outcomes in which all of these are."""
    cluster_id: str = ""
    """Whose history it is, by the state behind its last command; empty when nobody knows."""

    @property
    def is_sound(self) -> bool:
        """All of it was folded, its last digest was published, nothing is wrong with it."""
        return (
            bool(self.after)
            and self.proven == self.last
            and self.first_mismatch is None
            and not self.problems
        )

    def with_problems(self, more: Iterable[tuple[int, str]]) -> RangeTold:
        """With what else is wrong, by offset; the first ones."""
        every = sorted([*self.problems, *more], key=lambda one: one[0])
        return replace(self, problems=tuple(every[:PROBLEMS_TOLD_MAX]))


class RangeFolded(NamedTuple):
    """What folding a range gave."""

    told: RangeTold
    state: bytes | None
    """Of the fold behind it, compressed; None unless the range is sound."""
    decided: bytes
    """What the invariants are asked about (`own_pass.Gathered`)."""


def prove(batches: Iterable[Entries], size: int) -> Iterator[RangeFolded]:
    """Fold runs of ranges of `size` commands each.

    A run that does not start at 0 begins with a kept state (`BEGIN`), and its first range is told
    to have begun in no state when there is none or it cannot be read.
    """
    run: _Run | None = None
    for part in cut_up(batches, size):
        if run is None or run.start != part.start[0]:
            if run is not None:
                yield from run.ended()
            run = _Run(int(part.start[0]), size)
        yield from run.told(part)
    if run is not None:
        yield from run.ended()


class _Run:
    """Consecutive ranges, folded in one go."""

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self._size = size
        self._folder: Folder | None = None
        self._gathered = Gathered()
        if start == 0:
            self._folder = Folder()
        self._range = RangeTold(
            start, start - 1, "" if start else kept_state.snapshot_of(Folder())[0]
        )

    def told(self, part: Entries) -> Iterator[RangeFolded]:
        """Fold a part of one range; what a range gave that ended with it, or before it."""
        first, last = int(part.offset[0]), int(part.offset[-1])
        if first >= self._range.first + self._size:
            yield self._closed(first // self._size * self._size)
        if not self._is_plain(part):
            for offset, own in part.by_offset():
                self._take(offset, own)
        else:
            self._take_many(part)
        if (last + 1) % self._size == 0 and self._range.commands and self._range.last == last:
            yield self._closed(last + 1)

    def ended(self) -> Iterator[RangeFolded]:
        """The range that is not at its end, if there is something to say of it."""
        told = self._range
        self._note_cluster()
        if told.commands or told.problems or told.unread or told.first_mismatch is not None:
            yield RangeFolded(told, None, self._gathered.packed())

    def _is_plain(self, part: Entries) -> bool:
        """Whether each of its commands stands there once, and goes on where the fold is."""
        folder = self._folder
        if folder is None or folder.next_offset != part.offset[0] or part.what[0] != COMMAND:
            return False
        commands = part.offset[part.what == COMMAND]
        return len(commands) == part.offset[-1] - part.offset[0] + 1 and bool(
            (np.diff(commands) == 1).all() and (part.what != BEGIN).all()
        )

    def _take_many(self, part: Entries) -> None:
        """Fold in bulk, and one by one from the first that cannot be folded on."""
        assert self._folder is not None
        at = np.flatnonzero(part.what == COMMAND).tolist()
        first, ends = int(part.offset[0]), [*at[1:], len(part)]
        values = part.value
        for done in range(0, len(at), READ_AHEAD):
            applied: list[Applied] = []
            ahead = at[done : done + READ_AHEAD]
            with suppress(ReleaseTooOld):
                self._folder.apply_each(first + done, [values[i] or b"" for i in ahead], applied)
            for place, end, one in zip(
                ahead, ends[done : done + READ_AHEAD], applied, strict=False
            ):
                self._noted(one)
                self._compare(one, part, place + 1, end)
            if len(applied) < len(ahead):
                for offset, own in part.part(at[done + len(applied)], len(part)).by_offset():
                    self._take(offset, own)
                return

    def _take(self, offset: int, own: Entries) -> None:
        """Whatever is of one offset."""
        applied: Applied | None = None
        taken: list[bytes | None] = []
        for what, value in zip(own.what.tolist(), own.value, strict=True):
            if what == BEGIN:
                self._begin(offset, value or b"")
            elif what == COMMAND and not taken:
                taken.append(value)
                applied = self._folded(offset, value or b"")
            elif what == COMMAND:
                same = value == taken[0]
                self._problem(offset, "landed twice" if same else "landed twice, with other bytes")
        said = int(np.searchsorted(own.what, SAID))
        if applied is not None:
            self._noted(applied)
            self._compare(applied, own, said, len(own))
            return
        told = [self._outcome(own, at) for at in range(said, len(own))]
        if not taken and self._folder is not None and offset == self._folder.offset:
            # What was published for the very state in which the run begins.
            digest, proofs = self._folder.digest, {one.state_digest for one in told if one} - {b""}
            if any(one and one.digest != digest for one in told):
                self._note_difference(offset, differs=True)
            elif proofs and proofs != {self._folder.state_digest()}:
                self._range.begun = ""  # History is right: it is not this state that it gives.

    def _begin(self, offset: int, state: bytes) -> None:
        found = kept_state.unpacked(state)
        if found is not None and found.folder.offset == offset:
            self._folder, self._range.before = found.folder, found.state
            self._range.begun = kept_state.kept_name(state)

    def _folded(self, offset: int, value: bytes) -> Applied | None:
        """None when it could not be folded: after a hole nothing is folded any more."""
        folder = self._folder
        if folder is None or offset != folder.next_offset:
            self._folder = None
            return None
        try:
            return folder.apply(offset, value)
        except ReleaseTooOld as error:
            self._folder = None
            self._problem(offset, str(error))
            return None

    def _noted(self, applied: Applied) -> None:
        offset, tally = applied.offset, self._range
        self._gathered.note(applied)
        if applied.digest_agrees is False:
            assert applied.record is not None
            self._problem(
                offset,
                "its issuer had another digest after offset "
                f"{applied.record.envelope.applied_offset}",
            )
        tally.last = offset
        tally.commands += 1
        if applied.outcome.refusal in REFUSED_UNREAD:
            tally.unreadable += 1

    def _compare(self, applied: Applied, entries: Entries, first: int, end: int) -> None:
        """With the outcomes that stand at these places. Readers drop repeats by offset, but a
        repeat that says something else differs too.
        """
        tally, offset, outcome = self._range, applied.offset, applied.outcome
        differs, compared = False, False
        if first < end:
            head = unstamped(outcome)
            for at in range(first, end):
                value = entries.value[at]
                stamps = None
                if value is not None and value.startswith(head):
                    stamps = stamps_behind(value, len(head))
                if stamps is not None:
                    said_of_state = stamps.state_digest
                    differs |= bool(said_of_state) and said_of_state != outcome.state_digest
                    publisher = stamps.publisher
                else:
                    said = self._outcome(entries, at)
                    if said is None:
                        continue
                    differs |= not says_the_same(said, outcome)
                    publisher = said.publisher
                compared = True
                if publisher not in tally.publishers:
                    tally.publishers = tuple(sorted((*tally.publishers, publisher)))
        if not compared:
            tally.unsaid += 1
            tally.unsaid_after += 1
            return
        tally.compared += 1
        if differs:
            self._note_difference(offset, differs)
        if tally.first_mismatch is None:
            tally.proven = offset
            tally.digest = outcome.digest.hex()
            tally.unsaid_after = 0

    def _outcome(self, entries: Entries, at: int) -> Any:
        """The outcome at a place; None when it cannot be read, which is told."""
        place = int(entries.place[at])
        found = outcome_in(entries.value[at])
        if not isinstance(found, Unread):
            return found
        tally = self._range
        if len(tally.unread) < PROBLEMS_TOLD_MAX:
            tally.unread = (*tally.unread, (place, found.why))
        if place // self._size not in tally.unread_pieces:
            tally.unread_pieces = (*tally.unread_pieces, place // self._size)
        return None

    def _note_cluster(self) -> None:
        if self._folder is not None:
            self._range.cluster_id = self._folder.state.cluster_id

    def _note_difference(self, offset: int, differs: bool) -> None:
        tally = self._range
        tally.mismatches += differs
        if differs and tally.first_mismatch is None:
            tally.first_mismatch = offset

    def _problem(self, offset: int, text: str) -> None:
        if len(self._range.problems) < PROBLEMS_TOLD_MAX:
            self._range.problems = (*self._range.problems, (offset, text))

    def _closed(self, next_first: int) -> RangeFolded:
        """The range that is at its end; the next one begins where it ended."""
        told, state, decided = self._range, None, self._gathered.packed()
        self._note_cluster()
        if self._folder is not None and self._folder.next_offset == told.first + self._size:
            told.after, snapshot = kept_state.snapshot_of(self._folder)
            state = snapshot if told.is_sound else None
        self._range = RangeTold(next_first, next_first - 1, told.after)
        self._gathered = Gathered()
        return RangeFolded(told, state, decided)


def prove_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """`prove` for `mapInArrow`: `entries.ENTRY_COLUMNS` in, `TOLD_SCHEMA` out."""
    for told, state, decided in prove(map(entries_of, batches), size):
        values: Sequence[bytes | None] = (msgspec.msgpack.encode(told), state, decided)
        columns = [pa.array([value], pa.binary()) for value in values]
        yield pa.RecordBatch.from_arrays(columns, schema=TOLD_SCHEMA)
