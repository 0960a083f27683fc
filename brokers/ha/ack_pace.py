"""When a slave acknowledges: at once where somebody may wait for it, now and then while it copies
what is old.

Responsible for: that pace. Refuses to know: links, packets, clocks.
"""

from __future__ import annotations

# Of the bytes a master sends without hearing from its slave.
ACKS_PER_WINDOW = 4
ACK_AFTER_MS = 10


def is_ack_due(
    end_offset: int, acked: int, *, master_end: int, window_bytes: int, silent_ms: int
) -> bool:
    """`end_offset` of the slave's log, `acked` last, `master_end`: where the master's log ended
    when they met (bytes); `silent_ms`: since the slave wrote anything. A tick must not put it off:
    then `end_offset > acked` is enough.
    """
    unacked_bytes = end_offset - acked
    if unacked_bytes <= 0 or end_offset >= master_end:
        return unacked_bytes > 0
    return unacked_bytes >= window_bytes // ACKS_PER_WINDOW or silent_ms >= ACK_AFTER_MS
