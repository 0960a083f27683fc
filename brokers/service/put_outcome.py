"""What a stored message is answered with.

Responsible for: RocketMQ's table of outcomes (`broker-wire-and-storage.md` 6.2): flush first, replication over it.
Refuses to know: how either was waited for, connections.
"""

from __future__ import annotations

from brokers.log.flush_queue import Flushed
from brokers.remoting.codes import ResponseCode
from brokers.replica.waiters import Confirmation


def code_of(replication: Confirmation, flush: Flushed) -> tuple[int, str | None]:
    """(response code, remark). 0, 10 and 12 say that the message is stored, and where; they carry no remark, as with
    RocketMQ. Where nothing waits for the disk `flush` is DURABLE."""
    if replication is Confirmation.TIMED_OUT:
        return ResponseCode.FLUSH_SLAVE_TIMEOUT, None
    if replication is not Confirmation.CONFIRMED:
        # The bytes may be kept by the next master or cut: only a retry makes it certain.
        return ResponseCode.SERVICE_NOT_AVAILABLE, f"the outcome is unknown: {replication.value}"
    return (ResponseCode.SUCCESS if flush is Flushed.DURABLE else ResponseCode.FLUSH_DISK_TIMEOUT), None
