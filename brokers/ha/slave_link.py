"""The master as its slave sees it: the slave's side of one HA link, without socket or clock.

Responsible for: the handshake, where to cut the local log, which epoch each received byte belongs
to, when to acknowledge (PROTOCOL 2.2 to 2.6). Refuses to know: files, roles,
reconnecting.

Disk is asked for by events, in order; an acknowledgement stands behind the events whose bytes it
promises. Invariants:
- nothing is acknowledged before the logs are known to agree (truncation point found and cut);
- the entry of an epoch is learned before the first byte of it is appended, and never before the
  log has reached its start;
- `end_offset` is the end of the local log after all events handed out so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.ha.epochs import OFFSET_MAX, EpochError, EpochHistory, begins_later, consistent_offset
from brokers.ha.frames import (
    MasterFrameDecoder,
    MasterHandshake,
    ProtocolError,
    SlaveAck,
    SlaveHandshake,
    Transfer,
)
from brokers.ha.log_sender import LinkLimits
from brokers.ha.pace import FlowMeter, is_ack_due


@dataclass(frozen=True, slots=True)
class EpochsLearned:
    """The local history is now this one; durable before what follows."""

    epochs: EpochHistory


MASTER_BEGINS_LATER = "the master's log begins later"


@dataclass(frozen=True, slots=True)
class CutWanted:
    """Cut the local log to `offset`, then call `truncated`. `epoch`: the newest common one."""

    offset: int
    epoch: int
    reason: str = "diverged from the master"


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """Append raw at `offset`; `data` is valid until the next call."""

    offset: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class ConfirmHeard:
    """The master's confirm offset, capped by the local end."""

    offset: int


@dataclass(frozen=True, slots=True)
class AckDue:
    """Send `data` when everything before this event is written."""

    data: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class HandshakeAgreed:
    """Logs agree below `consistent_offset`; the master's log ended at `master_end`."""

    consistent_offset: int
    master_end: int


@dataclass(frozen=True, slots=True)
class HandshakeFailed:
    """This link is of no use; `consistent_offset` -1 when there is none. `lasting`: another try
    meets the same logs (an operator must look); else the master is merely not there yet.
    """

    reason: str
    lasting: bool
    consistent_offset: int = -1


SlaveEvent = (
    EpochsLearned
    | CutWanted
    | BytesReceived
    | ConfirmHeard
    | AckDue
    | HandshakeAgreed
    | HandshakeFailed
)


class SlaveState(Enum):
    """READY -> HANDSHAKE -> (CUTTING ->) TRANSFER; any -> FAILED."""

    READY = "ready"
    HANDSHAKE = "handshake"
    CUTTING = "cutting"
    TRANSFER = "transfer"
    FAILED = "failed"


class SlaveLink:
    """Drive with open, receive_data, truncated and tick."""

    def __init__(
        self,
        limits: LinkLimits,
        *,
        broker_id: int,
        epochs: EpochHistory,
        end_offset: int,
        now_ms: int,
        wanted_epoch: int | None = None,
        from_last_file: bool = False,
        learner: bool = False,
        trusted_end: int | None = None,
        led_epoch: int | None = None,
        patient: bool = False,
    ) -> None:
        """`wanted_epoch`: the master must be in exactly this epoch (a Regent master); None: any.
        `trusted_end`: own bytes above it may be torn and are copied again; None: all are good.
        `led_epoch`: what a Java master leads, when all own bytes are older; `patient`: it may not
        have begun it.
        """
        self.state = SlaveState.READY
        self.epochs = epochs
        self.end_offset = end_offset
        self.master_end = 0
        self._limits = limits
        self._hello = SlaveHandshake(broker_id, from_last_file, learner)
        self._wanted_epoch = wanted_epoch
        self._trusted_end = OFFSET_MAX if trusted_end is None else trusted_end
        self._led_epoch, self._patient = led_epoch, patient
        self._known = EpochHistory()  # the master's entries, as far as it told
        self._decoder = MasterFrameDecoder()
        self._cut_to = self._acked = self._confirm_told = -1
        self.last_read_ms = self.last_write_ms = now_ms
        self.flow = FlowMeter()

    # -- handshake --------------------------------------------------------------------------------

    def open(self) -> bytes:
        """The handshake, to be sent in one write."""
        assert self.state is SlaveState.READY
        self.state = SlaveState.HANDSHAKE
        return self._hello.encode()

    def receive_data(self, data: bytes | memoryview, *, now_ms: int) -> list[SlaveEvent]:
        """Feed what the master sent. ProtocolError when no correct master sends it."""
        self.last_read_ms = now_ms
        self.flow.add(len(data), now_ms)
        events: list[SlaveEvent] = []
        for frame in self._decoder.feed(data):
            if self.state is SlaveState.FAILED:
                break
            if isinstance(frame, MasterHandshake):
                events += self._on_handshake_reply(frame, now_ms)
            elif self.state is SlaveState.TRANSFER:
                more = self._on_transfer(frame)
                if (
                    events
                    and isinstance(events[-1], ConfirmHeard)
                    and isinstance(more[0], BytesReceived)
                ):
                    events.pop()  # the next one says more
                events += more
            else:
                raise ProtocolError(f"{frame} in state {self.state.value}")
        window, silent_ms = self._limits.unacked_bytes_max, now_ms - self.last_write_ms
        due = is_ack_due(
            self.end_offset,
            self._acked,
            master_end=self.master_end,
            window_bytes=window,
            silent_ms=silent_ms,
        )
        if due and self.state is SlaveState.TRANSFER:
            events.append(self._ack(now_ms))
        return events

    def _on_handshake_reply(self, frame: MasterHandshake, now_ms: int) -> list[SlaveEvent]:
        if self.state is not SlaveState.HANDSHAKE:
            raise ProtocolError(f"handshake reply in state {self.state.value}")
        newest = frame.epochs.newest_epoch
        if self._wanted_epoch is not None and newest != self._wanted_epoch:
            return self._fail(
                f"master is in epoch {newest}, expected {self._wanted_epoch}", lasting=False
            )
        self._known, self.master_end = frame.epochs, frame.end_offset
        agreed = consistent_offset(self.epochs, self.end_offset, frame.epochs, frame.end_offset)
        if (
            agreed is None
            and self._wanted_epoch is not None
            and begins_later(self.epochs, frame.epochs)
        ):
            return self._begin_anew()
        if agreed is None:
            return self._fail(f"no common epoch: {self.epochs} here, {frame.epochs} there")
        collision = self._collision(frame.epochs)
        if collision is not None and self._patient:
            return self._fail(
                f"master has not begun epoch {self._led_epoch}, or began it at {collision}",
                lasting=False,
            )
        agreed = min(agreed, self._trusted_end, self.end_offset if collision is None else collision)
        if agreed < self.end_offset:
            self.state, self._cut_to = SlaveState.CUTTING, agreed
            entry = self.epochs.find(max(agreed - 1, 0))
            return [CutWanted(agreed, entry.epoch if entry else -1)]
        return self._become_transfer(self.end_offset, now_ms)

    def _collision(self, master: EpochHistory) -> int | None:
        """Where a Java master began its epoch under the label of an older one (2.7): own bytes from
        there on were written by the older one's master, and the equal label says nothing.
        """
        newest = master.newest
        if self._led_epoch is None or newest is None or newest.epoch >= self._led_epoch:
            return None
        is_shared = (
            self.epochs.entry(newest.epoch) == newest and newest.start_offset < self.end_offset
        )
        return newest.start_offset if is_shared else None

    def truncated(self, ok: bool, end_offset: int, *, now_ms: int) -> list[SlaveEvent]:
        """Answer to CutWanted: the log now ends at `end_offset`. Not ok: no record starts there."""
        assert self.state is SlaveState.CUTTING
        # A cut down to the first file leaves an empty log, and an empty log ends at 0.
        if not ok or end_offset not in (self._cut_to, 0):
            return self._fail(f"cannot cut to {self._cut_to}: no record starts there", self._cut_to)
        self.end_offset = end_offset
        return self._become_transfer(end_offset, now_ms)

    def _become_transfer(self, agreed: int, now_ms: int) -> list[SlaveEvent]:
        self.state, self.last_read_ms = SlaveState.TRANSFER, now_ms
        events: list[SlaveEvent] = [HandshakeAgreed(agreed, self.master_end)]
        kept = self.epochs.truncate_suffix(agreed)
        # An empty log learns its first entry with its first byte: it may begin late.
        self.epochs = kept.advanced(self._known, agreed) if agreed else kept
        events += [EpochsLearned(self.epochs), self._ack(now_ms)]
        return events

    def _begin_anew(self) -> list[SlaveEvent]:
        self.state, self._cut_to = SlaveState.CUTTING, 0
        return [CutWanted(0, -1, MASTER_BEGINS_LATER)]

    # -- transfer ---------------------------------------------------------------------------------

    def _on_transfer(self, frame: Transfer) -> list[SlaveEvent]:
        self._hear_label(frame)
        if (
            frame.is_heartbeat
            and self._wanted_epoch is not None
            and 0 < self.end_offset < frame.offset
        ):
            # What follows here is deleted there. A member's end never lies below: a master keeps
            # what is not confirmed.
            return self._begin_anew()
        events: list[SlaveEvent] = []
        if not frame.is_heartbeat:
            self._check_offset(frame)
            events += self._append(frame)
        elif self.epochs or frame.offset <= 0:
            events += self._learn(self.epochs.advanced(self._known, self.end_offset))
        self._confirm_told = frame.confirm_offset
        events.append(ConfirmHeard(max(0, min(frame.confirm_offset, self.end_offset))))
        return events

    @property
    def owed_end(self) -> int:
        """Up to where a log holds all that its Regent master confirmed so far: what makes it fit
        for the set (S4).
        """
        told = max(self._confirm_told, self._known.newest_start)
        return self.master_end if self._confirm_told < 0 else min(told, self.master_end)

    def _hear_label(self, frame: Transfer) -> None:
        """Take over an epoch the master began after its reply; refuse labels that contradict it."""
        known = self._known.entry(frame.epoch)
        if known is not None and known.start_offset == frame.epoch_start:
            return
        if known is None and frame.epoch > self._known.newest_epoch:
            try:
                self._known = self._known.append(frame.epoch, frame.epoch_start)
            except EpochError as error:
                raise ProtocolError(f"label of {frame}: {error}") from error
            return
        raise ProtocolError(f"label of {frame} contradicts the epochs {self._known}")

    def _check_offset(self, frame: Transfer) -> None:
        if self.end_offset != 0 and frame.offset != self.end_offset:
            raise ProtocolError(f"bytes at {frame.offset}, the log ends at {self.end_offset}")
        if self.end_offset == 0 and frame.offset % self._limits.file_bytes:
            raise ProtocolError(f"first bytes at {frame.offset}, not at the start of a file")

    def _append(self, frame: Transfer) -> list[SlaveEvent]:
        """Bytes with their labels in front: split where an epoch begins.

        A Java master labels the last packet of an epoch with the next one (2.4); its bytes still
        belong to the entry that covers them, as the handshake reply told.
        """
        events: list[SlaveEvent] = []
        offset, data = frame.offset, memoryview(frame.data)
        while len(data):
            events += self._learn(self.epochs.advanced(self._known, offset))
            border = self._known.next_start(offset)
            piece = data if border is None else data[: border - offset]
            events.append(BytesReceived(offset, piece))
            offset += len(piece)
            data = data[len(piece) :]
        self.end_offset = offset
        # A whole epoch received is reached: its successor begins here, even before its first byte.
        return events + self._learn(self.epochs.advanced(self._known, offset))

    # -- time -------------------------------------------------------------------------------------

    def tick(self, *, now_ms: int) -> list[SlaveEvent]:
        """An acknowledgement that was put off, or a repeated one when nothing was written for the
        heartbeat interval.
        """
        due = (
            self.end_offset > self._acked
            or now_ms - self.last_write_ms >= self._limits.heartbeat_ms
        )
        return [self._ack(now_ms)] if due and self.state is SlaveState.TRANSFER else []

    def silent_too_long(self, *, now_ms: int) -> str | None:
        """Reason to close: no handshake reply in time, or nothing read for the interval. A master
        waits for a cut without a word.
        """
        silent_ms = now_ms - self.last_read_ms
        if self.state is SlaveState.HANDSHAKE and silent_ms >= self._limits.handshake_timeout_ms:
            return f"no handshake reply within {silent_ms} ms"
        if self.state is not SlaveState.CUTTING and silent_ms >= self._limits.housekeeping_ms:
            return f"nothing read for {silent_ms} ms"
        return None

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the master's silence."""
        self.last_read_ms += stalled_ms

    # -- shared -----------------------------------------------------------------------------------

    def _ack(self, now_ms: int) -> AckDue:
        self._acked, self.last_write_ms = self.end_offset, now_ms
        return AckDue(SlaveAck(self.end_offset).encode(), self.end_offset)

    def _learn(self, epochs: EpochHistory) -> list[SlaveEvent]:
        if epochs == self.epochs:
            return []
        self.epochs = epochs
        return [EpochsLearned(epochs)]

    def _fail(self, reason: str, agreed: int = -1, *, lasting: bool = True) -> list[SlaveEvent]:
        self.state = SlaveState.FAILED
        return [HandshakeFailed(reason, lasting, agreed)]
