"""A slave of a set without controllers: one link to the master, kept up, and a log that must not
mix two histories.

The stream says nothing about who wrote which byte (PROTOCOL 2.12). So before this log grows, the
last bytes of it are compared with the master's. Where the master's differ, or end, this log is cut
back to what both have, a bounded number of bytes, of which a copy is kept; what goes beyond that is
for a person to decide.

Responsible for: connecting, comparing, cutting, appending and reporting in a safe order.
Refuses to know: files, sockets, how the master's address becomes known.
"""

from __future__ import annotations

from brokers.ha.default_slave_link import (
    Agreed,
    Begins,
    Compare,
    DefaultSlaveEvent,
    DefaultSlaveLink,
    Differs,
    Received,
    ReportDue,
    not_zeros,
)
from brokers.ha.frames import ProtocolError
from brokers.replica.effects import (
    AskHaAddress,
    CloseLink,
    CompareLog,
    ConnectHa,
    CutDiverged,
    Effect,
    FlushLog,
    Readable,
    ReportEvent,
    SendBytes,
)
from brokers.replica.fixed.config import CHECK_GROWS, FixedConfig
from brokers.replica.ha_status import MasterSeen
from brokers.replica.replica_log import ReplicaLog

MASTER_ID = 0


class FixedSlave:
    """Invariants: at most one link and one connection attempt, never both; no report stands before
    the bytes it speaks of.
    """

    def __init__(self, config: FixedConfig, log: ReplicaLog, now_ms: int) -> None:
        self.link_id: int | None = None
        self.caught_up = False
        self.master_address: str | None = None
        self.ha_address = config.ha_master_address
        self._config, self._log, self._limits = config, log, config.link_limits()
        self._link: DefaultSlaveLink | None = None
        self._connecting = False
        # The link is up as far as this log goes, which has nothing to compare: whether a master is
        # at the other end shows with what it sends.
        self._unheard = False
        self._stuck = ""
        self._check_bytes = config.check_bytes
        self._masters_begin = 0  # of its log, where that was told since the last link that was up
        self._backoff_ms = config.reconnect_min_ms
        self._retry_at_ms = self._ask_at_ms = now_ms
        self._cutting: CutDiverged | None = None
        self._parted = False  # the master is gone: nobody is linked to before somebody says so

    # -- connecting --------------------------------------------------------------------------------

    def told(self, master_address: str, ha_address: str, now_ms: int) -> list[Effect]:
        """Where the master is, by whoever said so last. A configured HA address stays."""
        if self._parted:
            return []
        self.master_address = master_address or self.master_address
        if self._config.ha_master_address is not None or ha_address == self.ha_address:
            return self.connect(now_ms)
        if self.follows:
            return []  # a link that is up says more
        self.ha_address, self._connecting = ha_address, False
        effects = self.close("the master moved", now_ms)
        self._retry_at_ms = now_ms
        return effects + self.connect(now_ms)

    def follow(self, master_address: str, ha_address: str | None, now_ms: int) -> list[Effect]:
        """This master, whoever was followed before, and at once."""
        self._parted = False
        self._retry_at_ms = now_ms
        return self.told(master_address, ha_address or self.ha_address or "", now_ms)

    def part(self, reason: str, now_ms: int) -> list[Effect]:
        """The master is gone: no link, and none is tried before `follow`."""
        self._parted, self._connecting = True, False
        self.master_address, self.ha_address = None, self._config.ha_master_address
        return self.close(reason, now_ms)

    @property
    def follows(self) -> bool:
        """Whether the link is up: a master spoke, and its bytes belong here."""
        return self._link is not None and self._link.agreed and not self._unheard

    def connect(self, now_ms: int) -> list[Effect]:
        if (
            self._parted
            or self.link_id is not None
            or self._connecting
            or self._cutting is not None
        ):
            return []
        effects: list[Effect] = []
        if self._config.ha_master_address is None and now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + self._config.ask_ha_address_ms
            effects.append(AskHaAddress(self.master_address or ""))
        if self.ha_address is None or now_ms < self._retry_at_ms:
            return effects
        self._connecting = True
        return [*effects, ConnectHa(self.ha_address)]

    def connect_failed(self, now_ms: int) -> None:
        self._connecting = False
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._config.reconnect_max_ms)

    def link_opened(self, link_id: int, now_ms: int) -> list[Effect]:
        if not self._connecting:
            return [CloseLink(link_id, "nobody asked for this connection")]
        self._connecting, self.link_id = False, link_id
        check_from = self._check_from()
        self._link = DefaultSlaveLink(
            self._limits,
            check_from=check_from,
            end_offset=self._log.end_offset,
            now_ms=now_ms,
            # There is nothing in front of it that both have.
            proof=not_zeros if check_from <= self._check_limit() else self._config.proof,
        )
        self._unheard = self._link.check_from == self._link.end_offset
        return self._perform(self._link.open(), now_ms)

    def _check_from(self) -> int:
        log = self._log
        if log.end_offset == log.min_offset:
            return log.end_offset
        return max(log.end_offset - self._check_bytes, self._check_limit())

    def _check_limit(self) -> int:
        """Both have what is compared. A report of 0 would ask for the master's last file."""
        return max(self._log.min_offset, self._masters_begin, 1)

    # -- the link ----------------------------------------------------------------------------------

    def link_data(self, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        assert self._link is not None
        try:
            effects = self._perform(self._link.receive_data(data, now_ms=now_ms), now_ms)
        except ProtocolError as error:
            return [*self.close(str(error), now_ms), self._not_followed(str(error))]
        return [*self._agreed(), *effects] if self._unheard else effects

    def _not_followed(self, reason: str) -> ReportEvent:
        what = f"{reason}; HA links go to {self.ha_address}: is that where the master takes them"
        return self._handshake(self._log.end_offset, what)

    def compared(self, offset: int, equal: int, count: int, now_ms: int) -> list[Effect]:
        """Answer to CompareLog; of a link that is gone it says nothing."""
        if self._link is None:
            return []
        return self._perform(self._link.compared(offset, equal, count), now_ms)

    def _perform(self, events: list[DefaultSlaveEvent], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            match event:
                case Compare(offset, data):
                    effects.append(CompareLog(offset, data))
                case Received(offset, data):
                    effects += self._log.append_raw(offset, data)
                    self._log.confirm_offset = self._log.end_offset
                    effects.append(Readable(self._log.end_offset))
                case ReportDue(data):
                    assert self._link is not None and self.link_id is not None
                    self._link.wrote(now_ms)
                    effects.append(SendBytes(self.link_id, data))
                case Agreed():
                    effects += [] if self._unheard else self._agreed()
                case Differs(offset, master_ends):
                    return effects + self._differs(offset, master_ends, now_ms)
                case Begins(offset):
                    return effects + self._begins(offset, now_ms)
        return effects

    def _agreed(self) -> list[Effect]:
        self.caught_up = True
        self._unheard = False
        self._stuck = ""
        self._check_bytes, self._masters_begin = self._config.check_bytes, 0
        self._backoff_ms = self._config.reconnect_min_ms
        up = {"peer_broker_id": MASTER_ID, "direction": "outbound"}
        return [self._handshake(self._log.end_offset, ""), ReportEvent("HaLinkUp", up)]

    def _handshake(self, offset: int, reason: str) -> ReportEvent:
        fields = {
            "peer_broker_id": MASTER_ID,
            "consistent_offset": offset,
            "ok": not reason,
            "reason": reason,
        }
        return ReportEvent("HandshakeResult", fields)

    def _differs(self, offset: int, master_ends: bool, now_ms: int) -> list[Effect]:
        """Cut, look further back, or leave it to a person."""
        assert self._link is not None
        log, checked_from = self._log, self._link.check_from
        what = f"the master's log {'ends' if master_ends else 'differs'} at {offset}"
        effects = self.close(what, now_ms)
        too_much = log.end_offset - offset > self._config.diverged_bytes_max
        if too_much:
            return [*effects, *self._give_up(offset, what, now_ms)]
        if offset > checked_from:
            self._cutting = CutDiverged(offset, checked_from, what)
            return [*effects, self._cutting]
        return [*effects, *self._look_further(offset, what, now_ms)]

    def _begins(self, offset: int, now_ms: int) -> list[Effect]:
        """Compare from there on, where this log reaches so far."""
        what = f"the master's log begins at {offset}"
        effects = self.close(what, now_ms)
        if offset >= self._log.end_offset:
            return [*effects, *self._give_up(offset, what, now_ms)]
        self._masters_begin = offset
        self._retry_at_ms = now_ms
        return [*effects, *self.connect(now_ms)]

    def _look_further(self, offset: int, what: str, now_ms: int) -> list[Effect]:
        """Nothing of what was compared is on both."""
        most = self._config.diverged_bytes_max + self._config.check_bytes
        at_begin = self._check_from() <= self._check_limit()
        if at_begin or self._check_bytes >= most:
            return self._give_up(offset, what, now_ms)
        behind = self._log.end_offset - offset + self._config.check_bytes
        self._check_bytes = min(max(self._check_bytes * CHECK_GROWS, behind), most)
        self._retry_at_ms = now_ms
        return self.connect(now_ms)

    def stuck(self, offset: int, what: str, now_ms: int) -> list[Effect]:
        """What cannot be read here cannot be served from here, and the next start cuts it: it is
        no copy.
        """
        self._retry_at_ms = now_ms + self._config.refused_pause_ms
        if self.link_id is None and not self._connecting and self._stuck == what:
            return []
        self._connecting, self._stuck = False, what
        reason = (
            f"the log cannot be read from {offset} on ({what}): it follows no more; if "
            "commit_log_file_bytes is not the master's, correct it; start this replica with an "
            "empty store folder"
        )
        effects = self.close(reason, now_ms)
        self._retry_at_ms = now_ms + self._config.refused_pause_ms
        return [*effects, self._handshake(offset, reason)]

    def _give_up(self, offset: int, what: str, now_ms: int) -> list[Effect]:
        """Nothing is cut; it is tried again after a while."""
        self._check_bytes, self._masters_begin = self._config.check_bytes, 0
        self._retry_at_ms = now_ms + self._config.refused_pause_ms
        most = min(self._config.diverged_bytes_max, self._log.end_offset)
        reason = (
            f"{what}, this one ends at {self._log.end_offset} and has nothing in common with it in "
            f"its last {most} bytes: it follows no more; if the master is right, start this "
            "replica with an empty store folder"
        )
        return [self._handshake(offset, reason)]

    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """Answer to CutDiverged."""
        cutting, self._cutting = self._cutting, None
        effects = self._log.was_cut(end_offset, "" if cutting is None else cutting.reason)
        if ok or cutting is None:
            self._retry_at_ms = now_ms
            return effects + self.connect(now_ms)
        return effects + self._look_further(cutting.offset, cutting.reason, now_ms)

    def link_closed(self, reason: str, now_ms: int) -> list[Effect]:
        """The link is gone; the next try is made after the backoff."""
        was_up = self.follows
        self.link_id = self._link = None
        self._back_off(now_ms)
        if not was_up:
            return []
        down = {"peer_broker_id": MASTER_ID, "direction": "outbound", "reason": reason}
        return [FlushLog(), ReportEvent("HaLinkDown", down)]

    def close(self, reason: str, now_ms: int) -> list[Effect]:
        if self.link_id is None:
            return []
        return [CloseLink(self.link_id, reason), *self.link_closed(reason, now_ms)]

    def disk_full(self, reason: str, now_ms: int) -> list[Effect]:
        """The disk takes no more for now: the link goes, so that nobody waits for this replica."""
        effects = self.close(reason, now_ms)
        self._retry_at_ms = now_ms + self._config.refused_pause_ms
        return effects

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._link is not None:
            silence = self._link.silent_too_long(now_ms=now_ms)
            if silence:
                was_up = self.follows
                effects += self.close(silence, now_ms)
                effects += [] if was_up else [self._not_followed(silence)]
            else:
                effects += self._perform(self._link.tick(now_ms=now_ms), now_ms)
        return effects + self.connect(now_ms)

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the master's silence."""
        if self._link is not None:
            self._link.forgive(stalled_ms)

    def master_seen(self, now_ms: int) -> MasterSeen:
        """For operators."""
        link = self._link
        if link is None:
            return MasterSeen(self.ha_address)
        return MasterSeen(
            self.ha_address,
            now_ms - link.last_read_ms,
            now_ms - link.last_write_ms,
            link.flow.per_second(now_ms),
        )
