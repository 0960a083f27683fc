"""One slave as its master sees it: the master's side of one HA link, without socket or clock.

Responsible for: answering the handshake once, where sending starts, cutting packets, what the slave
has acknowledged and for how long it has left bytes waiting (PROTOCOL 2.2 to 2.5).
Refuses to know: other slaves, the SyncStateSet, roles, files. Log bytes are named, not carried: the
shell moves them with sendfile.

Invariants:
- nothing is sent before the handshake, no log byte before the first acknowledgement;
- acknowledged <= next offset to send <= log end; acknowledgements never go back;
- a packet lies within one file and one epoch and is labelled with the epoch of its first byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.ha.epochs import EpochEntry
from brokers.ha.frames import (
    FRAME_BYTES_MAX,
    HANDSHAKE_ENTRIES_MAX,
    MasterHandshake,
    ProtocolError,
    SlaveAck,
    SlaveFrameDecoder,
    SlaveHandshake,
    Transfer,
)
from brokers.ha.log_sender import BATCH_BYTES, LinkLimits, LogSender, LogView, RangeToSend

assert BATCH_BYTES + Transfer.LAYOUT.size <= FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class SlaveIntroduced:
    """The slave's handshake; `reply` is the whole answer, to be sent in one write."""

    broker_id: int
    learner: bool
    reply: bytes


@dataclass(frozen=True, slots=True)
class SlaveAcknowledged:
    """Everything below `offset` is in the slave's log. `first`: transfer begins with it."""

    offset: int
    first: bool


MasterEvent = SlaveIntroduced | SlaveAcknowledged


class MasterLink(LogSender):
    """Drive with receive_data, log_grew and tick; collect with data_to_send."""

    def __init__(
        self, limits: LinkLimits, *, own_id: int, now_ms: int, unjoined: set[int] | None = None
    ) -> None:
        """`unjoined`: slaves whose last link of this mastership ended before they acknowledged
        anything.
        """
        super().__init__(limits, now_ms=now_ms)
        self.peer_id: int | None = None
        self.peer = ""  # the address at the other end, where the shell knows it
        self.learner = False
        # what its first acknowledgement said, also one that ended the link
        self.claimed: int | None = None
        self._own_id = own_id
        self._unjoined = set() if unjoined is None else unjoined
        self._from_last_file = False
        self._decoder = SlaveFrameDecoder()
        self._opened_ms = self._last_read_ms = now_ms
        self._confirm_sent = -1
        self._mark: tuple[int, int] | None = None  # (offset awaited, since when)

    # -- from the slave ---------------------------------------------------------------------------

    def receive_data(
        self, data: bytes | memoryview, log: LogView, *, now_ms: int
    ) -> list[MasterEvent]:
        """Feed what the slave sent. ProtocolError when no correct slave sends it."""
        self._last_read_ms = now_ms
        events: list[MasterEvent] = []
        for frame in self._decoder.feed(data):
            if isinstance(frame, SlaveHandshake):
                events += self._on_handshake(frame, log, now_ms)
            else:
                events.append(self._on_ack(frame, log, now_ms))
        return events

    def _on_handshake(self, frame: SlaveHandshake, log: LogView, now_ms: int) -> list[MasterEvent]:
        if self.peer_id is not None:
            # A Java slave repeats its handshake when the reply takes long; a second reply would
            # find it in another state and make it close the link (2.2).
            if frame.broker_id != self.peer_id:
                raise ProtocolError(f"broker {self.peer_id} now calls itself {frame.broker_id}")
            return []
        if frame.broker_id == self._own_id:
            raise ProtocolError(f"a slave with the master's own broker id {frame.broker_id}")
        self.peer_id, self.learner = frame.broker_id, frame.learner
        self._from_last_file = frame.from_last_file
        self._mark = (log.end_offset, now_ms)
        self._last_write_ms = now_ms
        return [
            SlaveIntroduced(
                frame.broker_id, frame.learner, self._reply(frame.broker_id, log).encode()
            )
        ]

    def _reply(self, broker_id: int, log: LogView) -> MasterHandshake:
        """A Java slave without a common epoch closes the link and comes back: its epochs may all
        have been superseded by ours before their first byte. The reply then lists those epochs too,
        in turn with the plain reply that any slave takes.
        """
        superseded: tuple[EpochEntry, ...] = ()
        if broker_id in self._unjoined:
            self._unjoined.discard(broker_id)
            superseded = log.epochs.before_first(HANDSHAKE_ENTRIES_MAX - len(log.epochs.entries))
        else:
            self._unjoined.add(broker_id)
        return MasterHandshake(
            log.end_offset, log.epochs.newest_part(HANDSHAKE_ENTRIES_MAX), superseded
        )

    def _on_ack(self, frame: SlaveAck, log: LogView, now_ms: int) -> MasterEvent:
        offset = frame.max_offset
        if self.peer_id is None:
            raise ProtocolError("acknowledgement before the handshake")
        first = self.acked is None
        if first:
            self.claimed = offset
            self.next_offset = self._first_offset = self._start_offset(offset, log)
        elif not self.acked <= offset <= self.next_offset:  # type: ignore[operator]
            raise ProtocolError(f"ack {offset} outside of {self.acked} to {self.next_offset}")
        self.acked = offset
        self._unjoined.discard(self.peer_id)
        self._update_waiting(log.end_offset, now_ms)
        return SlaveAcknowledged(offset, first)

    def _start_offset(self, acked: int, log: LogView) -> int:
        """First byte to send (2.3): the slave's end, or where a slave without a log begins."""
        if acked > log.end_offset:
            raise ProtocolError(f"ack {acked} beyond the log end {log.end_offset}")
        if acked == 0:
            # The last file with bytes in it: one that begins at the very end might get its first
            # byte never.
            last_byte = max(log.end_offset - 1, 0)
            start = last_byte - last_byte % self._limits.file_bytes if self._from_last_file else 0
            return max(start, log.min_offset)
        if acked < log.min_offset:
            reason = (
                f"slave ends at {acked}, this log begins at {log.min_offset}: it needs an empty "
                "store folder"
            )
            raise ProtocolError(reason, self._begins_later(acked, log))
        return acked

    @staticmethod
    def _begins_later(acked: int, log: LogView) -> bytes:
        """A heartbeat from beyond the slave's end, which nothing else is: a Regent slave takes the
        hint and begins anew.
        """
        entry = log.epochs.find(log.min_offset) or log.epochs.entries[0]
        return Transfer(log.min_offset, entry.epoch, entry.start_offset, acked).encode()

    # -- to the slave -----------------------------------------------------------------------------

    def data_to_send(self, log: LogView, *, now_ms: int) -> list[RangeToSend]:
        """As `LogSender`; each packet tells the confirm offset, too."""
        packets = super().data_to_send(log, now_ms=now_ms)
        if packets:
            self._confirm_sent = log.confirm_offset
        return packets

    def _next_packet(self, log: LogView, allowed: int) -> RangeToSend:
        start = self.next_offset
        entry = log.epochs.find(start)
        if entry is None:
            raise ProtocolError(f"no epoch covers offset {start}; the oldest is {log.epochs}")
        border = log.epochs.next_start(start) or log.end_offset
        file_left = self._limits.file_bytes - start % self._limits.file_bytes
        count = min(
            self._limits.batch_bytes, allowed, file_left, log.end_offset - start, border - start
        )
        frame = Transfer(start, entry.epoch, entry.start_offset, log.confirm_offset)
        self.next_offset = start + count
        return RangeToSend(frame.header(count), start, count)

    def log_grew(self, end_offset: int, *, now_ms: int) -> None:
        """The master wrote up to `end_offset`: bytes may begin to wait for this slave."""
        self._update_waiting(end_offset, now_ms)

    # -- time -------------------------------------------------------------------------------------

    def heartbeat_due(self, log: LogView, *, now_ms: int) -> bytes | None:
        """A heartbeat when nothing was written for the interval, or the confirm offset is news."""
        if self.acked is None or self.blocked:
            return None
        idle = now_ms - self._last_write_ms >= self._limits.heartbeat_ms
        if not idle and self._confirm_sent >= log.confirm_offset:
            return None
        # The epoch of the byte before: a Java slave that heard of an epoch without a byte would,
        # made master at that very offset, reject its own entry, and two masters' bytes would share
        # the label (2.7).
        entry = log.epochs.find(max(self.next_offset - 1, 0)) or log.epochs.entries[0]
        self._last_write_ms = now_ms
        self._confirm_sent = log.confirm_offset
        frame = Transfer(self.next_offset, entry.epoch, entry.start_offset, log.confirm_offset)
        return frame.encode()

    def silent_too_long(self, *, now_ms: int) -> str | None:
        """Reason to close: no handshake in time, or nothing read for the housekeeping interval."""
        if self.peer_id is None and now_ms - self._opened_ms >= self._limits.handshake_timeout_ms:
            return f"no handshake within {self._limits.handshake_timeout_ms} ms"
        if now_ms - self._last_read_ms >= self._limits.housekeeping_ms:
            return f"nothing read for {now_ms - self._last_read_ms} ms"
        return None

    def silent_ms(self, *, now_ms: int) -> int:
        """How long nothing was read from it."""
        return now_ms - self._last_read_ms

    def waiting_ms(self, *, now_ms: int) -> int:
        """How long the slave has left bytes unacknowledged; 0 when it has none or keeps up."""
        return 0 if self._mark is None else now_ms - self._mark[1]

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the slave's silence."""
        self._last_read_ms += stalled_ms
        self._opened_ms += stalled_ms
        if self._mark is not None:
            self._mark = (self._mark[0], self._mark[1] + stalled_ms)

    def _update_waiting(self, end_offset: int, now_ms: int) -> None:
        acked = -1 if self.acked is None else self.acked
        if self._mark is not None and acked >= self._mark[0]:
            self._mark = None
        if self._mark is None and acked < end_offset:
            self._mark = (end_offset, now_ms)
