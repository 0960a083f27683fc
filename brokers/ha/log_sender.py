"""What goes over one HA link from the log of a master, whatever the stream looks like.

Responsible for: how many bytes may go now: none before the slave has said where it is, none beyond
the unreported bytes and the flow that are allowed. Refuses to know: what a packet begins with and
where one has to end, which a stream's link says.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.ha.epochs import EpochHistory
from brokers.ha.pace import FlowLimit, FlowMeter

BATCH_BYTES = 1024 * 1024
UNACKED_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Times in ms, sizes in bytes. `file_bytes`: commit-log file size, equal on all replicas.
    `flow_bytes_per_s`: log bytes one link may carry, None without a limit.
    """

    file_bytes: int
    heartbeat_ms: int = 1000
    housekeeping_ms: int = 20_000
    handshake_timeout_ms: int = 5000
    batch_bytes: int = BATCH_BYTES
    unacked_bytes_max: int = UNACKED_BYTES_MAX
    flow_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class LogView:
    """What a link may know of the master's log, at one moment. Physical offsets."""

    epochs: EpochHistory
    min_offset: int
    end_offset: int
    confirm_offset: int


@dataclass(frozen=True, slots=True)
class RangeToSend:
    """`header`, then `count` log bytes from `offset`: one packet."""

    header: bytes
    offset: int
    count: int


class LogSender:
    """Base of a stream's link at the master. `acked`: None until the slave said where it is."""

    def __init__(self, limits: LinkLimits, *, now_ms: int) -> None:
        self.acked: int | None = None
        self.next_offset = -1
        self.flow = FlowMeter()
        self.blocked = False  # the shell's queue for this link is full
        self.held_back = False  # the flow limit let no more through: to be asked again in a moment
        self._limits = limits
        self._flow_limit = (
            None if limits.flow_bytes_per_s is None else FlowLimit(limits.flow_bytes_per_s, now_ms)
        )
        self._first_offset = -1
        self._last_write_ms = now_ms

    def data_to_send(self, log: LogView, *, now_ms: int) -> list[RangeToSend]:
        """Packets that may go now, bounded by the unreported bytes allowed."""
        packets: list[RangeToSend] = []
        if self.acked is None or self.blocked:
            return packets
        # An empty slave reports 0 until bytes arrive, wherever this log begins.
        unacked_from = max(self.acked, self._first_offset)
        self.held_back = False
        while self.next_offset < log.end_offset:
            allowed = self._limits.unacked_bytes_max - (self.next_offset - unacked_from)
            if self._flow_limit is not None and allowed > (room := self._flow_limit.room(now_ms)):
                allowed, self.held_back = room, room <= 0
            if allowed <= 0:
                break
            packets.append(self._next_packet(log, allowed))
            if self._flow_limit is not None:
                self._flow_limit.take(packets[-1].count)
        if packets:
            self._last_write_ms = now_ms
            self.flow.add(sum(len(one.header) + one.count for one in packets), now_ms)
        return packets

    def _next_packet(self, log: LogView, allowed: int) -> RangeToSend:
        """At most so many bytes from `next_offset`, which moves behind them. ProtocolError: the log
        has none there.
        """
        raise NotImplementedError
