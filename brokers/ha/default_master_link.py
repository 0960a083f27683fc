"""One slave as its master sees it on the default HA stream, without a socket (PROTOCOL 2.12).

Responsible for: where sending starts, cutting packets, what the slave has reported, when it is too
silent. Refuses to know: other slaves, roles, files, who the slave is: the stream does not say. Log
bytes are named, not carried: the shell moves them with sendfile.

Invariants:
- nothing is sent before the first report;
- a report after the first one lies between the last one and what was sent;
- a packet lies within one file.
"""

from __future__ import annotations

from brokers.ha.default_frames import ReportDecoder, header, heartbeat
from brokers.ha.frames import ProtocolError
from brokers.ha.log_sender import LinkLimits, LogSender, LogView, RangeToSend
from brokers.remoting.addresses import host_of


class DefaultMasterLink(LogSender):
    """Drive with `receive_data`; collect with `data_to_send` and `heartbeat_due`."""

    def __init__(self, limits: LinkLimits, *, now_ms: int, peer: str = "") -> None:
        super().__init__(limits, now_ms=now_ms)
        self.peer = peer  # the address at the other end, where the shell knows it
        self.host = host_of(peer)
        self.beyond: int | None = None  # an end reported that lies beyond this log's
        self._decoder = ReportDecoder()
        self.opened_ms = self._last_read_ms = now_ms

    @property
    def heard_ms(self) -> int:
        """When the slave said something last."""
        return self._last_read_ms

    def receive_data(self, data: bytes | memoryview, log: LogView, *, now_ms: int) -> None:
        """Feed what the slave sent. ProtocolError when no correct slave sends it."""
        self._last_read_ms = now_ms
        for offset in self._decoder.feed(data):
            if self.acked is None:
                self.next_offset = self._first_offset = self._start_offset(offset, log)
                self._last_write_ms = now_ms
            elif not self.acked <= offset <= self.next_offset:
                raise ProtocolError(
                    f"report {offset} outside of {self.acked} to {self.next_offset}"
                )
            self.acked = offset

    def _start_offset(self, reported: int, log: LogView) -> int:
        """First byte to send: what the slave reports, or for an empty one where the last file
        begins that has bytes (RocketMQ takes one that begins at the very end, too).
        """
        if reported > log.end_offset:
            self.beyond = reported
            raise ProtocolError(
                f"the slave's log ends at {reported}, beyond this one's end {log.end_offset}: it "
                "holds bytes that this master does not have",
                # A heartbeat from before the slave's end: RocketMQ's close upon it, ours look
                # further back.
                heartbeat(log.end_offset),
            )
        if reported == 0:
            last_byte = max(log.end_offset - 1, 0)
            return max(last_byte - last_byte % self._limits.file_bytes, log.min_offset)
        if reported < log.min_offset:
            raise ProtocolError(
                f"the slave's log ends at {reported}, this one begins at {log.min_offset}: the "
                "slave needs an empty store folder",
                # RocketMQ's close upon it, ours know then where to look, or what to say.
                heartbeat(log.min_offset),
            )
        return reported

    def _next_packet(self, log: LogView, allowed: int) -> RangeToSend:
        start = self.next_offset
        if start < log.min_offset:
            raise ProtocolError(
                f"the log begins at {log.min_offset} by now, the slave is at {start}"
            )
        file_left = self._limits.file_bytes - start % self._limits.file_bytes
        count = min(self._limits.batch_bytes, allowed, file_left, log.end_offset - start)
        self.next_offset = start + count
        return RangeToSend(header(start, count), start, count)

    def heartbeat_due(self, *, now_ms: int) -> bytes | None:
        """A heartbeat when nothing was written for the interval."""
        if self.acked is None or self.blocked:
            return None
        if now_ms - self._last_write_ms < self._limits.heartbeat_ms:
            return None
        self._last_write_ms = now_ms
        return heartbeat(self.next_offset)

    def silent_too_long(self, *, now_ms: int) -> str | None:
        """Reason to close: nothing read for the housekeeping interval. A Java slave may take its
        heartbeat interval, 5 s, for its first report.
        """
        silent_ms = now_ms - self._last_read_ms
        limit_ms = self._limits.housekeeping_ms
        return f"nothing read for {silent_ms} ms" if silent_ms >= limit_ms else None

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the slave's silence."""
        self._last_read_ms += stalled_ms
        self.opened_ms += stalled_ms
