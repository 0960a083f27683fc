"""What a put needs, and what it is answered with (PROTOCOL 4.3, design
S1, S2).

Responsible for: the acknowledgement mode and its label, who may be admitted, RocketMQ's table of
outcomes with its codes and words, when a busy broker sheds load. Refuses to know: how anything is
waited for, messages, connections, clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.remoting.codes import ResponseCode
from brokers.replica.waiters import Confirmation
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import BODY_BYTES_MAX

NOT_ENOUGH = "in-sync replicas not enough"
# RocketMQ's osPageCacheBusyTimeOutMills and waitTimeMillsInSendQueue.
PAGE_CACHE_BUSY_MS = 1_000
QUEUE_WAIT_MS = 200
# What the loop takes so soon after an append that held it had been waiting in the sockets.
BEHIND_MS = 50


class PutStatus(Enum):
    """RocketMQ's names. OUTCOME_UNKNOWN is ours: a mastership ended while the put was waiting;
    there it is a timeout.
    """

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
_ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit"
    f" {BODY_BYTES_MAX}B, msg properties length limit 32KB."
)
_ANSWERS: dict[PutStatus, tuple[int, str | None]] = {
    PutStatus.PUT_OK: (ResponseCode.SUCCESS, None),
    PutStatus.FLUSH_DISK_TIMEOUT: (ResponseCode.FLUSH_DISK_TIMEOUT, None),
    PutStatus.FLUSH_SLAVE_TIMEOUT: (ResponseCode.FLUSH_SLAVE_TIMEOUT, None),
    PutStatus.SLAVE_NOT_AVAILABLE: (ResponseCode.SLAVE_NOT_AVAILABLE, None),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (ResponseCode.SYSTEM_ERROR, NOT_ENOUGH),
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
    PutStatus.OUTCOME_UNKNOWN: (ResponseCode.SERVICE_NOT_AVAILABLE, "the outcome is unknown"),
}


def code_of(status: PutStatus, detail: str | None = None) -> tuple[int, str | None]:
    """(response code, remark). A success has no remark; `detail` replaces the usual words where
    those say less.
    """
    code, remark = _ANSWERS[status]
    return code, remark if status in STORED or not detail else detail


@dataclass(frozen=True, slots=True)
class AckMode:
    """When a send is answered with success. RocketMQ's allAckInSyncStateSet, inSyncReplicas,
    minInSyncReplicas, enableAutoInSyncReplicas.
    """

    all_ack: bool = True
    in_sync: int = 2
    min_in_sync: int = 2
    auto: bool = False

    @property
    def label(self) -> str:
        """For status and people. Only all-ack promises that an acknowledged message stays (S1,
        S2).
        """
        if self.all_ack:
            return "all-ack"
        return (
            ("asynchronous (may lose)") if self.in_sync <= 1 else f"count {self.in_sync} (may lose)"
        )

    def warnings(self) -> list[str]:
        """What an operator has to know of these settings when the broker starts."""
        said = []
        if not self.all_ack:
            said.append(
                f"acknowledgement mode {self.label}: the next master need not hold what was "
                "acknowledged; only all_ack = true promises that"
            )
        if self.auto:
            said.append(
                "auto_in_sync_replicas has no effect: RocketMQ shrinks the wanted number of "
                "replicas for acting masters only, never under controllers; use "
                "min_in_sync_replicas"
            )
        return said

    def refusal(self, confirmed: int, reachable: int) -> str | None:
        """Why a put that waits has no hope: the confirmed set, or those of it that can still
        answer, are too few. It is refused at once; RocketMQ looks at the set alone and lets the
        rest time out with code 12.
        """
        if confirmed < self.min_in_sync:
            return f"{NOT_ENOUGH}: {confirmed} of {self.min_in_sync}"
        if reachable < self.min_in_sync:
            return f"{NOT_ENOUGH}: {reachable} of {self.min_in_sync} reachable"
        return None


def admit(reason: str | None, *, waits: bool) -> tuple[int, str | None] | None:
    """The answer to a put that must not be written on a master whose replica says `reason` (None:
    all is well); None when it may be. A send that does not wait for replicas (property WAIT is
    false) is not refused for want of them.
    """
    if reason is None:
        return None
    if not reason.startswith(NOT_ENOUGH):
        return code_of(PutStatus.SERVICE_NOT_AVAILABLE, reason)
    return code_of(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH) if waits else None


def combine(replication: Confirmation, flush: Flushed) -> PutStatus:
    """What became of a stored message: the flush first, replication over it. `flush` is DURABLE
    where nobody waits for the disk. The bytes of an ended wait may be kept by the next master or
    cut: only a retry makes that certain.
    """
    if replication is Confirmation.TIMED_OUT:
        return PutStatus.FLUSH_SLAVE_TIMEOUT
    if replication is not Confirmation.CONFIRMED:
        return PutStatus.OUTCOME_UNKNOWN
    return PutStatus.PUT_OK if flush is Flushed.DURABLE else PutStatus.FLUSH_DISK_TIMEOUT


class BusyGate:
    """Sheds load as RocketMQ's fast failure does: sends that waited too long to be written while
    others before them did too, and sends that came while an append hung. A process that stood
    still for a moment has no queue, and its clients have seconds. Times are ms of one monotonic
    clock. Both limits may be changed while it is in use.
    """

    def __init__(
        self, queue_wait_ms: int = QUEUE_WAIT_MS, page_cache_busy_ms: int = PAGE_CACHE_BUSY_MS
    ) -> None:
        self.queue_wait_ms, self.page_cache_busy_ms = queue_wait_ms, page_cache_busy_ms
        self._hung_until_ms: int | None = None
        self._late = False

    def appended(self, began_ms: int, ended_ms: int) -> None:
        """An append is over. What is taken right behind one that hung came while it did."""
        hung = ended_ms - began_ms > self.page_cache_busy_ms
        self._hung_until_ms = ended_ms + BEHIND_MS if hung else None

    def refusal(self, taken_ms: int, now_ms: int) -> tuple[int, str | None] | None:
        """The answer to puts that were taken at `taken_ms` and are not written yet; None when they
        may be.
        """
        hung_until_ms, self._hung_until_ms = self._hung_until_ms, None
        if hung_until_ms is not None and taken_ms <= hung_until_ms:
            return code_of(PutStatus.OS_PAGE_CACHE_BUSY)
        waited_ms = now_ms - taken_ms
        before, self._late = self._late, waited_ms > self.queue_wait_ms
        if not (before and self._late):
            return None
        words = (
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
            f"{waited_ms}ms"
        )
        return ResponseCode.SYSTEM_BUSY, words
