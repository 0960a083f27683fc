"""The way back of a broker into its set: nobody sees it until it knows what became of the set
without it (PROTOCOL 7.3).

Responsible for: when a set is believed to be empty, the way of a master (push, link, fetch, take),
the way of a slave (ask, link; without a master the way of a master for who is the smallest: tell,
fetch, take), what is tried again and for how long. Refuses to know: sockets, what
is taken (`reverse_sync`), what going online does (`core`).

Nothing is concluded from a name server that could not answer. An empty answer is believed when all
name servers give it and have listened for longer than brokers take to register again, or when
nobody was named for as long. A member that is named no more may have left, or its name servers
began anew: it counts until it does not answer either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from brokers.acting import effects as fx
from brokers.acting.backoff import Backoff
from brokers.acting.config import ActingConfig
from brokers.acting.group_view import GroupView
from brokers.acting.ha_links import HaLink, Sought, match
from brokers.acting.holding_back import HOLD_MS
from brokers.acting.messages import MASTER_ID, HaInfo
from brokers.acting.reverse_sync import MemberTables, Tables

LINK_WAIT_MS = 10_000
"""As RocketMQ's: a slave tries its link every 5 s."""
TOLD_AGAIN_MS = 2_000
"""A member without a link is told again where links are taken: one that hears late that its master
is gone drops the link that it has just made.
"""
NAMESAKE_WAIT_MS = 15_000
"""For so long another address may stand under the own id: until name servers have dropped it."""
# Tables that were fetched longer ago are fetched again before they are taken, so many times.
FRESH_MS, FETCHES_MAX = 2_000, 4
WORD_LASTS_MS = HOLD_MS // 2
"""Who acts holds back for HOLD_MS after a word. Tables are fetched of one that was told no longer
ago than this, so that it still does when name servers name who took them.
"""
# On a disk that takes longer, what was taken is old: who was told holds back for HOLD_MS only.
TAKE_MS = 6_000
AGAIN = Backoff(1_000, 15_000)


class Stage(Enum):
    """How far a member is, as a returning master sees it."""

    PUSH = "told where to link to"
    LINK = "awaited on its link"
    FETCH = "asked for its tables"
    DONE = "fetched"
    LEFT = "left out"


@dataclass(slots=True)
class _Member:
    broker_id: int
    address: str
    stage: Stage = Stage.PUSH
    token: int = 0  # of the call under way; 0: none
    due_ms: int = 0  # when the next call may begin, or the one under way is over
    failures: int = 0
    failing_since_ms: int | None = None
    told_ms: int | None = None  # for the first time
    word_ms: int = 0  # when it took a word last
    again_ms: int = 0  # when it is told once more, as long as it has no link
    linked: bool = False
    unlinked_is_enough: bool = False
    is_named: bool = True  # by a name server
    tables: Tables = field(default_factory=Tables)
    fetched_ms: int | None = None
    fetches: int = 0


class PreOnline:
    """From `now_ms` on. `outcome`: (smallest id, its address) when the broker may go online.
    `nothing_to_lose`: own store and tables are empty, so nothing of the set's is missed in them.
    """

    def __init__(
        self, config: ActingConfig, view: GroupView, now_ms: int, *, nothing_to_lose: bool
    ) -> None:
        self._config, self._view = config, view
        self._began_ms = now_ms
        self._nothing_to_lose = nothing_to_lose
        self._members: dict[int, _Member] = {}
        self._links: tuple[HaLink, ...] = ()
        self._hosts: Mapping[str, frozenset[str]] = {}
        self._token = 0
        self._taking = self._took_ms = 0
        self._again_ms = now_ms
        self._failures = 0
        # a slave's: which master was asked, what it answered, since when its link is awaited
        self._asking = 0
        self._linking: HaInfo | None = None
        self._linking_since_ms = 0
        self._namesake_ms: int | None = None
        self._nobody_since_ms: int | None = None
        self.outcome: tuple[int, str] | None = None
        self.left_out: tuple[int, ...] = ()
        self.waits_for = "an answer of a name server"

    # -- what happens ------------------------------------------------------------------------------

    def tick(self, now_ms: int, chance: float) -> list[fx.Effect]:
        """Time passed, or name servers answered."""
        if self.outcome is not None:
            return []
        known = self._view.members()
        if known is None:
            self._nobody_since_ms = None
            self.waits_for = "an answer of a name server"
            return []
        own_id = self._config.place.broker_id
        if self._has_namesake(known, now_ms):
            self.waits_for = f"{known[own_id]}, which stands under this broker's id, to go"
            return []
        others = {key: address for key, address in known.items() if key != own_id}
        if not others and not self._members:
            return self._alone()
        self._nobody_since_ms = None
        smallest = min(others, default=own_id)
        if own_id != MASTER_ID and smallest == MASTER_ID:
            return self._as_slave(others[smallest], now_ms, chance)
        if own_id < smallest or not others:
            # It is to deliver, in place of whoever did meanwhile.
            return self._as_first(others, now_ms, chance)
        self.outcome = (smallest, others[smallest])
        return []

    def pushed(self, token: int, ok: bool, now_ms: int, chance: float) -> list[fx.Effect]:
        """A member was told where to link to, or was not reached."""
        member = self._of(token)
        if member is None or member.stage is not Stage.PUSH:
            return []
        in_time = now_ms < member.due_ms
        member.token = 0
        if ok and in_time:
            member.stage, member.word_ms = Stage.LINK, now_ms
            member.told_ms = now_ms if member.told_ms is None else member.told_ms
            member.due_ms, member.again_ms = now_ms + LINK_WAIT_MS, now_ms + TOLD_AGAIN_MS
            return self._links_seen(now_ms, chance)
        return self._failed(member, "it does not answer", now_ms, chance, leave=True)

    def links_are(
        self,
        links: Iterable[HaLink],
        hosts: Mapping[str, frozenset[str]],
        now_ms: int,
        chance: float,
    ) -> list[fx.Effect]:
        """All links to this master. `hosts`: what members' addresses stand for, where known."""
        self._links, self._hosts = tuple(links), hosts
        return self._links_seen(now_ms, chance)

    def fetched(
        self, token: int, tables: Tables | None, now_ms: int, chance: float
    ) -> list[fx.Effect]:
        """A member's tables; None: it was not reached. A table that it refuses is none it has. What
        comes later than a call may take is old: this process stood still.
        """
        member = self._of(token)
        if member is None or member.stage is not Stage.FETCH:
            return []
        in_time = now_ms < member.due_ms
        member.token = 0
        if tables is None or not in_time:
            return self._failed(member, "its tables do not come", now_ms, chance, leave=True)
        member.stage, member.tables, member.fetched_ms = Stage.DONE, tables, now_ms
        member.failures, member.failing_since_ms = 0, None
        return self.tick(now_ms, chance)

    def taken(self, token: int, ok: bool, now_ms: int, chance: float) -> list[fx.Effect]:
        """What was decided is on the disk, or is not. Where that took long (a slow disk, a process
        that stood still), who acts has gone on meanwhile: members are told and asked once more.
        """
        if token != self._taking or not token:
            return []
        self._taking = 0
        if ok and now_ms - self._took_ms <= TAKE_MS:
            self.outcome = (self._config.place.broker_id, self._config.place.address)
            return []
        self._failures += 1
        self._again_ms = now_ms + AGAIN.pause_ms(self._failures, chance)
        for member in self._members.values():
            if member.stage is Stage.DONE:
                member.stage, member.fetches = Stage.PUSH, 0
                member.due_ms = self._again_ms
        return []

    def told(self, token: int, info: HaInfo | None, now_ms: int, chance: float) -> list[fx.Effect]:
        """The master's answer to a slave; None: it was not reached."""
        if token != self._asking or not token:
            return []
        self._asking = 0
        master = (self._view.members() or {}).get(MASTER_ID)
        if info is None or master is None:
            return self._ask_again(now_ms, chance)
        if info.ha_address is None:
            self.outcome = (MASTER_ID, master)
            return []
        effects: list[fx.Effect] = []
        if info.flushed_offset is not None:
            effects.append(fx.StoreFlushedOffset(info.flushed_offset))
        self._linking, self._linking_since_ms = info, now_ms
        self.waits_for = f"the link to {info.ha_address}"
        static = self._config.static_ha_address
        address = info.master_address or master
        return [*effects, fx.FollowMaster(address, None if static else info.ha_address)]

    def own_link(self, transfers: bool, peer: str, now_ms: int, chance: float) -> list[fx.Effect]:
        """A slave's own link: whether it transfers, and to which HA address it goes."""
        linking = self._linking
        if self.outcome is not None or linking is None:
            return []
        meant = self._config.static_ha_address or peer == linking.ha_address
        master = (self._view.members() or {}).get(MASTER_ID)
        if transfers and meant and master is not None:
            self.outcome = (MASTER_ID, master)
            return []
        if now_ms - self._linking_since_ms > LINK_WAIT_MS:
            self._linking = None
            return self._ask_again(now_ms, chance)
        return []

    # -- alone -------------------------------------------------------------------------------------

    def _alone(self) -> list[fx.Effect]:
        grace_ms, last_ms = self._config.grace_ms, self._view.last_asked_ms
        if self._nobody_since_ms is None:
            self._nobody_since_ms = last_ms
        lasts = last_ms - self._nobody_since_ms >= grace_ms and not self._view.began_within(
            grace_ms
        )
        believed = self._view.all_answer() and (
            self._nothing_to_lose or self._view.all_up_for(grace_ms)
        )
        if believed or lasts:
            self.outcome = (self._config.place.broker_id, self._config.place.address)
        else:
            self.waits_for = "the others, who may register again after a name server's start"
        return []

    def _has_namesake(self, known: Mapping[int, str], now_ms: int) -> bool:
        held = known.get(self._config.place.broker_id)
        if held is None or held == self._config.place.address:
            self._namesake_ms = None
            return False
        if self._namesake_ms is None:
            self._namesake_ms = now_ms
        return now_ms - self._namesake_ms < NAMESAKE_WAIT_MS

    # -- who is to deliver: a master, or the smallest slave without one ----------------------------

    def _as_first(self, others: Mapping[int, str], now_ms: int, chance: float) -> list[fx.Effect]:
        for broker_id, address in others.items():
            known = self._members.get(broker_id)
            if known is None or known.address != address:
                member = self._members[broker_id] = _Member(broker_id, address)
                member.unlinked_is_enough = not self._config.is_master
            self._members[broker_id].is_named = True
        for broker_id in self._members.keys() - others.keys():
            self._members[broker_id].is_named = False
            if self._view.all_up_for(self._config.grace_ms):
                self._left(self._members[broker_id])
        effects = [
            effect
            for member in list(self._members.values())
            for effect in self._step(member, now_ms, chance)
        ]
        return effects + self._finish(now_ms)

    def _left(self, member: _Member) -> None:
        """What one handed over before it left is taken all the same."""
        if member.fetched_ms is None:
            del self._members[member.broker_id]
        else:
            member.stage, member.token, member.fetches = Stage.DONE, 0, FETCHES_MAX

    def _step(self, member: _Member, now_ms: int, chance: float) -> list[fx.Effect]:
        if member.token and now_ms >= member.due_ms:
            member.token = 0
            return self._failed(member, "nothing came of a call", now_ms, chance, leave=True)
        if member.token or now_ms < member.due_ms:
            return self._tell_again(member, now_ms)
        match member.stage:
            case Stage.PUSH:
                return [fx.PushHaInfo(self._call(member, now_ms), member.address, self._word)]
            case Stage.LINK if _unlinked(member):
                return self._failed(member, "its link does not come", now_ms, chance, leave=False)
            case Stage.FETCH if now_ms - member.word_ms > WORD_LASTS_MS:
                member.stage = Stage.PUSH
                return [fx.PushHaInfo(self._call(member, now_ms), member.address, self._word)]
            case Stage.FETCH:
                member.fetches += 1
                return [fx.FetchTables(self._call(member, now_ms), member.address)]
            case _:
                return []

    def _tell_again(self, member: _Member, now_ms: int) -> list[fx.Effect]:
        """Nothing hangs on the answer: the link says enough, and the wait for it goes on. Links of
        one host say no name: who of it lacks one is not known, and all of it are told.
        """
        awaited = member.stage is Stage.LINK and any(
            _unlinked(one) and self._hosts_of(one) & self._hosts_of(member)
            for one in self._members.values()
        )
        if not awaited or now_ms < member.again_ms:
            return []
        member.again_ms = now_ms + TOLD_AGAIN_MS
        return [fx.PushHaInfo(self._next_token(), member.address, self._word)]

    @property
    def _word(self) -> HaInfo:
        """What members are told; either makes who acts hold back."""
        config = self._config
        if config.is_master:
            return HaInfo(config.ha_address, 0, config.place.address)
        return HaInfo(comes_back=True)

    def _finish(self, now_ms: int) -> list[fx.Effect]:
        """On to the tables when all are linked, and to taking them when all are fetched."""
        members = list(self._members.values())
        if not members:
            return self._alone()
        grace_over = now_ms - self._began_ms >= self._config.grace_ms
        if not (self._view.all_answer() or grace_over):
            self.waits_for = "a name server, which may know other members"
            return []
        if waiting := [one for one in members if _unlinked(one)]:
            self.waits_for = f"broker {waiting[0].broker_id} to be {waiting[0].stage.value}"
            return []
        effects: list[fx.Effect] = []
        for member in members:
            if member.stage is Stage.LINK:
                member.stage, member.due_ms = Stage.FETCH, now_ms
                member.failures, member.failing_since_ms = 0, None
                effects += self._step(member, now_ms, 0.0)
        if effects or any(one.stage is Stage.FETCH for one in members):
            self.waits_for = "the members' tables"
            return effects
        return self._take(members, now_ms)

    def _take(self, members: list[_Member], now_ms: int) -> list[fx.Effect]:
        if self._taking or now_ms < self._again_ms:
            return []
        done = [one for one in members if one.fetched_ms is not None]
        old = [
            one
            for one in members
            if one.stage is Stage.DONE
            and now_ms - (one.fetched_ms or 0) > FRESH_MS
            and one.fetches < FETCHES_MAX
        ]
        effects: list[fx.Effect] = []
        for member in old:
            member.stage, member.due_ms = Stage.FETCH, now_ms
            effects += self._step(member, now_ms, 0.0)
        if effects:
            return effects
        self.left_out = tuple(one.broker_id for one in members if one.stage is Stage.LEFT)
        self._taking, self._took_ms = self._next_token(), now_ms
        self.waits_for = "the own disk"
        tables = tuple(MemberTables(one.broker_id, one.address, one.tables) for one in done)
        return [fx.TakeTables(self._taking, tables)]

    def _links_seen(self, now_ms: int, chance: float) -> list[fx.Effect]:
        sought = [
            Sought(one.address, self._hosts_of(one), one.told_ms)
            for one in sorted(self._members.values(), key=lambda one: one.broker_id)
        ]
        found = match(sought, self._links)
        for member in self._members.values():
            member.linked = member.address in found
        return self.tick(now_ms, chance)

    def _hosts_of(self, member: _Member) -> frozenset[str]:
        known = self._hosts.get(member.address, frozenset())
        return Sought(member.address, known).own_hosts

    def _failed(
        self, member: _Member, why: str, now_ms: int, chance: float, *, leave: bool
    ) -> list[fx.Effect]:
        """Again after a pause. For too long: `leave` it out, or go on without its link. One that is
        named no more has left.
        """
        if not member.is_named:
            self._left(member)
            return []
        if member.stage is Stage.LINK:
            member.stage = Stage.PUSH
        member.failures += 1
        member.due_ms = now_ms + AGAIN.pause_ms(member.failures, chance)
        if member.failing_since_ms is None:
            member.failing_since_ms = now_ms
        if now_ms - member.failing_since_ms < self._config.member_wait_ms:
            return []
        if leave:
            member.stage = Stage.LEFT
        else:
            member.stage, member.due_ms = Stage.LINK, now_ms
            member.unlinked_is_enough = True
        fields = {"member": member.broker_id, "reason": why, "tables": not leave}
        return [fx.Report("PreOnlineWithoutMember", fields)]

    def _call(self, member: _Member, now_ms: int) -> int:
        member.token = self._next_token()
        member.due_ms = now_ms + 2 * self._config.call_ms
        return member.token

    def _next_token(self) -> int:
        self._token += 1
        return self._token

    def _of(self, token: int) -> _Member | None:
        return next((one for one in self._members.values() if token and one.token == token), None)

    # -- a slave -----------------------------------------------------------------------------------

    def _as_slave(self, master: str, now_ms: int, chance: float) -> list[fx.Effect]:
        if self._linking is not None:
            return self.own_link(False, "", now_ms, chance)
        if now_ms < self._again_ms:
            return []
        self._asking = self._next_token()
        self._again_ms = now_ms + 2 * self._config.call_ms
        self.waits_for = f"the master at {master}"
        return [fx.AskHaInfo(self._asking, master)]

    def _ask_again(self, now_ms: int, chance: float) -> list[fx.Effect]:
        self._failures += 1
        self._again_ms = now_ms + AGAIN.pause_ms(self._failures, chance)
        return []


def _unlinked(member: _Member) -> bool:
    if member.stage is Stage.LINK:
        return not (member.linked or member.unlinked_is_enough)
    return member.stage is Stage.PUSH
