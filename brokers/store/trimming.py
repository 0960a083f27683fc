"""Taking old files off the front of a store.

Responsible for: the order in which they go, so that a crash in between leaves a store that opens:
out of use, then the oldest first, then the entries that pointed there. Refuses to know: which files
should go, and why.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.store.log.message_log import MessageLog
from brokers.store.queues.consume_queues import ConsumeQueues


def trim(log: MessageLog, queues: ConsumeQueues, below: int, remembered: int) -> Callable[[], None]:
    """The log begins at `below` or earlier from now on; what its queues no longer need goes.

    Never above `remembered`, up to where log and queues are on the disk, and where queues go on
    beside them: nothing else says where a queue stood whose messages are all gone.

    Returns what removes the log's files, to be called on any thread: LogError, OSError.
    """
    remove = log.trim(min(below, remembered))
    queues.trim(log.min_offset)
    return remove
