"""Following one master in one epoch: the outbound link, and keeping it up.

Responsible for: connecting at once and again after a short backoff, turning what the link says into
effects in a safe order, noticing that this replica has caught up. Refuses to know: how a replica
becomes or stops being a slave, and every other master: the object dies with the epoch it follows
(design S8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokers.ha.frames import ProtocolError
from brokers.ha.slave_link import (
    MASTER_BEGINS_LATER,
    AckDue,
    BytesReceived,
    ConfirmHeard,
    CutWanted,
    EpochsLearned,
    HandshakeAgreed,
    HandshakeFailed,
    SlaveEvent,
    SlaveLink,
    SlaveState,
)
from brokers.replica.config import ReplicaConfig
from brokers.replica.effects import (
    AskController,
    AskHaAddress,
    CloseLink,
    ConnectHa,
    Effect,
    FlushLog,
    ReportEvent,
    SendBytes,
    TruncateLog,
)
from brokers.replica.ha_address import HaAddress, HaAddressSource
from brokers.replica.replica_log import ReplicaLog


class SlaveRole:
    """Invariants: at most one link and one connection attempt at a time, never both."""

    def __init__(
        self,
        config: ReplicaConfig,
        log: ReplicaLog,
        *,
        broker_id: int,
        master_id: int,
        epoch: int,
        strict_epoch: bool,
        ha_address: HaAddress,
        now_ms: int,
        in_set: Callable[[], bool] = lambda: False,
        master_address: str = "",
        log_is_older: bool = False,
    ) -> None:
        """`strict_epoch`: the master's newest entry must be `epoch` (true of Regent masters, S13).
        `log_is_older`: no link of the epoch was agreed on yet, so this replica holds no byte of it.
        `in_set`: whether it is a member.
        """
        self.master_id = master_id
        self.master_address = master_address
        self.ha_address = ha_address
        self.link_id: int | None = None
        self.caught_up, self._caught_up_end = False, 0
        self._cut_reason = ""
        self._in_set = in_set
        self._config = config
        self._log = log
        self._limits = config.link_limits()
        self._patience = config.patience(is_java_master=not strict_epoch)
        self._broker_id = broker_id
        self._wanted_epoch = epoch if strict_epoch else None
        # until a link was agreed on
        self._led_epoch = epoch if log_is_older and not strict_epoch else None
        self._patient_until_ms = now_ms + config.java_master_patience_ms
        self._link: SlaveLink | None = None
        self._connecting = False
        self._backoff_ms = config.reconnect_backoff_min_ms
        self._full_backoff_ms = config.disk_full_backoff_min_ms
        self._full_end: int | None = None  # where the log ended when the disk took no more
        self._retry_at_ms = now_ms
        self._ask_at_ms = now_ms + config.ask_controller_ms
        self._ask_ha_at_ms = now_ms

    @property
    def link(self) -> SlaveLink | None:
        """The link that is open, whatever its state."""
        return self._link

    # -- connecting -------------------------------------------------------------------------------

    def connect(self, now_ms: int) -> list[Effect]:
        """Connect if it is time and there is somewhere to connect to."""
        idle = self.link_id is None and not self._connecting
        if not idle:
            return []
        address = self.ha_address.at(now_ms)
        effects = self._ask_for_address(now_ms)
        if address is None or now_ms < self._retry_at_ms:
            return effects
        self._connecting = True
        return [*effects, ConnectHa(address)]

    def _ask_for_address(self, now_ms: int) -> list[Effect]:
        """Without a link the known address may be wrong by now as well."""
        if self.ha_address.is_certain or now_ms < self._ask_ha_at_ms:
            return []
        self._ask_ha_at_ms = now_ms + self._config.ask_ha_address_ms
        return [AskHaAddress(self.master_address)]

    def move_to(self, ha_address: str, now_ms: int) -> list[Effect]:
        """The controller says where the master is reached."""
        return self._take_address(ha_address, HaAddressSource.CONTROLLER, now_ms)

    def hear_address(self, ha_address: str, word: HaAddressSource, now_ms: int) -> list[Effect]:
        """Somebody else says where the master is reached. A link that is up says more than that."""
        if self.link_id is not None:
            return []
        return self._take_address(ha_address, word, now_ms)

    def _take_address(self, ha_address: str, word: HaAddressSource, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.ha_address.tell(ha_address, word):
            self._connecting = False
            effects = self.close("the master moved", now_ms)
        elif word is not HaAddressSource.CONTROLLER:
            return []
        self._retry_at_ms = now_ms  # news of the master: no reason to wait any longer
        return effects + self.connect(now_ms)

    def master_heard(self, master_address: str, guess: str | None, now_ms: int) -> list[Effect]:
        """The controller names the master again, but not where it takes links."""
        if master_address != self.master_address:
            self.master_address, self._connecting = master_address, False
            self.ha_address.guess_again(guess, now_ms + self._config.ha_address_guess_after_ms)
            self._ask_ha_at_ms = now_ms
        self._retry_at_ms = now_ms
        return self.connect(now_ms)

    def connect_failed(self, now_ms: int) -> None:
        self._connecting = False
        self._patience.unreachable()
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._config.reconnect_backoff_max_ms)

    def link_opened(self, link_id: int, now_ms: int) -> list[Effect]:
        if not self._connecting:
            return [CloseLink(link_id, "nobody asked for this connection")]
        self._connecting = False
        self.link_id = link_id
        self._link = SlaveLink(
            replace(self._limits, housekeeping_ms=self._patience.limit_ms),
            broker_id=self._broker_id,
            epochs=self._log.epochs,
            end_offset=self._log.end_offset,
            now_ms=now_ms,
            wanted_epoch=self._wanted_epoch,
            from_last_file=self._config.sync_from_last_file,
            learner=self._config.async_learner,
            trusted_end=self._log.trusted_end,
            led_epoch=self._led_epoch,
            patient=now_ms < self._patient_until_ms,
        )
        return [SendBytes(link_id, self._link.open())]

    # -- the link ---------------------------------------------------------------------------------

    def link_data(self, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        assert self._link is not None
        try:
            events = self._link.receive_data(data, now_ms=now_ms)
        except ProtocolError as error:
            return self.close(str(error), now_ms)
        return self._perform(events, now_ms)

    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """Answer to TruncateLog, also when the link is gone by now: the bytes are cut all the
        same.
        """
        effects = self._log.was_cut(end_offset, self._cut_reason)
        if self._link is not None and self._link.state is SlaveState.CUTTING:
            effects += self._perform(self._link.truncated(ok, end_offset, now_ms=now_ms), now_ms)
        return effects

    def link_closed(self, reason: str, now_ms: int) -> list[Effect]:
        """The link is gone. The next try is made by the next tick after the backoff."""
        was_up = self._link is not None and self._link.state is SlaveState.TRANSFER
        self.link_id = self._link = None
        self._back_off(now_ms)
        if not was_up:
            self._patience.unreachable()
            return []
        self._ask_at_ms = now_ms + self._config.ask_controller_ms
        down = {"peer_broker_id": self.master_id, "direction": "outbound", "reason": reason}
        return [FlushLog(), ReportEvent("HaLinkDown", down)]

    def close(self, reason: str, now_ms: int) -> list[Effect]:
        if self.link_id is None:
            return []
        return [CloseLink(self.link_id, reason), *self.link_closed(reason, now_ms)]

    def disk_full(self, reason: str, now_ms: int) -> list[Effect]:
        """The disk takes no more bytes for now: the link goes, so that nobody waits for them, and
        comes back when they may fit. The longer that lasts, the more seldom it is tried.
        """
        # Caught up with bytes that were then refused is not caught up.
        self.caught_up = self.caught_up and self._log.end_offset >= self._caught_up_end
        effects = self.close(reason, now_ms)
        self._retry_at_ms = now_ms + self._full_backoff_ms
        self._full_backoff_ms = min(
            2 * self._full_backoff_ms, self._config.disk_full_backoff_max_ms
        )
        self._full_end = self._log.end_offset
        return effects

    def _perform(self, events: list[SlaveEvent], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            effects += self._on_event(event, now_ms)
        self._watch_progress()
        return effects

    def _on_event(self, event: SlaveEvent, now_ms: int) -> list[Effect]:
        match event:
            case BytesReceived(offset, data):
                return self._log.append_raw(offset, data)
            case AckDue(data):
                assert self.link_id is not None
                return [SendBytes(self.link_id, data)]
            case ConfirmHeard(offset):  # the master serves this link: the next loss is a first one
                self._backoff_ms = self._config.reconnect_backoff_min_ms
                return self._log.move_confirm(offset)
            case EpochsLearned(epochs):
                return self._log.learn_epochs(epochs)
            case CutWanted(_, _, reason) if reason == MASTER_BEGINS_LATER and self._in_set():
                return self.close(f"{reason}, but a member's log is not emptied", now_ms)
            case CutWanted(offset, epoch, reason):
                self._cut_reason = reason
                return [TruncateLog(offset, epoch, reason)]
            case HandshakeAgreed(consistent_offset):
                self._led_epoch = None
                self._patience.answered()
                agreed = self._log.agreed() if self._wanted_epoch is None else []
                up = {"peer_broker_id": self.master_id, "direction": "outbound"}
                return [
                    *agreed,
                    self._handshake_event(consistent_offset, ""),
                    ReportEvent("HaLinkUp", up),
                ]
            case HandshakeFailed(reason, lasting, consistent_offset):
                if lasting:
                    self._backoff_ms = self._config.join_failed_backoff_ms
                failed = self._handshake_event(consistent_offset, reason)
                return [failed, *self.close(reason, now_ms)]

    def _handshake_event(self, consistent_offset: int, reason: str) -> ReportEvent:
        fields = {
            "peer_broker_id": self.master_id,
            "consistent_offset": consistent_offset,
            "ok": not reason,
            "reason": reason,
        }
        return ReportEvent("HandshakeResult", fields)

    def _watch_progress(self) -> None:
        """Caught up: this log holds all that was acknowledged before; what is acknowledged later
        needs this replica once it is a member.
        """
        link = self._link
        if link is not None and link.state is SlaveState.TRANSFER and not self.caught_up:
            # A master may have written much that it does not acknowledge (WAIT=false); it takes
            # this one as a member before.
            owed = link.master_end if self._wanted_epoch is None else link.owed_end
            self.caught_up, self._caught_up_end = link.end_offset >= owed, owed

    # -- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._link is not None:
            silence = self._link.silent_too_long(now_ms=now_ms)
            if silence:
                self._patience.left_silent()
                effects += self.close(silence, now_ms)
            else:
                effects += self._perform(self._link.tick(now_ms=now_ms), now_ms)
                # bytes fit again
                if self._full_end is not None and self._log.end_offset > self._full_end:
                    self._full_end, self._full_backoff_ms = (
                        None,
                        self._config.disk_full_backoff_min_ms,
                    )
        effects += self.connect(now_ms)
        linked = self._link is not None and self._link.state is SlaveState.TRANSFER
        if not linked and now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + self._config.ask_controller_ms
            effects.append(AskController(elect=False))
        return effects

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: its own pause is not the master's silence."""
        if self._link is not None:
            self._link.forgive(stalled_ms)
