"""All consume queues of a store, by (topic, queue id).

Responsible for: finding them on disk, a bounded number of open files for any number of queues.
Refuses to know: what an entry is, what the messages are.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from brokers.store.files.disk import sync_directory
from brokers.store.files.errors import LogError, is_unreadable
from brokers.store.files.open_files import OPEN_FILES_MAX, OpenFiles, Unsynced
from brokers.store.queues.consume_queue import ConsumeQueue
from brokers.store.queues.entries import ENTRY_BYTES

FILE_BYTES_DEFAULT = 300_000 * ENTRY_BYTES

# A folder with this behind its number holds files of a queue that could not be read.
_ASIDE = ".unreadable"

_log = logging.getLogger("regent.store.queues")

# `+` as in RocketMQ's second form of retry topics
_TOPIC_FOLDER = re.compile(r"[%|a-zA-Z0-9_+-]{1,255}\Z")


class ConsumeQueues:
    """All queues of a store, by (topic, queue id)."""

    def __init__(
        self,
        directory: Path | str,
        file_bytes: int = FILE_BYTES_DEFAULT,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        if file_bytes <= 0 or file_bytes % ENTRY_BYTES:
            raise LogError(f"consume queue file size {file_bytes} is no multiple of {ENTRY_BYTES}")
        self._directory, self._file_bytes = Path(directory), file_bytes
        self._files = OpenFiles(open_files_max)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._directory.mkdir(parents=True, exist_ok=True)
        for topic in sorted(self._directory.iterdir()):
            for queue in sorted(topic.iterdir()) if topic.is_dir() else ():
                if queue.name.isascii() and queue.name.isdigit():
                    self._queues[topic.name, int(queue.name)] = self._opened(queue)

    def _opened(self, folder: Path) -> ConsumeQueue:
        try:
            return ConsumeQueue(folder, self._file_bytes, self._files)
        except OSError as error:
            return self._anew(folder, error)

    def _anew(self, folder: Path, error: OSError) -> ConsumeQueue:
        """A queue that the disk cannot read is made again from the log: its files stay beside it,
        damaged sectors and all.
        """
        if not is_unreadable(error):
            raise error
        aside, number = folder.with_name(folder.name + _ASIDE), 1
        while aside.exists():
            aside, number = folder.with_name(f"{folder.name}{_ASIDE}-{number}"), number + 1
        _log.error(
            "%s cannot be read: %s; it is made again from the log, its files are in %s",
            folder,
            error,
            aside.name,
        )
        self._files.forget(folder)
        folder.rename(aside)
        sync_directory(folder.parent)
        queue = ConsumeQueue(folder, self._file_bytes, self._files)
        queue.lacks_from = 0
        return queue

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, or None when nothing was ever written to it."""
        return self._queues.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, made when absent; None when topic or id cannot be a queue's name (such
        messages get no entry).
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None and queue_id >= 0 and _TOPIC_FOLDER.match(topic):
            queue = ConsumeQueue(
                self._directory / topic / str(queue_id), self._file_bytes, self._files
            )
            self._queues[topic, queue_id] = queue
        return queue

    def __iter__(self) -> Iterator[tuple[tuple[str, int], ConsumeQueue]]:
        return iter(list(self._queues.items()))

    def last_physical(self) -> int:
        """Highest message position that any queue points to; -1 when there is none."""
        return max((queue.last_physical for queue in self._queues.values()), default=-1)

    def truncate(
        self, physical_offset: int, leads: Callable[[ConsumeQueue, tuple[str, int], int], object]
    ) -> None:
        """Cuts every queue that points at or beyond `physical_offset`. `leads`: whether the log has
        the message of a slot.
        """
        for key, queue in self._queues.items():
            queue.truncate(physical_offset, partial(leads, queue, key))

    def trim(self, log_min_offset: int) -> None:
        """`ConsumeQueue.trim` for all queues."""
        for queue in self._queues.values():
            queue.trim(log_min_offset)

    def __len__(self) -> int:
        return len(self._queues)

    def keep_valid_below(
        self, physical_offset: int, ends: Mapping[tuple[str, int], tuple[int, int]] | None = None
    ) -> None:
        """`ConsumeQueue.keep_valid_below` for all queues. `ends`: of each its durable end first,
        None where they are not known.
        """
        for key, queue in self._queues.items():
            try:
                queue.keep_valid_below(
                    physical_offset, None if ends is None else ends.get(key, (0, -1))[0]
                )
            except OSError as error:
                self._queues[key] = self._anew(self._directory / key[0] / str(key[1]), error)

    def lacks_from(self, known_below: int = 0) -> int | None:
        """Lowest `ConsumeQueue.lacks_from`. `known_below`: of messages in front of it others know
        whether entries are lost.
        """
        places = [
            queue.lacks_from for queue in self._queues.values() if queue.lacks_from is not None
        ]
        places += [
            max(queue.last_physical, known_below, 0)
            for queue in self._queues.values()
            if queue.end_lost
        ]
        return min(places, default=None)

    def mark_unsynced(self, physical_offset: int, *, cut: bool = False) -> None:
        """`ConsumeQueue.mark_unsynced` for all queues."""
        for queue in self._queues.values():
            queue.mark_unsynced(physical_offset, cut=cut)

    def take_unsynced(self) -> Unsynced:
        """What is to be made durable (`OpenFiles.take_unsynced`)."""
        return self._files.take_unsynced()

    def close(self) -> None:
        """Closes all files; flushes nothing."""
        self._files.close()
