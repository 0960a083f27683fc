"""Reading the log from where recovery begins to its end: many messages at a time where they are
sound.

Responsible for: when the arrays are worth loading, and how far they may look at once. Refuses to
know: where reading begins and what is believed (`recovery.plan`), what a complete record is
(scan.py, checked_runs.py).

The result is that of `dispatcher.build(read)`, which looks at one message after the other.
"""

from __future__ import annotations

from brokers.store.files.errors import is_unreadable
from brokers.store.log.commit_log import CommitLog
from brokers.store.queues.dispatch import Dispatcher, before_arrays
from brokers.store.recovery.damage import Written, behind_damage
from brokers.store.recovery.plan import Confirmed

# Loading the arrays takes as long as some 4 MiB of small messages one after the other.
WORTH_BYTES = 4 << 20
WINDOW_BYTES, WINDOW_BYTES_MIN = 1 << 20, 64 << 10
# So many are looked at one by one where the arrays stopped.
SINGLY = 64


def read_to_the_end(
    log: CommitLog, read: Confirmed, dispatcher: Dispatcher, written: Written
) -> None:
    """Gives every confirmed message its queue entry; `read` knows the rest afterwards. Damage in
    what was once written is passed over.
    """
    _read_on(log, read, dispatcher)
    while read.walk.reason and (
        passed := behind_damage(log.read, read.walk.end, log.capacity_end, log.file_bytes, written)
    ):
        read.over_damage(*passed)
        _read_on(log, read, dispatcher)


def _read_on(log: CommitLog, read: Confirmed, dispatcher: Dispatcher) -> None:
    limit = log.capacity_end
    if _is_long(log, read.walk.end):
        while read.walk.end < limit and not read.walk.reason:
            if not _many(log, read, dispatcher, limit):
                dispatcher.build(read.some(SINGLY))
    dispatcher.build(read)


def _is_long(log: CommitLog, at: int) -> bool:
    try:
        return any(log.read(at + WORTH_BYTES, 8))
    except OSError as error:
        if is_unreadable(error):
            return False
        raise


def _many(log: CommitLog, read: Confirmed, dispatcher: Dispatcher, limit: int) -> bool:
    """Whether there was a run of sound messages."""
    start = read.walk.end
    if start >= read.looked_at_singly_from:
        return False
    count = min(read.alike_below(limit) - start, WINDOW_BYTES)
    try:
        data = log.read(start, count) if count >= WINDOW_BYTES_MIN else b""
    except OSError as error:
        if is_unreadable(error):
            return False
        raise
    if not data or not any(data[-8:]):  # the log may end in between
        return False
    before_arrays()
    from brokers.store.recovery.checked_runs import checked_runs  # numpy only where it is worth it

    found = checked_runs(data, start)
    if found.count and read.passed(found.made.end, found.count):
        dispatcher.write_runs(found.made, {})
    return found.count > 0
