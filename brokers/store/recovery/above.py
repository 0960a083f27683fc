"""Bringing queues into agreement with a log that has recovered by itself.

Responsible for: that every message known to be confirmed has its entry, and none that the log does
not hold; the decisions of `recovery.plan`, without those about the log's end. Refuses to know: how
such a log finds its end, roles, who asks for the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.store.log.message_log import MessageLog
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher
from brokers.store.queues.queue_ends import QueueEnd
from brokers.store.queues.repair import cut_queues, last_dispatched
from brokers.store.recovery.checkpoint import Checkpoint
from brokers.store.recovery.plan import (
    Confirmed,
    FileFacts,
    Known,
    RecoveryReport,
    plan,
    scan_from,
    settle,
    settle_empty,
)
from brokers.store.recovery.recovery import cut_queues_back


def recover_above(
    log: MessageLog,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    checkpoint: Checkpoint,
    *,
    committed: int,
    cut_bytes: int,
    abnormal: bool,
    same_boot: bool,
    ends: Mapping[tuple[str, int], QueueEnd] | None = None,
    ends_offset: int = 0,
) -> RecoveryReport:
    """`committed`: everything in front of it is confirmed, as the log itself knows. `cut_bytes`: so
    many the log took from its end. The others as of `recovery.recover`.
    """
    known = Known(
        checkpoint.recovery_ms,
        checkpoint.flushed_offset,
        max(checkpoint.confirm_offset, committed),
        abnormal,
        same_boot,
    )
    if not log.file_starts:
        cut_queues(log, queues, -1)
        dispatcher.restart_at(0)
        return settle_empty(known)
    files = [FileFacts(start, log.store_ms_at(start)) for start in log.file_starts]
    made = plan(files, log.file_bytes, known)
    lacking = cut_queues_back(log, queues, made.queues_valid_below, ends, ends_offset)
    cut_queues(log, queues, log.end_offset)
    dispatched = last_dispatched(log, queues)
    start = scan_from(made, files, dispatched, min(lacking, default=None))
    walk = log.walk(start, log.end_offset, check_body=False)
    read = Confirmed(walk, made, dispatched)
    dispatcher.restart_at(start)
    dispatcher.build(read)
    if start < made.read_below:  # entries made again count as durable from the first moment on
        queues.take_unsynced().sync()
    queues.mark_unsynced(made.flushed_offset, cut=abnormal and same_boot)
    dispatcher.restart_at(max(read.end, start))
    return settle(
        known,
        made,
        read,
        start=start,
        log_min=log.min_offset,
        file_bytes=log.file_bytes,
        cut_bytes=cut_bytes,
    )
