"""The epoch history of one commit log: which master wrote which bytes.

Responsible for: the ordered (epoch, start offset) entries and the only legal ways to change them.
Refuses to know: files (epoch_file.py), links, roles, and the controller's numbers. Logs are
compared by these pairs alone, never by the controller's master epoch (PROTOCOL
2.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OFFSET_MAX = 2**63 - 1
EPOCH_MAX = 2**31 - 1


class EpochError(ValueError):
    """A history that no sequence of masters can have written."""


@dataclass(frozen=True, slots=True, order=True)
class EpochEntry:
    """Bytes from `start_offset` on (physical, bytes) were written by the master of `epoch`."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """Entries of one log, oldest first. A value: every change gives a new history.

    Invariants:
    - epochs strictly grow; start offsets strictly grow (an empty epoch is superseded, design S13);
    - the end of an entry is the start of the next one; the newest entry is open.
    """

    entries: tuple[EpochEntry, ...] = ()

    def __post_init__(self) -> None:
        previous = EpochEntry(-1, -1)
        for entry in self.entries:
            if entry.epoch > EPOCH_MAX or entry.start_offset > OFFSET_MAX:
                raise EpochError(f"epoch entry out of range: {entry}")
            if entry.epoch <= previous.epoch or entry.start_offset <= previous.start_offset:
                raise EpochError(f"epoch entries do not grow: {previous} then {entry}")
            previous = entry

    @classmethod
    def of(cls, *pairs: tuple[int, int]) -> EpochHistory:
        """History from (epoch, start offset) pairs; EpochError when they do not grow."""
        return cls.from_pairs(pairs)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]]) -> EpochHistory:
        return cls(tuple(EpochEntry(epoch, start) for epoch, start in pairs))

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def newest(self) -> EpochEntry | None:
        return self.entries[-1] if self.entries else None

    @property
    def newest_epoch(self) -> int:
        """Epoch of the newest entry, -1 for an empty history (as the handshake reply writes it)."""
        return self.entries[-1].epoch if self.entries else -1

    @property
    def newest_start(self) -> int:
        """Start offset of the newest entry, -1 for an empty history."""
        return self.entries[-1].start_offset if self.entries else -1

    def append(self, epoch: int, start_offset: int) -> EpochHistory:
        """Begin `epoch` at `start_offset`.

        An entry that starts where the newest one starts supersedes it: nobody wrote a byte in
        between, and two masters' bytes must never share one label (design S13). EpochError when the
        epoch does not grow or the start lies before the newest entry.
        """
        kept = self.entries
        if kept and epoch <= kept[-1].epoch:
            raise EpochError(f"epoch {epoch} is not above {kept[-1].epoch}")
        if kept and start_offset < kept[-1].start_offset:
            raise EpochError(f"epoch {epoch} would start at {start_offset}, before {kept[-1]}")
        if kept and start_offset == kept[-1].start_offset:
            kept = kept[:-1]
        return EpochHistory((*kept, EpochEntry(epoch, start_offset)))

    def truncate_suffix(self, offset: int) -> EpochHistory:
        """Without the entries that start at or above `offset`: the log was cut there."""
        return EpochHistory(tuple(entry for entry in self.entries if entry.start_offset < offset))

    def truncate_prefix(self, offset: int) -> EpochHistory:
        """Without the entries that end at or below `offset`: older files were deleted."""
        starts = [entry.start_offset for entry in self.entries[1:]] + [OFFSET_MAX]
        kept = (entry for entry, end in zip(self.entries, starts, strict=False) if end > offset)
        return EpochHistory(tuple(kept))

    def find(self, offset: int) -> EpochEntry | None:
        """The entry that covers the byte at `offset`; None below the first entry."""
        for entry in reversed(self.entries):
            if entry.start_offset <= offset:
                return entry
        return None

    def entry(self, epoch: int) -> EpochEntry | None:
        for entry in reversed(self.entries):  # the newest ones are asked for, once per packet
            if entry.epoch == epoch:
                return entry
        return None

    def end_of(self, epoch: int, log_end: int) -> int:
        """Where `epoch` ends (exclusive) in a log that ends at `log_end`. KeyError if unknown."""
        for index, entry in enumerate(self.entries):
            if entry.epoch == epoch:
                following = self.entries[index + 1 : index + 2]
                return following[0].start_offset if following else log_end
        raise KeyError(epoch)

    def next_start(self, offset: int) -> int | None:
        """Start of the first entry above `offset`: a packet must not cross it."""
        if self.newest_start <= offset:
            return None
        return next(entry.start_offset for entry in self.entries if entry.start_offset > offset)

    def advanced(self, known: EpochHistory, reached: int) -> EpochHistory:
        """With a master's entries up to the offset `reached` by the local log.

        An empty history begins with the entry that covers `reached` (older bytes are not here).
        """
        if not self.entries:
            covering = known.find(reached)
            return EpochHistory((covering,)) if covering else self
        local = self
        if local.newest_epoch == known.newest_epoch:
            return local
        for entry in known.entries:
            if (
                entry.epoch > local.newest_epoch
                and local.newest_start <= entry.start_offset <= reached
            ):
                local = local.append(entry.epoch, entry.start_offset)
        return local

    def before_first(self, limit: int) -> tuple[EpochEntry, ...]:
        """Epochs that may have begun where this history begins and were superseded there, the
        newest `limit`.
        """
        if not self.entries or limit <= 0:
            return ()
        first = self.entries[0]
        return tuple(
            EpochEntry(epoch, first.start_offset)
            for epoch in range(max(1, first.epoch - limit), first.epoch)
        )

    def newest_part(self, limit: int) -> EpochHistory:
        """The newest `limit` entries; what one handshake reply may carry."""
        return self if len(self.entries) <= limit else EpochHistory(self.entries[-limit:])

    def __str__(self) -> str:
        return ",".join(f"{entry.epoch}:{entry.start_offset}" for entry in self.entries) or "empty"


def begins_later(local: EpochHistory, master: EpochHistory) -> bool:
    """Whether the master's history, cut off at the front with deleted files, begins with an epoch
    that is newer than all that is known here. It forgot older epochs only with all of their bytes,
    so none of the bytes here are in its log any more.
    """
    return bool(local) and bool(master) and local.newest_epoch < master.entries[0].epoch


def consistent_offset(
    local: EpochHistory, local_end: int, master: EpochHistory, master_end: int
) -> int | None:
    """Offset below which the local log equals the master's; None when only an operator can tell.

    Ends are physical offsets (exclusive). The newest epoch that both histories begin at the same
    offset decides: both were written by that one master, so they agree up to the shorter end of it.
    - A local log without history proves nothing about its bytes: 0 (copy everything again).
      Java keeps such bytes and may mix two logs; ours does not.
    - No common epoch, but both histories begin at one offset: they differ from their first byte on.
      Java gives up for ever here; with superseded empty epochs (design S13) this is an ordinary
      case.
    """
    if not local:
        return 0
    if not master:
        return None
    open_end = master_end if master_end >= master.newest_start else OFFSET_MAX
    for entry in reversed(local.entries):
        if master.entry(entry.epoch) == entry:
            ends = local.end_of(entry.epoch, local_end), master.end_of(entry.epoch, open_end)
            return min(*ends, local_end)
    first = local.entries[0].start_offset
    return min(first, local_end) if first == master.entries[0].start_offset else None
