"""The message store of a member of a majority group: everything above the log as any broker has it,
the log one of entries.

Responsible for: that queues and key index hold what is committed and nothing else, whatever is cut
behind it; which folders it refuses. Refuses to know: terms, roles, peers, waiting for a majority.

Queues hold committed messages only, so a cut of what is not committed touches none of them.
"""

from __future__ import annotations

from pathlib import Path

from brokers.majority.messages.appender import EntryAppender, Propose
from brokers.majority.messages.message_log import EntryMessageLog
from brokers.majority.store.folder import MajorityFolder
from brokers.store.files.errors import LogError
from brokers.store.queues.dispatch import QueueGrowth
from brokers.store.queues.repair import cut_queues
from brokers.store.recovery.above import recover_above
from brokers.store.recovery.plan import RecoveryReport
from brokers.store.store import MessageStore, StoreConfig


class EntryMessageStore(MessageStore):
    """`folder`: of this member, open; its owner closes it, behind this store. `propose`: takes new
    entries while this member leads.
    """

    is_mended = False

    def __init__(
        self,
        root: Path | str,
        folder: MajorityFolder,
        propose: Propose,
        config: StoreConfig | None = None,
        *,
        same_boot: bool = False,
    ) -> None:
        """LogError when the folder `root` is in use, or is that of a replica of the other kind."""
        _refuse_records(Path(root))
        self._folder, self._propose = folder, propose
        super().__init__(root, config, same_boot=same_boot)
        folder.log.after_cut = self._was_cut

    def _open_log(self) -> EntryMessageLog:
        self.entries = EntryMessageLog(self._folder.log)
        return self.entries

    def _recover(self, abnormal: bool, same_boot: bool) -> RecoveryReport:
        return recover_above(
            self.entries,
            self.queues,
            self.dispatcher,
            self._checkpoint,
            committed=self.entries.committed_offset,
            cut_bytes=self._folder.found.cut_bytes,
            abnormal=abnormal,
            same_boot=same_boot,
            ends=self.ends.ends,
            ends_offset=self.ends.offset,
        )

    def _make_appender(self) -> EntryAppender:
        return EntryAppender(
            self.entries, self.queues, self.dispatcher, self.ends.floors, self._propose
        )

    def close(self, *, clean: bool = True) -> None:
        """Before its folder."""
        self._folder.log.after_cut = lambda anew: None
        super().close(clean=clean)

    @property
    def full(self) -> str | None:
        """Why nothing is taken although there may be room; of a leader's entries neither."""
        return self._folder.log.full

    @full.setter
    def full(self, reason: str | None) -> None:
        self._folder.log.full = reason

    def committed(self) -> list[QueueGrowth]:
        """More entries are committed: makes their messages readable, at once."""
        return self.dispatch_to(self.entries.committed_offset)

    def _was_cut(self, anew: bool) -> None:
        """Entries that were not committed are gone from the log's end, and others may come in their
        place; `anew`: it begins behind everything that it had.
        """
        self._appender.forget_queue_offsets()
        if anew:
            self._begin_anew()
            return
        end = self.log.end_offset
        self._forget_behind(end)
        self.dispatcher.restart_at(min(self.dispatched_offset, end))

    def _begin_anew(self) -> None:
        self.ends.hold(self.queues)
        if self.index is not None:
            self.index.cut(self.log.min_offset)
        cut_queues(self.log, self.queues, -1)
        self._queued_end = 0
        self.confirm_offset = self.log.min_offset
        self.dispatcher.restart_at(self.log.min_offset)

    def _forget_behind(self, end: int) -> None:
        """Only where a leader of another kind has cut what this one knew to be committed: its
        messages are gone from the log, and must be from what leads there.
        """
        if end >= max(self._queued_end, self.confirm_offset):
            return
        self._forget_confirmed(end, end)
        if self.index is not None:
            self.index.cut(end)
        cut_queues(self.log, self.queues, end)


def _refuse_records(root: Path) -> None:
    """A set replicates in one way (D10)."""
    records = root / "commitlog"
    if records.is_dir() and any(records.iterdir()):
        raise LogError(
            f"{root} holds the log of a replica of an in-sync set: a set replicates in one way, so "
            "start this member of a majority group with an empty folder"
        )
