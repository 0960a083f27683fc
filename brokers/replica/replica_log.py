"""What a replica knows of its own log, and the order in which it may change.

Responsible for: end, confirm offset and epochs of the local log; every change gives its effects in
the only safe order: the label of an epoch before its bytes, a cut before the labels it drops, bytes
before the promise that they are there. Refuses to know: links, roles, files.
"""

from __future__ import annotations

from brokers.ha.epochs import EpochHistory
from brokers.ha.log_sender import LogView
from brokers.replica.effects import AppendRaw, ConfirmMoved, Effect, ReportEvent, WriteEpochs


class ReplicaLog:
    """Invariants: confirm offset <= end; no epoch starts above the end; `epoch_seen` only grows."""

    def __init__(
        self,
        *,
        epochs: EpochHistory,
        end_offset: int,
        min_offset: int,
        confirm_offset: int,
        epoch_seen: int,
        trusted_end: int | None = None,
        none_of_seen: bool = False,
    ) -> None:
        """`trusted_end`: bytes above it may be torn (S5); None: every byte is as it was written.
        `none_of_seen`: as WriteEpochs.
        """
        # A crash may have taken bytes whose label was already durable: the label goes too.
        self.epochs = epochs.truncate_suffix(end_offset + 1)
        self.end_offset = end_offset
        self.min_offset = min_offset
        self.confirm_offset = min(confirm_offset, end_offset)
        self.epoch_seen = max(epoch_seen, epochs.newest_epoch, 0)
        self.none_of_seen = none_of_seen and self.epoch_seen > epochs.newest_epoch
        # Nothing above it: what comes from now on is as a master sent it.
        self.trusted_end = None if trusted_end is None or trusted_end >= end_offset else trusted_end

    def view(self) -> LogView:
        return LogView(self.epochs, self.min_offset, self.end_offset, self.confirm_offset)

    def see_epoch(self, epoch: int, *, none_here: bool = True) -> list[Effect]:
        """Persist that `epoch` exists: this replica never again serves an older one (S8).
        `none_here`: it has no byte of it.
        """
        if epoch <= self.epoch_seen:
            return []
        self.epoch_seen, self.none_of_seen = epoch, none_here
        return [self._write_epochs()]

    def agreed(self) -> list[Effect]:
        """A Java master's link was agreed on: from now on bytes of the epoch seen may be here,
        under an older label (2.7).
        """
        if not self.none_of_seen:
            return []
        self.none_of_seen = False
        return [self._write_epochs()]

    def begin_epoch(self, epoch: int) -> list[Effect]:
        """The mastership entry: from the log's end on, bytes are `epoch`'s (S13)."""
        self.trusted_end = None  # whoever leads is the truth
        self.epochs = self.epochs.append(epoch, self.end_offset)
        self.epoch_seen, self.none_of_seen = max(self.epoch_seen, epoch), False
        return [self._write_epochs(), self._epoch_event()]

    def learn_epochs(self, epochs: EpochHistory) -> list[Effect]:
        """The history a master taught; call after the cut and before the bytes it labels."""
        if epochs == self.epochs:
            return []
        grew = epochs.newest_epoch > self.epochs.newest_epoch
        self.epochs = epochs
        self.epoch_seen = max(self.epoch_seen, epochs.newest_epoch)
        self.none_of_seen = self.none_of_seen and self.epoch_seen > epochs.newest_epoch
        effects: list[Effect] = [self._write_epochs()]
        if grew:
            effects.append(self._epoch_event())
        return effects

    def append_raw(self, offset: int, data: bytes | memoryview) -> list[Effect]:
        if self.end_offset == 0:
            self.min_offset = offset  # an empty log begins wherever the master's log begins
        self.end_offset = offset + len(data)
        return [AppendRaw(offset, data)]

    def was_cut(self, end_offset: int, reason: str) -> list[Effect]:
        """The shell cut the log: labels of lost bytes go too, durably, after the bytes."""
        if end_offset == self.end_offset:
            return self.ends_at(end_offset)
        lost_from, effects = self.end_offset, self.ends_at(end_offset)
        fields = {
            "from_offset": lost_from,
            "to_offset": end_offset,
            "epoch": self.epochs.newest_epoch,
            "reason": reason,
        }
        return [*effects, ReportEvent("LogTruncated", fields)]

    def ends_at(self, end_offset: int) -> list[Effect]:
        """The log really ends there: a cut, or bytes that were announced and found no room."""
        if self.trusted_end is not None and end_offset <= self.trusted_end:
            self.trusted_end = None
        if end_offset == self.end_offset:
            return []
        self.end_offset = end_offset
        self.min_offset = min(self.min_offset, end_offset)
        self.confirm_offset = min(self.confirm_offset, end_offset)
        effects: list[Effect] = []
        kept = self.epochs.truncate_suffix(end_offset + 1 if end_offset else 0)
        if kept != self.epochs:
            self.epochs = kept
            effects.append(self._write_epochs())
        return effects

    def trimmed(self, min_offset: int) -> list[Effect]:
        """Old files were deleted: the log now begins at `min_offset`."""
        self.min_offset = max(self.min_offset, min_offset)
        kept = self.epochs.truncate_prefix(self.min_offset)
        if kept == self.epochs:
            return []
        self.epochs = kept
        return [self._write_epochs()]

    def move_confirm(self, offset: int) -> list[Effect]:
        """Raise the confirm offset; it never goes back but by a cut."""
        offset = min(offset, self.end_offset)
        if offset <= self.confirm_offset:
            return []
        before, self.confirm_offset = self.confirm_offset, offset
        effects: list[Effect] = [ConfirmMoved(offset)]
        if before <= self.epochs.newest_start < offset:
            fields = {"epoch": self.epochs.newest_epoch, "confirm_offset": offset}
            effects.append(ReportEvent("ConfirmCrossedEpoch", fields))
        return effects

    def _write_epochs(self) -> WriteEpochs:
        return WriteEpochs(self.epochs.entries, self.epoch_seen, self.none_of_seen)

    def _epoch_event(self) -> ReportEvent:
        newest = self.epochs.newest
        assert newest is not None
        # The store time of the last message below the epoch is known to the shell only.
        fields = {"epoch": newest.epoch, "start_offset": newest.start_offset, "last_store_ms": -1}
        return ReportEvent("EpochAppended", fields)
