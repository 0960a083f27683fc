"""The master of a set without controllers: the links of its slaves, and what is acknowledged.

Responsible for: whose links are taken, what goes to them, how far sends are answered. Refuses to
know: who the slaves are (the stream does not say), how roles come about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from brokers.ha.default_master_link import DefaultMasterLink
from brokers.ha.frames import ProtocolError
from brokers.replica.effects import (
    Acknowledged,
    CloseLink,
    Effect,
    KeepRefused,
    Readable,
    SendBytes,
    SendRange,
)
from brokers.replica.fixed.config import FixedConfig
from brokers.replica.ha_status import SlaveSeen
from brokers.replica.replica_log import ReplicaLog

REFUSED_MAX = 256
LEFT_MS = 1_000
"""What comes over a link so soon behind another one of its host may have been under way before."""


class FixedMaster:
    """Invariants: acknowledgements come from `links` only; `acknowledged` never falls, nor passes
    the log's end.
    """

    def __init__(
        self, config: FixedConfig, log: ReplicaLog, refused: Iterable[tuple[str, int]] = ()
    ) -> None:
        self.links: dict[int, DefaultMasterLink] = {}
        self.acknowledged = 0
        self.alive: int | None = None
        """Members of the set that name servers know; None: nobody says."""
        self._config, self._log = config, log
        self._rule, self._limits = config.ack_rule, config.link_limits()
        # Ends beyond this log's end that were reported: by (host, offset). The log grows past them
        # one day, and such a slave would then go on in the middle of other bytes.
        self._refused: dict[tuple[str, int], None] = dict.fromkeys(refused)

    def begin(self) -> list[Effect]:
        """What is in the log may be read, as in RocketMQ's brokers of this mode."""
        return [*self._readable(), *self._acknowledge()]

    def _readable(self) -> list[Effect]:
        self._log.confirm_offset = self._log.end_offset
        return [Readable(self._log.end_offset)]

    # -- links -------------------------------------------------------------------------------------

    def link_opened(self, link_id: int, now_ms: int, peer: str) -> list[Effect]:
        effects: list[Effect] = []
        if len(self.links) >= self._config.links_max:
            last = self._has_to_go()
            if last is None:
                return [CloseLink(link_id, f"more than {self._config.links_max} links")]
            effects = self.drop(last, f"more than {self._config.links_max} links, it says nothing")
        self.links[link_id] = DefaultMasterLink(self._limits, now_ms=now_ms, peer=peer)
        return effects

    def _has_to_go(self) -> int | None:
        """Of the links that have reported nothing: of the host with most of them the oldest."""
        silent = {key: one.host for key, one in self.links.items() if one.acked is None}
        counted = Counter(silent.values())
        return max(silent, key=lambda key: counted[silent[key]], default=None)

    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        link = self.links[link_id]
        first = link.acked is None
        kept: list[Effect] = []
        try:
            link.receive_data(data, self._log.view(), now_ms=now_ms)
            if first and link.acked is not None:
                kept = self._look_back(link)
            return [*kept, *self._acknowledge(), *self._pump(link_id, now_ms)]
        except ProtocolError as error:
            word = [SendBytes(link_id, error.last_word)] if error.last_word else []
            return [*kept, *word, *self.drop(link_id, str(error)), *self._acknowledge()]

    def _look_back(self, link: DefaultMasterLink) -> list[Effect]:
        """ProtocolError for a slave that was refused when this log was shorter than its own. One
        from there that reports another end has been put right.
        """
        assert link.acked is not None
        if (link.host, link.acked) in self._refused:
            link.acked = None
            raise ProtocolError("the slave holds bytes that this master never had")
        known = [one for one in self._refused if one[0] == link.host]
        for one in known:
            del self._refused[one]
        return [self._keep()] if known else []

    def _refuse(self, end: tuple[str, int]) -> list[Effect]:
        if end in self._refused:
            return []
        self._refused[end] = None
        while len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        return [self._keep()]

    def _keep(self) -> KeepRefused:
        """What is refused has to outlive this process."""
        return KeepRefused(tuple(self._refused))

    def link_closed(self, link_id: int) -> list[Effect]:
        self.links.pop(link_id, None)
        return self._acknowledge()

    def drop(self, link_id: int, reason: str) -> list[Effect]:
        link, kept = self.links.pop(link_id, None), []
        if link is not None and link.beyond is not None:
            kept = self._refuse((link.host, link.beyond))
        return [*kept, CloseLink(link_id, reason)]

    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]:
        self.links[link_id].blocked = blocked
        return [] if blocked else self._pump_or_drop(link_id, now_ms)

    def _pump(self, link_id: int, now_ms: int) -> list[Effect]:
        packets = self.links[link_id].data_to_send(self._log.view(), now_ms=now_ms)
        return [SendRange(link_id, item.header, item.offset, item.count) for item in packets]

    def _pump_or_drop(self, link_id: int, now_ms: int) -> list[Effect]:
        try:
            return self._pump(link_id, now_ms)
        except ProtocolError as error:
            return self.drop(link_id, str(error))

    # -- log and promises --------------------------------------------------------------------------

    def _acked(self) -> list[int]:
        """What slaves have. A link that has said nothing since another one of its host began to
        report may be the first one of the same slave, half open: it counts again when it is heard.
        """
        reports = [(one, one.acked) for one in self.links.values() if one.acked is not None]
        if len(reports) < 2:
            return [acked for _, acked in reports]
        newest: dict[str, int] = {}
        for one, _ in reports:
            newest[one.host] = max(newest.get(one.host, one.opened_ms), one.opened_ms)
        return [
            acked
            for one, acked in reports
            if one.opened_ms >= (since := newest[one.host]) or one.heard_ms > since + LEFT_MS
        ]

    def _in_sync(self, acked: list[int]) -> int:
        return self._rule.in_sync_count(self._log.end_offset, acked, self.alive)

    def _acknowledge(self) -> list[Effect]:
        acked = self._acked()
        now = self._rule.acknowledged(self._log.end_offset, acked, self._in_sync(acked))
        if now <= self.acknowledged:
            return []
        self.acknowledged = now
        return [Acknowledged(now)]

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]:
        assert end_offset >= self._log.end_offset
        self._log.end_offset = end_offset
        effects = [*self._readable(), *self._acknowledge()]
        for link_id in list(self.links):
            effects += self._pump_or_drop(link_id, now_ms)
        return effects

    def write_refusal(self) -> str | None:
        return self._rule.refusal(self._in_sync(self._acked()))

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for link_id, link in list(self.links.items()):
            silence = link.silent_too_long(now_ms=now_ms)
            if silence:
                effects += self.drop(link_id, silence)
                continue
            beat = link.heartbeat_due(now_ms=now_ms)
            effects += [SendBytes(link_id, beat)] if beat else []
            effects += self._pump_or_drop(link_id, now_ms) if link.held_back else []
        return effects + self._acknowledge()

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: nobody is blamed for that time."""
        for link in self.links.values():
            link.forgive(stalled_ms)

    def slaves_seen(self, now_ms: int) -> tuple[SlaveSeen, ...]:
        """For operators; ids are not known here."""
        end, gap = self._log.end_offset, self._rule.gap_bytes_max
        return tuple(
            SlaveSeen(
                link.peer,
                None,
                link.acked is not None and end - link.acked < gap,
                -1 if link.acked is None else link.acked,
                link.next_offset,
                link.flow.per_second(now_ms),
            )
            for link in self.links.values()
        )
