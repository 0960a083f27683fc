"""The folder of one member of a majority group, opened as a whole.

Responsible for: PROTOCOL 9.1: which files there are, who has the folder, in which order a start
reads and an end writes. Refuses to know: what the files say, who asks for them.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from brokers.majority.entry import Place
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.layout import INDEX_RECORD_BYTES, encode_filler
from brokers.majority.store.recovery import Found, recover
from brokers.majority.store.small_files import SmallFiles, TermFile
from brokers.store.files.disk import sync_directory
from brokers.store.files.disk_space import Spare
from brokers.store.files.durable import StoreLock
from brokers.store.files.errors import unreadable_told
from brokers.store.log.commit_log import FILE_BYTES_DEFAULT, CommitLog

INDEX_FILE_BYTES_DEFAULT = 5 * 1024 * 1024 * INDEX_RECORD_BYTES

_log = logging.getLogger("regent.store.majority")


class MajorityStoreConfig(Struct, frozen=True):
    """File sizes in bytes, the same on all members: positions of entries follow from them.
    `begins_at`: position of the first entry ever, the begin of a file.
    """

    data_file_bytes: int = FILE_BYTES_DEFAULT
    index_file_bytes: int = INDEX_FILE_BYTES_DEFAULT
    begins_at: int = 0


def folder_name(member_id: str) -> str:
    """Under the store's folder, as DLedger names it."""
    return f"dledger-{member_id}"


def _make(folder: Path) -> None:
    """The folder, durably with its name: a vote in it is a promise."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        sync_directory(one.parent)


class MajorityFolder:
    """`log` and `terms` of a member, and what was `found`. `root`: the folder of this member."""

    def __init__(
        self,
        root: Path | str,
        config: MajorityStoreConfig | None = None,
        *,
        same_boot: bool = False,
    ) -> None:
        """Opens and recovers. LogError, one line with the way out, when the folder is in use, its
        files do not fit, or nobody knows what this member promised.

        `same_boot`: the machine has not restarted since the last run, so written bytes are there
        even without a flush.
        """
        self.root, self.config = Path(root), config or MajorityStoreConfig()
        _make(self.root)
        with ExitStack() as undo:
            self._lock = StoreLock(self.root)
            undo.callback(self._lock.release)
            self._spare = Spare(self.root)
            with unreadable_told(str(self.root)):
                self._open(same_boot, undo)
            undo.pop_all()

    def _open(self, same_boot: bool, undo: ExitStack) -> None:
        data = CommitLog(self.root / "data", self.config.data_file_bytes, encode_filler)
        undo.callback(data.close)
        index = EntryIndex(CommitLog(self.root / "index", self.config.index_file_bytes))
        undo.callback(index.log.close)
        files = SmallFiles(self.root, self._spare)
        self.terms = TermFile(self.root, self._spare, fresh=not data.file_starts)
        marks, owed = files.load_marks(), files.load_owed()

        def owe(place: Place) -> None:
            nonlocal owed
            owed = place if owed is None else max(place, owed)
            files.save_owed(owed)

        self.found = recover(data, index, marks, same_boot=same_boot, owe=owe)
        self._say(self.found)
        self.log = EntryLog(data, index, files, self.found, marks, owed, self.config.begins_at)
        self._spare.refill()

    def _say(self, found: Found) -> None:
        if found.owed is not None:
            _log.error(
                "%s: entries up to %d of term %d were here, the log ends at %d (%s): this member "
                "grants no vote until it has them again",
                self.root,
                found.owed.index,
                found.owed.term,
                found.last.index,
                found.stopped_at or "nothing was written there",
            )
        elif found.cut_bytes:
            _log.warning(
                "%s: the log ends at entry %d, %d bytes behind it were cut: %s",
                self.root,
                found.last.index,
                found.cut_bytes,
                found.stopped_at,
            )

    def close(self) -> None:
        """The orderly end. LogError, OSError: the folder is given up all the same."""
        try:
            self.log.close()
        finally:
            self._lock.release()
