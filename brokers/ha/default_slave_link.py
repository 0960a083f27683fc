"""One link to a master on the default HA stream, as the slave sees it (PROTOCOL 2.12).

The stream has no handshake, so a slave of RocketMQ's goes on wherever its log ends, be that in the
middle of other bytes than the master's. Ours reports an end a little before its own first: the
master then sends bytes that are here already, and they are compared before one is added.

Responsible for: what is reported when, that pushed bytes follow one another, what the comparison
says. Refuses to know: files, what is done about a log that differs, who the master is.

Invariants:
- nothing is reported that was not compared or appended;
- no byte is handed out before all below it was compared or appended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.ha.default_frames import PushDecoder, report
from brokers.ha.frames import ProtocolError
from brokers.ha.log_sender import LinkLimits
from brokers.ha.pace import FlowMeter

ENDS_AFTER_HEARTBEATS = 2
"""A master sends a heartbeat when it has nothing to send; a first one may have been due before it
looked.
"""


@dataclass(frozen=True, slots=True)
class Compare:
    """Bytes that this log should have at `offset`; answered by `compared`."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes to append at `offset`, the log's end."""

    offset: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Agreed:
    """The master has the bytes that this log ends with: what it sends from now on belongs here."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The master's log has other bytes than this one at `offset`, or ends there."""

    offset: int
    master_ends: bool


@dataclass(frozen=True, slots=True)
class Begins:
    """The master's log begins at `offset`, behind what was asked for."""

    offset: int


@dataclass(frozen=True, slots=True)
class ReportDue:
    """To be sent behind the bytes it speaks of."""

    data: bytes


DefaultSlaveEvent = Compare | Received | Agreed | Differs | Begins | ReportDue


Proof = Callable[[bytes, int], bool]
"""Whether bytes that are equal at an offset of two logs show that these have one history."""
PROOF_BYTES_MAX = 128
"""A proof that lies across two pushes is seen when it is no longer."""


def not_zeros(data: bytes, offset: int) -> bool:
    """Zeros alone, as in front of a log file's end, are in every master's log."""
    return data.count(0) < len(data)


class DefaultSlaveLink:
    """Drive with `open`, `receive_data`, `compared` and `tick`. Where all that is compared is
    equal, and is no `proof`, the logs count as different from `check_from` on.
    """

    def __init__(
        self,
        limits: LinkLimits,
        *,
        check_from: int,
        end_offset: int,
        now_ms: int,
        proof: Proof = not_zeros,
    ) -> None:
        """`check_from` to `end_offset`: bytes to compare; none when both are equal. An empty log
        ends at 0, any other is checked from 1 or above: 0 asks for the master's last file.
        """
        self.check_from, self.end_offset = check_from, end_offset
        self.agreed = False
        self.flow = FlowMeter()
        self._limits = limits
        self._checked = self._awaited = check_from
        self._held: list[tuple[int, bytes]] = []
        self._proof = proof
        self._is_proved, self._tail = False, b""
        self._heartbeats = 0
        self._reported = -1
        self._decoder = PushDecoder()
        self.last_read_ms = self.last_write_ms = now_ms

    def open(self) -> list[DefaultSlaveEvent]:
        """The first report, which asks for what follows it."""
        if self.check_from == self.end_offset:
            self.agreed = True
            return [Agreed(), self._report(self.end_offset)]
        return [self._report(self.check_from)]

    def receive_data(self, data: bytes | memoryview, *, now_ms: int) -> list[DefaultSlaveEvent]:
        """Feed what the master sent. ProtocolError: it does not go on where this log does."""
        self.last_read_ms = now_ms
        self.flow.add(len(data), now_ms)
        events: list[DefaultSlaveEvent] = []
        for pushed in self._decoder.feed(data):
            begins = self.end_offset == 0 and self._awaited == 0
            if not self.agreed and pushed.is_heartbeat and pushed.offset < self._awaited:
                return [*events, Differs(pushed.offset, master_ends=True)]  # it says so at once
            if not self.agreed and pushed.is_heartbeat and pushed.offset > self._awaited:
                return [*events, Begins(pushed.offset)]
            if pushed.offset != self._awaited and not begins:
                raise ProtocolError(
                    f"the master pushes from {pushed.offset}, this log goes on at {self._awaited}"
                )
            if pushed.is_heartbeat:
                events += self._heartbeat(pushed.offset)
            else:
                self._heartbeats = 0
                events += self._bytes(pushed.offset, pushed.data)
        if self.agreed and self._reported < self.end_offset:
            events.append(self._report(self.end_offset))
        return events

    def _heartbeat(self, offset: int) -> list[DefaultSlaveEvent]:
        self._heartbeats += 1
        if self.agreed or self._heartbeats < ENDS_AFTER_HEARTBEATS:
            return []
        return [Differs(offset, master_ends=True)]

    def _bytes(self, offset: int, data: bytes | memoryview) -> list[DefaultSlaveEvent]:
        self._awaited = offset + len(data)
        if self.agreed:
            if self.end_offset == 0 and offset % self._limits.file_bytes:
                raise ProtocolError(
                    f"the master's log file begins at {offset}, no border of files of "
                    f"{self._limits.file_bytes} bytes: the sizes differ"
                )
            self.end_offset = self._awaited
            return [Received(offset, data)]
        known = max(0, min(len(data), self.end_offset - offset))
        if known < len(data):  # valid as long as this step lasts, and kept longer
            self._held.append((offset + known, bytes(data[known:])))
        if not known:
            return []
        compared = bytes(data[:known])
        if not self._is_proved:
            seen = self._tail + compared
            self._is_proved = self._proof(seen, offset - len(self._tail))
            self._tail = seen[-PROOF_BYTES_MAX:]
        return [Compare(offset, compared)]

    def compared(self, offset: int, equal_bytes: int, all_bytes: int) -> list[DefaultSlaveEvent]:
        """Answer to Compare: of `all_bytes` at `offset` so many are the same, from the front."""
        if self.agreed or offset != self._checked:
            return []
        self._checked = offset + equal_bytes
        if equal_bytes < all_bytes:
            return [Differs(self._checked, master_ends=False)]
        if self._checked < self.end_offset:
            return []
        if not self._is_proved:
            return [Differs(self.check_from, master_ends=False)]
        self.agreed = True
        events: list[DefaultSlaveEvent] = [Agreed()]
        held, self._held = self._held, []
        for at, data in held:
            self.end_offset = at + len(data)
            events.append(Received(at, data))
        return [*events, self._report(self.end_offset)]

    def tick(self, *, now_ms: int) -> list[DefaultSlaveEvent]:
        """A report at least every heartbeat interval keeps the link alive at the master."""
        if now_ms - self.last_write_ms < self._limits.heartbeat_ms:
            return []
        return [self._report(self.end_offset if self.agreed else self._checked)]

    def wrote(self, now_ms: int) -> None:
        """A report went out."""
        self.last_write_ms = now_ms

    def silent_too_long(self, *, now_ms: int) -> str | None:
        """Reason to close: nothing read for the housekeeping interval."""
        silent_ms = now_ms - self.last_read_ms
        limit_ms = self._limits.housekeeping_ms
        return f"nothing read for {silent_ms} ms" if silent_ms >= limit_ms else None

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the master's silence."""
        self.last_read_ms += stalled_ms

    def _report(self, end_offset: int) -> ReportDue:
        self._reported = end_offset
        return ReportDue(report(end_offset))
