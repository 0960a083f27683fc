"""Bringing log and queues of a store folder into agreement when it is opened.

Responsible for: gathering the facts that `recovery.plan` decides upon, and doing what it says.
Refuses to know: where to begin, what to believe; roles, epochs, who asks for the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from brokers.store.files.errors import is_unreadable
from brokers.store.log.commit_log import CommitLog, store_ms_of
from brokers.store.log.message_log import MessageLog
from brokers.store.log.records import MAGIC_V1, MAGIC_V2, MESSAGE_BYTES_MIN, size_and_magic
from brokers.store.log.scan import LogWalk
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher, before_arrays
from brokers.store.queues.queue_ends import QueueEnd, lacks_from
from brokers.store.queues.repair import Misplaced, cut_queues, last_dispatched
from brokers.store.recovery.checkpoint import Checkpoint
from brokers.store.recovery.damage import Written, behind_damage
from brokers.store.recovery.plan import (
    DAMAGED_MAX,
    Confirmed,
    FileFacts,
    Known,
    Plan,
    RecoveryReport,
    plan,
    scan_from,
    settle,
    settle_empty,
)

# Loading the arrays takes as long as some 4 MiB of small messages one after the other.
WORTH_BYTES = 4 << 20
WINDOW_BYTES, WINDOW_BYTES_MIN = 1 << 20, 64 << 10
# Records looked at one by one where the arrays stopped.
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


__all__ = ["RecoveryReport", "recover"]


def recover(
    log: CommitLog,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    checkpoint: Checkpoint,
    *,
    abnormal: bool,
    same_boot: bool,
    ends: Mapping[tuple[str, int], QueueEnd] | None = None,
    ends_offset: int = 0,
) -> RecoveryReport:
    """Finds the end of the log, cuts what lies behind, and has the queues hold every message known
    to be confirmed.

    `same_boot`: the machine did not restart since the last write, so nothing written can be
    missing. Otherwise only what the checkpoint calls durable is trusted. `ends`: where the queues
    went on, as far as that was made durable; `ends_offset`: no message in front of it is missing in
    them.
    """
    known = Known(
        checkpoint.recovery_ms,
        checkpoint.flushed_offset,
        checkpoint.confirm_offset,
        abnormal,
        same_boot,
    )
    if not log.file_starts:
        cut_queues(log, queues, -1)
        dispatcher.restart_at(0)
        return settle_empty(known)
    files = [FileFacts(start, _first_ms(log, start)) for start in log.file_starts]
    made = plan(files, log.file_bytes, known)
    lacking = cut_queues_back(log, queues, made.queues_valid_below, ends, ends_offset)
    dispatched = last_dispatched(log, queues)
    start = scan_from(made, files, dispatched, min(lacking, default=None))
    read = Confirmed(_walk(log, start, made), made, dispatched)
    dispatcher.restart_at(start)
    dispatcher.misplaced = partial(_noted, Misplaced(log, queues), read)
    read_to_the_end(log, read, dispatcher, Written(made.flushed_offset, made.written_end))
    dispatcher.misplaced = None
    end = read.walk.end
    cut = log.set_recovered_end(end, made.flushed_offset)
    cut_queues(log, queues, end)
    if start < made.read_below:  # entries made again count as durable from the first moment on
        queues.take_unsynced().sync()
    queues.mark_unsynced(made.flushed_offset, cut=abnormal and same_boot)
    dispatcher.restart_at(max(read.end, start) if end > start else end)
    return settle(
        known,
        made,
        read,
        start=start,
        log_min=log.min_offset,
        file_bytes=log.file_bytes,
        cut_bytes=cut,
    )


def _walk(log: CommitLog, start: int, made: Plan) -> LogWalk:
    return LogWalk(
        log.read,
        start,
        log.capacity_end,
        log.file_bytes,
        check_body=True,
        written_end=made.written_end,
        torn_from=made.flushed_offset if made.power_lost else None,
    )


def cut_queues_back(
    log: MessageLog,
    queues: ConsumeQueues,
    valid_below: int | None,
    ends: Mapping[tuple[str, int], QueueEnd] | None,
    ends_offset: int,
) -> list[int]:
    """Queues have no entries that a loss of power may have spoilt; the places in the log from which
    others are missing.
    """
    gone = lacks_from(queues, ends, log.min_offset) if ends is not None else None
    if valid_below is not None:
        queues.keep_valid_below(valid_below, ends)
    return [place for place in (queues.lacks_from(ends_offset), gone) if place is not None]


def _noted(
    entered: Misplaced, read: Confirmed, key: tuple[str, int], slot: int, physical: int, size: int
) -> bool:
    bad = entered.look(key, slot, physical, size)
    if bad is not None and len(read.damaged) < DAMAGED_MAX:
        read.damaged.append(bad)
    return bad is not None


def _first_ms(log: CommitLog, start: int) -> int | None:
    try:
        head = log.read(start, MESSAGE_BYTES_MIN)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None
    if len(head) == MESSAGE_BYTES_MIN and size_and_magic(head, 0)[1] in (MAGIC_V1, MAGIC_V2):
        return store_ms_of(head)
    return None
