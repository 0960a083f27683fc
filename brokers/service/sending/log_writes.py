"""Messages into the log of a master, for whoever has some: what a refusal of the log is answered
with (PROTOCOL 4.3).

Refuses to know: whose messages they are, whether this broker may write, who waits for the members.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokers.replica.put_rules import PutStatus, code_of
from brokers.store.appender import PutResult
from brokers.store.files.disk_space import full_remark
from brokers.store.files.errors import DiskFull, LogError, NotNow
from brokers.store.log.records import MessageFields, RecordError
from brokers.store.store import MessageStore


class NotPut(Exception):
    """Nothing of it is stored. `code`, `remark`: what a client is answered. `disk_failed`: why the
    log takes no more bytes; None while it does.
    """

    def __init__(self, code: int, remark: str | None, disk_failed: str | None = None) -> None:
        super().__init__(remark or f"code {code}")
        self.code = code
        self.remark = remark
        self.disk_failed = disk_failed


def into_log(
    store: MessageStore, groups: Sequence[Sequence[MessageFields]], wall_ms: int
) -> list[PutResult | RecordError]:
    """Groups of messages, each within one file; one that cannot be stored gets its RecordError.
    NotPut.
    """
    try:
        return store.put_many(groups, wall_ms)
    except DiskFull:
        # nothing of it is stored; the log takes messages again as soon as there is room
        full = code_of(PutStatus.SERVICE_NOT_AVAILABLE, full_remark(store.root))
        raise NotPut(*full) from None
    except NotNow as error:
        raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, str(error))) from None
    except (LogError, OSError) as error:
        failed = code_of(PutStatus.SERVICE_NOT_AVAILABLE, str(error))
        raise NotPut(*failed, str(error)) from error
