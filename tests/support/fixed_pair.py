"""A master and a slave of a set without controllers as pure cores, with logs of bytes between them
instead of files and sockets.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from brokers.replica import effects as fx
from brokers.replica.fixed.ack_rule import FixedAckRule
from brokers.replica.fixed.config import FixedConfig
from brokers.replica.fixed.core import FixedCore
from brokers.replica.ha_address import HaAddressSource

WORD = HaAddressSource.NAME_SERVER
FILE_BYTES = 1 << 16
RECORD_BYTES = 10
"""Records of these logs: a cut ends at a multiple of it."""


def config(**changes: object) -> FixedConfig:
    fields: dict[str, object] = {
        "file_bytes": FILE_BYTES,
        "check_bytes": 40,
        "diverged_bytes_max": 640,
        "ack_rule": FixedAckRule(in_sync=2),
    }
    return FixedConfig(**(fields | changes))  # type: ignore[arg-type]


@dataclass
class Side:
    """One core and its log; `out`: what it sends, `acknowledged`, `readable`: what it promised."""

    core: FixedCore
    log: bytearray
    out: bytearray = field(default_factory=bytearray)
    connects: int = 0
    linked: bool = False
    acknowledged: int = 0
    readable: int = 0
    cut: list[bytes] = field(default_factory=list)
    events: list[fx.ReportEvent] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def perform(self, effects: list[fx.Effect], now_ms: int) -> None:
        queue = deque(effects)
        while queue:
            queue.extend(self._one(queue.popleft(), now_ms) or ())

    def _one(self, effect: fx.Effect, now_ms: int) -> list[fx.Effect] | None:
        match effect:
            case fx.SendBytes(_, data):
                self.out += data
            case fx.SendRange(_, head, offset, count):
                self.out += head + self.log[offset : offset + count]
            case fx.AppendRaw(offset, data):
                assert offset == len(self.log)
                self.log += data
            case fx.CompareLog(offset, data):
                here = bytes(self.log[offset : offset + len(data)])
                pairs = zip(here, data, strict=True)
                equal = next((at for at, (a, b) in enumerate(pairs) if a != b), len(data))
                return self.core.compared(offset, equal, len(data), now_ms)
            case fx.CutDiverged(offset, above):
                border = offset - offset % RECORD_BYTES
                if border > above:
                    self.cut.append(bytes(self.log[border:]))
                    del self.log[border:]
                return self.core.truncated(border > above, len(self.log), now_ms)
            case fx.TruncateLog(offset):
                del self.log[offset:]
                return self.core.truncated(True, len(self.log), now_ms)
            case fx.ConnectHa():
                self.connects += 1
            case fx.CloseLink(_, reason):
                self.linked = False
                self.refused.append(reason)
            case fx.Acknowledged(offset):
                assert self.acknowledged < offset <= len(self.log)
                self.acknowledged = offset
            case fx.Readable(offset):
                self.readable = offset
            case fx.ReportEvent():
                self.events.append(effect)
        return None


class Pair:
    """Both ends of one link. Times pass only by `tick`."""

    def __init__(self, master_log: bytes, slave_log: bytes, **changes: object) -> None:
        settings = config(**changes)
        self.now_ms = 0
        self.master = Side(core(settings, 0, master_log), bytearray(master_log))
        self.slave = Side(core(settings, 1, slave_log), bytearray(slave_log))
        self.links = 0
        self.tick(0)
        told = self.slave.core.ha_address_told("m:1", "m:2", WORD, self.now_ms)
        self.slave.perform(told, self.now_ms)

    def tick(self, ms: int) -> None:
        self.now_ms += ms
        for side in (self.master, self.slave):
            side.perform(side.core.tick(self.now_ms), self.now_ms)

    def run(self, rounds: int = 400, ms: int = 100, piece: int = 1 << 20) -> None:
        """Connect, carry bytes in pieces, and let time pass."""
        for _ in range(rounds):
            self._link()
            self._carry(self.slave, self.master, piece)
            self._carry(self.master, self.slave, piece)
            if not (self.master.linked and self.slave.linked):
                self._part()
            self.tick(ms)

    def _link(self) -> None:
        if not self.slave.connects:
            return
        self.slave.connects = 0
        self.links += 1
        now = self.now_ms
        for side, outbound in ((self.master, False), (self.slave, True)):
            side.linked = True
            opened = side.core.link_opened(self.links, outbound=outbound, now_ms=now, peer="s:9")
            side.perform(opened, now)

    def _carry(self, of: Side, to: Side, piece: int) -> None:
        while of.out and to.linked:  # what was sent before an end was closed arrives
            data = bytes(of.out[:piece])
            del of.out[:piece]
            to.perform(to.core.link_data(self.links, data, self.now_ms), self.now_ms)

    def _part(self) -> None:
        """The other end hears of it, too; what was under way is gone."""
        for side in (self.master, self.slave):
            side.out.clear()
            if side.linked:
                side.linked = False
                closed = side.core.link_closed(self.links, "closed by peer", self.now_ms)
                side.perform(closed, self.now_ms)

    def put(self, data: bytes) -> None:
        """The master writes a message."""
        self.master.log += data
        grew = self.master.core.log_grew(len(self.master.log), self.now_ms)
        self.master.perform(grew, self.now_ms)


def core(settings: FixedConfig, broker_id: int, log: bytes) -> FixedCore:
    return FixedCore(settings, broker_id=broker_id, incarnation="i", clean=True, log_end=len(log))


from brokers.replica.ha_address import HaAddressSource

WORD = HaAddressSource.NAME_SERVER
