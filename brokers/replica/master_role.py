"""One mastership: the links of its slaves, the set, the confirm offset.

Responsible for: everything a master does between its epoch entry and the next epoch. The object is
born with a mastership and dies with it, so no link, acknowledgement or proposal of an older one can
count (design S1, S3, S4, S8). Refuses to know: how a replica becomes or stops being master.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from brokers.ha.frames import ProtocolError
from brokers.ha.master_link import MasterLink, SlaveIntroduced
from brokers.ha.sync_set import SlaveFacts, SyncSet, count_mode_candidate
from brokers.remoting.addresses import host_of
from brokers.replica.admission import Admission, keeps_its_place, no_room
from brokers.replica.alter_codes import (
    CODE_ACCEPTED,
    CODES_DEFINITE,
    CODES_OF_STATE,
    CODES_OUTDATED,
    refuses_for_good,
)
from brokers.replica.config import ReplicaConfig
from brokers.replica.effects import (
    AskController,
    CloseLink,
    Effect,
    ProposeSyncSet,
    ReportEvent,
    SendBytes,
    SendRange,
)
from brokers.replica.loss_watch import LossWatch
from brokers.replica.progress import Progress
from brokers.replica.replica_log import ReplicaLog

LINKED_ONCE_MAX = 1_024


class MasterRole:
    """Invariants: acknowledgements come from `links` only; one link per slave id."""

    def __init__(
        self,
        config: ReplicaConfig,
        log: ReplicaLog,
        *,
        broker_id: int,
        epoch: int,
        members: tuple[int, ...],
        set_epoch: int,
        tokens: Iterator[int],
        now_ms: int,
        admission: Admission | None = None,
    ) -> None:
        self.epoch = epoch
        self.links: dict[int, MasterLink] = {}
        minimum, timers = config.min_in_sync_replicas, config.set_timers()
        self.sync = SyncSet(
            broker_id, members, set_epoch, min_in_sync=minimum, timers=timers, now_ms=now_ms
        )
        self._config = config
        self._mode = config.ack_mode()
        self._log = log
        self._limits = config.link_limits()
        self._broker_id = broker_id
        self._tokens = tokens
        self._propose_after_ms = now_ms
        self._retry_at_ms: int | None = None
        self._first_acknowledged = False
        self._progress, self._losses = Progress(config.ack_wait_shrink_ms), LossWatch()
        self._unjoined: set[int] = set()
        self._admission = admission or Admission()
        self._ask_at_ms = now_ms

    def begin(self, now_ms: int) -> list[Effect]:
        """After the epoch entry is durable: what a set of one already confirms."""
        return self._reckon(now_ms)

    # -- links ------------------------------------------------------------------------------------

    def link_opened(self, link_id: int, now_ms: int, peer: str = "") -> list[Effect]:
        link = MasterLink(
            self._limits, own_id=self._broker_id, now_ms=now_ms, unjoined=self._unjoined
        )
        self.links[link_id], link.peer = link, peer
        return []

    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        link = self.links[link_id]
        effects: list[Effect] = []
        try:
            for event in link.receive_data(data, self._log.view(), now_ms=now_ms):
                if isinstance(event, SlaveIntroduced):
                    effects += self._introduced(link_id, event, now_ms)
            effects += self._weigh(link) + self._reckon(now_ms)
            effects += self._pump(link_id, now_ms) if link_id in self.links else []
        except ProtocolError as error:
            effects += self._weigh(link)
            effects += [SendBytes(link_id, error.last_word)] if error.last_word else []
            return effects + self.drop(link_id, str(error)) + self._reckon(now_ms)
        return effects

    def _introduced(self, link_id: int, slave: SlaveIntroduced, now_ms: int) -> list[Effect]:
        """Only registered replicas are answered; a living link is not pushed out by another one
        under its id.
        """
        peer = self.links[link_id].peer
        refusal = self._admission.refusal(slave.broker_id, peer, self.sync.union)
        others = [
            key
            for key, one in self.links.items()
            if one.peer_id == slave.broker_id and key != link_id
        ]
        staying = [
            one for key in others if not self._admission.gives_way(one := self.links[key], peer)
        ]
        if any(keeps_its_place(one, now_ms, self._config.ha_heartbeat_ms) for one in staying):
            refusal = refusal or f"replica {slave.broker_id} has a link that lives"
        refusal = refusal or no_room(
            self.links.values(), slave.broker_id, self.sync.union, self._config.links_max
        )
        if refusal is not None:
            self.links[link_id].peer_id = None
            if not others:
                self._unjoined.discard(slave.broker_id)
            return [*self._ask_who(now_ms), *self.drop(link_id, refusal)]
        effects: list[Effect] = []
        for other_id in others:
            effects += self.drop(other_id, "the slave opened a newer link")
        # of ids nobody could check, under a Java controller
        if len(self.sync.linked_once) < LINKED_ONCE_MAX:
            self.sync.linked_once.add(slave.broker_id)
        up = {"peer_broker_id": slave.broker_id, "direction": "inbound"}
        return [*effects, SendBytes(link_id, slave.reply), ReportEvent("HaLinkUp", up)]

    def _weigh(self, link: MasterLink) -> list[Effect]:
        """A slave's first report of its log's end: a replica that had more has lost data (S15). In
        count mode a member need not hold what is confirmed.
        """
        offset, broker_id, link.claimed = link.claimed, link.peer_id, None
        if offset is None or broker_id is None or broker_id in self.sync.went_back:
            return []
        is_holder = self._mode.all_ack and broker_id in self.sync.confirmed
        confirmed = self._log.confirm_offset if is_holder else 0
        return self._losses.claims(
            broker_id, offset, confirmed, self._log.min_offset, host_of(link.peer)
        )

    def record_found(self, broker_id: int, offset: int, found: bool, now_ms: int) -> list[Effect]:
        """Answer to FindRecord."""
        entry = self._log.epochs.find(offset - 1) if offset else None
        told = self._losses.settled(broker_id, offset, found, -1 if entry is None else entry.epoch)
        if told:
            self.sync.lose(broker_id)
        return told + self._reckon(now_ms)

    def _counted(self, link: MasterLink) -> int:
        """Up to where its acknowledgement counts, -1: for nothing."""
        unproven = link.peer_id in self.sync.went_back or link.peer_id in self._losses.in_doubt
        return -1 if link.acked is None or unproven else link.acked

    def _ask_who(self, now_ms: int) -> list[Effect]:
        """Somebody may have registered a moment ago."""
        if now_ms < self._ask_at_ms:
            return []
        self._ask_at_ms = now_ms + self._config.ask_controller_ms
        return [AskController(elect=False)]

    def part_with_unregistered(self, now_ms: int) -> list[Effect]:
        """A replica that was cleaned while its process lives is linked no longer (S16)."""
        gone = [
            (link_id, one.peer_id)
            for link_id, one in self.links.items()
            if one.peer_id is not None
            and not self._admission.is_known(one.peer_id, self.sync.union)
        ]
        effects = [
            item
            for key, peer in gone
            for item in self.drop(key, f"replica {peer} is registered no longer")
        ]
        return effects + self._reckon(now_ms) if gone else []

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> list[Effect]:
        return self._forget(link_id, reason) + self._reckon(now_ms)

    def drop(self, link_id: int, reason: str) -> list[Effect]:
        return [CloseLink(link_id, reason), *self._forget(link_id, reason)]

    def _forget(self, link_id: int, reason: str) -> list[Effect]:
        link = self.links.pop(link_id, None)
        if link is None or link.peer_id is None:
            return []
        self._progress.link_ended(link.peer_id)
        self._losses.link_ended(link.peer_id, link.acked, host_of(link.peer))
        down = {"peer_broker_id": link.peer_id, "direction": "inbound", "reason": reason}
        return [ReportEvent("HaLinkDown", down)]

    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]:
        self.links[link_id].blocked = blocked
        return [] if blocked else self._pump(link_id, now_ms)

    def _pump(self, link_id: int, now_ms: int) -> list[Effect]:
        packets = self.links[link_id].data_to_send(self._log.view(), now_ms=now_ms)
        return [SendRange(link_id, item.header, item.offset, item.count) for item in packets]

    def _pump_or_drop(self, link_id: int, now_ms: int) -> list[Effect]:
        try:
            return self._pump(link_id, now_ms)
        except ProtocolError as error:
            return self.drop(link_id, str(error))

    # -- log and promises -------------------------------------------------------------------------

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]:
        assert end_offset >= self._log.end_offset
        self._log.end_offset = end_offset
        effects = self._confirm()
        for link_id in list(self.links):
            self.links[link_id].log_grew(end_offset, now_ms=now_ms)
            effects += self._pump_or_drop(link_id, now_ms)
        return effects

    def write_refusal(self, now_ms: int) -> str | None:
        """Why a write has no hope of being acknowledged now; None when it has."""
        reachable = self.sync.reachable(self._slaves(now_ms), now_ms)
        return self._mode.refusal(len(self.sync.confirmed), reachable)

    def _reckon(self, now_ms: int) -> list[Effect]:
        """After any change of links, acknowledgements or set: what is confirmed, who should
        belong.
        """
        return self._confirm() + self._adjust_set(now_ms)

    def _confirm(self) -> list[Effect]:
        acked = {
            one.peer_id: offset
            for one in self.links.values()
            if one.peer_id is not None and (offset := self._counted(one)) >= 0
        }
        end = self._log.end_offset
        if self._mode.all_ack:
            candidate = self.sync.confirm_candidate(end, acked)
        else:
            candidate = count_mode_candidate(end, acked.values(), self._mode.in_sync)
        if candidate is None:
            return []
        effects = self._log.move_confirm(candidate)
        if effects and not self._first_acknowledged and candidate > self._log.epochs.newest_start:
            self._first_acknowledged = True
            told = {"epoch": self.epoch, "offset": candidate}
            effects.append(ReportEvent("FirstMessageAcknowledged", told))
        return effects

    # -- set --------------------------------------------------------------------------------------

    def _slaves(self, now_ms: int) -> dict[int, SlaveFacts]:
        return self._admission.facts(
            self.links.values(), self._counted, self.sync.confirmed, now_ms
        )

    def _adjust_set(self, now_ms: int) -> list[Effect]:
        if self.sync.proposal is not None or now_ms < self._propose_after_ms:
            return []
        confirm, start = self._log.confirm_offset, self._log.epochs.newest_start
        wanted = self.sync.wanted(
            self._slaves(now_ms), confirm_offset=confirm, epoch_start=start, now_ms=now_ms
        )
        if wanted is None:
            return []
        self.sync.propose(next(self._tokens), wanted)
        self._retry_at_ms = None
        return [self._proposal_effect(), self._set_event("SyncStateSetProposed", wanted, -1, -1)]

    def _proposal_effect(self) -> ProposeSyncSet:
        proposal = self.sync.proposal
        assert proposal is not None
        members = tuple(sorted(proposal.members))
        lost = tuple(sorted(proposal.lost))
        return ProposeSyncSet(proposal.token, members, proposal.base_set_epoch, self.epoch, lost)

    def _set_event(
        self, kind: str, members: Iterable[int], new_epoch: int, code: int
    ) -> ReportEvent:
        base = self.sync.proposal.base_set_epoch if self.sync.proposal else self.sync.set_epoch
        wanted = tuple(sorted(members))
        return ReportEvent(
            kind, {"members": wanted, "base_epoch": base, "new_epoch": new_epoch, "code": code}
        )

    def learn_set(self, members: tuple[int, ...], set_epoch: int, now_ms: int) -> list[Effect]:
        """A set the controller decided, from any of its messages."""
        return self._learn(members, set_epoch) + self._reckon(now_ms)

    def _learn(self, members: Collection[int], set_epoch: int) -> list[Effect]:
        """Take over a decided set. Unless this master proposed it, some replica may have lost bytes
        that its open link acknowledged (S5): non-members have to link anew.
        """
        own = self.sync.is_as_proposed(members, set_epoch)
        if not self.sync.learn(members, set_epoch) or own:
            return []
        effects: list[Effect] = []
        for link_id, link in list(self.links.items()):
            if link.peer_id is not None and link.peer_id not in self.sync.confirmed:
                effects += self.drop(
                    link_id, f"set epoch {set_epoch} is not of this master's asking"
                )
        return effects

    def alter_result(
        self,
        token: int,
        code: int | None,
        members: Collection[int] | None,
        set_epoch: int | None,
        now_ms: int,
    ) -> list[Effect]:
        """The answer to a proposal, or None for none. Only a definite one resolves it (S3)."""
        effects: list[Effect] = []
        proposal = self.sync.proposal
        if proposal is not None and proposal.token == token:
            if code == CODE_ACCEPTED and set_epoch is not None:
                members = proposal.members if members is None else members
                effects.append(self._set_event("SyncStateSetAccepted", members, set_epoch, code))
            elif code is not None and refuses_for_good(
                code, proposal.base_set_epoch, members, set_epoch
            ):
                effects.append(
                    self._set_event("SyncStateSetRefused", proposal.members, set_epoch or -1, code)
                )
                self.sync.refused(
                    token,
                    now_ms if code in CODES_DEFINITE else None,
                    outdated=code in CODES_OUTDATED,
                )
                self._propose_after_ms = now_ms + self._config.propose_retry_ms
            elif code in CODES_OF_STATE:
                effects.append(AskController(elect=False))
            self._retry_at_ms = now_ms + self._config.propose_retry_ms
        if members is not None and set_epoch is not None:
            effects += self._learn(members, set_epoch)
        return effects + self._reckon(now_ms)

    # -- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for link_id in list(self.links):
            effects += self._tick_link(link_id, now_ms)
        effects += self._reckon(now_ms)
        if self.sync.proposal and self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            effects.append(self._proposal_effect())
        return effects

    def _tick_link(self, link_id: int, now_ms: int) -> list[Effect]:
        link = self.links[link_id]
        silence = link.silent_too_long(now_ms=now_ms)
        if silence:
            return self.drop(link_id, silence)
        heartbeat = link.heartbeat_due(self._log.view(), now_ms=now_ms)
        effects: list[Effect] = [SendBytes(link_id, heartbeat)] if heartbeat else []
        if link.held_back:
            effects += self._pump_or_drop(link_id, now_ms)
        return effects + self._progress.watch(link, self._log.end_offset, now_ms)

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: nobody is blamed for that time."""
        for link in self.links.values():
            link.forgive(stalled_ms)
        self.sync.forgive(stalled_ms)
