"""One broker of a set without controllers (PROTOCOL 7.2, 7.3).

Responsible for: when heartbeats, registrations and questions are due; who acts by what name servers
say together; how long a broker that nobody confirms goes on delivering; noticing that it was taken
for dead; going online. Refuses to know: sockets, clocks, how special services work, locks, escape.

Two may deliver at once only until the one that was taken for dead knows it, or has not been
confirmed for `not_active_ms`, whichever comes first: nobody acts for a broker sooner than it leaves
a name server. A master goes on without any name server while every replica of its set is linked to
it, for one that begins to act closes its link first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brokers.acting import effects as fx
from brokers.acting.acting_state import ActingState
from brokers.acting.config import ActingConfig
from brokers.acting.group_view import GroupView
from brokers.acting.ha_links import HaLink, Sought, match
from brokers.acting.holding_back import MasterSigns, Yielding
from brokers.acting.messages import (
    MASTER_ID,
    CouldNotAnswer,
    HaInfo,
    MemberAnswer,
    MinIdNotice,
    Registered,
)
from brokers.acting.pre_online import PreOnline
from brokers.acting.reverse_sync import MemberTables, Tables

FIRST_MS, FIRST_REGISTER_MS = 1_000, 10_000
# A name server that does not know this broker is told at once, and not more often.
REGISTER_AGAIN_MS = 1_000
# As long as one is under way, what name servers say is older than it; registerBrokerTimeoutMills.
REGISTER_WAIT_MS = 24_000
# As RocketMQ's slaves copy their master's check points.
COPY_MS = 3_000
# Behind all tokens of a way back.
COPY_TOKENS = 1 << 32


class ActingCore:
    """Times in ms of a clock that only grows; `chance`: from 0 to 1. `nothing_to_lose`: own store
    and tables are empty. `members`: id -> address as last told.
    """

    def __init__(self, config: ActingConfig, now_ms: int, *, nothing_to_lose: bool = False) -> None:
        self.config = config
        self._view = GroupView(config.name_servers, compat=config.compat)
        self._state = ActingState(
            config.place.broker_id, static_ha_address=config.static_ha_address
        )
        self._nothing_to_lose = nothing_to_lose
        self._began_ms = now_ms
        self.isolated = config.starts_isolated
        self.fenced = False
        self.members: Mapping[int, str] = {}
        self._running = False
        self._pre_online: PreOnline | None = None
        self._beat_due_ms = now_ms + FIRST_MS
        self._poll_due_ms = now_ms + FIRST_MS
        self._register_due_ms = now_ms + FIRST_REGISTER_MS
        self._registering_ms = now_ms
        self._is_registering = False
        # What was asked before says nothing of this registration.
        self._registered_ms = now_ms
        self._confirmed_ms = now_ms
        self._lapsed = False
        self._yielding = Yielding()
        self._signs = MasterSigns(config.not_active_ms)
        self._master = ""  # its address, as told last
        self._links: tuple[HaLink, ...] = ()
        self._hosts: Mapping[str, frozenset[str]] = {}
        self._token = 0
        self._copies, self._copy_due_ms = COPY_TOKENS, now_ms
        self._asked_master = 0
        self._told_of_waiting = ""
        self._log_end: int | None = None

    # -- what others see ---------------------------------------------------------------------------

    @property
    def min_id(self) -> int:
        return self._state.min_id

    @property
    def min_address(self) -> str | None:
        """Of the broker with that id, None while nobody said it."""
        return self._state.min_address

    @property
    def acts(self) -> bool:
        """A slave that acts for its master."""
        return self._state.acts and not self.config.is_master

    @property
    def follows(self) -> str | None:
        """The master whose tables are copied."""
        return self._state.follows

    @property
    def waits_for(self) -> str:
        """What keeps this broker from going online; empty when nothing does."""
        return "" if self._pre_online is None else self._pre_online.waits_for

    def delivers(self, now_ms: int) -> bool:
        """Whether special services may put anything now. They ask before each batch: behind a pause
        of the process no tick came in between.
        """
        return self._running and self._is_confirmed(now_ms)

    def may_register(self, now_ms: int) -> bool:
        """Whether this broker may register by itself, without `Register`: it has its place, and as
        a master was named so short a time ago that nobody can have acted.
        """
        brief = now_ms - self._confirmed_ms <= self.config.brief_ms
        return not self.isolated and (
            brief or not (self.config.is_master and self.config.starts_isolated)
        )

    # -- time --------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[fx.Effect]:
        """The store is open, the ports listen."""
        if self.isolated and not self.config.skip_pre_online:
            self._pre_online = PreOnline(
                self.config, self._view, now_ms, nothing_to_lose=self._nothing_to_lose
            )
            return [self._ask(now_ms)]
        if self.config.is_master:
            return self._go_online(MASTER_ID, self.config.place.address, now_ms)
        self.isolated = False
        return [*self._register(now_ms), fx.WentOnline(self.min_id, "")]

    def tick(self, now_ms: int, chance: float) -> list[fx.Effect]:
        """To be called each 200 ms or so, and first thing when the process comes to itself."""
        effects = self._lease(now_ms)
        if now_ms >= self._poll_due_ms:
            self._poll_due_ms = now_ms + self.config.member_poll_ms
            effects.append(self._ask(now_ms))
        if not self.isolated and now_ms >= self._beat_due_ms:
            self._beat_due_ms = now_ms + self.config.heartbeat_ms
            effects.append(fx.SendHeartbeat(self._ways()))
        # Behind a pause of the process name servers are asked first: they may have dropped it.
        if now_ms >= self._register_due_ms and self.may_register(now_ms):
            effects += self._register(now_ms)
        if self._pre_online is not None:
            effects += self._after(self._pre_online.tick(now_ms, chance), now_ms)
        return effects + self._copy(now_ms)

    def _copy(self, now_ms: int) -> list[fx.Effect]:
        """A slave behind one that acts may be the next one: it knows how far that one is, as of a
        master. RocketMQ's begin with what the master said last.
        """
        acting, address = self._state.min_id, self._state.min_address
        stands_behind = MASTER_ID < acting < self.config.place.broker_id
        asks_master = self.acts and self._master
        if now_ms < self._copy_due_ms or self.isolated or not (stands_behind or asks_master):
            return []
        self._copy_due_ms = now_ms + COPY_MS
        self._copies += 1
        if asks_master:
            # It may deliver, at name servers that this broker does not reach.
            self._asked_master = self._copies
            return [fx.AskHaInfo(self._copies, self._master)]
        return [] if address is None else [fx.FetchTables(self._copies, address)]

    def _lease(self, now_ms: int) -> list[fx.Effect]:
        confirmed = self._is_confirmed(now_ms)
        self._lapsed |= not confirmed
        yields = self._yielding.holds(now_ms) or self._signs.delivers(now_ms)
        wanted = self._state.acts and self._pre_online is None and confirmed and not yields
        if wanted == self._running:
            return []
        self._running = wanted
        reason = "nobody else delivers"
        if not wanted:
            reason = "another one delivers" if yields else "no name server confirms this broker"
        return [fx.SpecialServices(wanted, reason)]

    def _is_confirmed(self, now_ms: int) -> bool:
        if not self.config.starts_isolated:
            return True
        not_active_ms = self.config.not_active_ms
        return now_ms - self._confirmed_ms <= not_active_ms or (
            # Links make a confirmation last; they are none: somebody may have acted meanwhile.
            self.config.is_master and not self._lapsed and self._all_linked(now_ms)
        )

    def _all_linked(self, now_ms: int) -> bool:
        own_id, not_active_ms = self.config.place.broker_id, self.config.not_active_ms
        others = [address for key, address in self.members.items() if key != own_id]
        heard = [one for one in self._links if now_ms - one.heard_ms <= not_active_ms]
        sought = [Sought(one, self._hosts.get(one, frozenset())) for one in others]
        wanted = self.config.total_replicas - 1
        return len(others) >= wanted and len(match(sought, heard)) == len(others)

    # -- what name servers say ---------------------------------------------------------------------

    def members_answered(
        self, name_server: str, answer: MemberAnswer, asked_ms: int, now_ms: int, chance: float
    ) -> list[fx.Effect]:
        """One name server's answer to the question of `asked_ms`, or that none came. What comes
        later than a call may take says nothing of now: this process stood still.
        """
        if now_ms - asked_ms > 2 * self.config.call_ms:
            answer = CouldNotAnswer("it came too late")
        self._view.answered(name_server, answer, asked_ms)
        known = self._view.members()
        effects: list[fx.Effect] = []
        if known:
            self.members = known
            self._master = known.get(MASTER_ID, self._master)
            own_is_there = self.config.place.broker_id in known
            effects.append(fx.AliveReplicas(len(known) + (not own_is_there)))
        if not self.isolated and known is not None:
            effects += self._judge(known, now_ms)
        if self._pre_online is not None:
            effects += self._after(self._pre_online.tick(now_ms, chance), now_ms)
        return effects

    def _judge(self, known: Mapping[int, str], now_ms: int) -> list[fx.Effect]:
        own = self.config.place
        named_ms = self._view.names(own.broker_id, own.address)
        effects: list[fx.Effect] = []
        if named_ms is None:
            effects += self._not_named(now_ms)
        else:
            silent_ms = named_ms - self._confirmed_ms
            self._confirmed_ms = max(self._confirmed_ms, named_ms)
            self._lapsed = False
            is_first = min(known) == own.broker_id
            if silent_ms > self.config.not_active_ms and is_first and len(known) > 1:
                effects += self._looks_back(now_ms)
        before = self._state.min_id if self._state.min_address is not None else None
        untold = self._view.may_lack(before, known)
        if untold or (MASTER_ID not in known and self._signs.speaks(now_ms)):
            return effects + self._lease(now_ms)
        if known and not self.config.is_master and self.config.enabled:
            smallest = min(known)
            found = self._state.smallest_is(smallest, known[smallest], token=self._token + 1)
            effects += self._with_services(found)
        return effects + self._lease(now_ms)

    def _not_named(self, now_ms: int) -> list[fx.Effect]:
        """No name server that answers knows this broker: it tells them, and a master looks for who
        may have acted for it.
        """
        if self._is_registering and now_ms - self._registering_ms < REGISTER_WAIT_MS:
            return []
        since = self._view.members(self._registered_ms + 1)
        if since is None:
            return []
        others = since.keys() - {self.config.place.broker_id}
        replaced = self.config.place.broker_id in since
        if (
            self.config.is_master
            and self.config.starts_isolated
            and (others or replaced)
            and self._pre_online is None
        ):
            return self._expelled(now_ms, replaced)
        if now_ms - self._registering_ms >= REGISTER_AGAIN_MS:
            return self._register(now_ms)
        return []

    def _expelled(self, now_ms: int, replaced: bool) -> list[fx.Effect]:
        reason = "another broker has its id" if replaced else "name servers dropped this broker"
        effects: list[fx.Effect] = []
        if self._running:
            self._running = False
            effects.append(fx.SpecialServices(False, reason))
        if replaced or now_ms - self._confirmed_ms > self.config.brief_ms:
            self.isolated = self.fenced = True
            effects.append(fx.Fence(reason))
        else:
            effects += self._register(now_ms)
        self._pre_online = PreOnline(self.config, self._view, now_ms, nothing_to_lose=False)
        return [*effects, fx.Report("MasterExpelled", {"reason": reason, "fenced": self.fenced})]

    def _looks_back(self, now_ms: int) -> list[fx.Effect]:
        """Who is to deliver is named, and was not for so long that somebody may have acted: it
        registered again before it heard that it had been dropped. It takes over what was done, and
        serves.
        """
        if not self.config.starts_isolated or self._pre_online:
            return []
        self._pre_online = PreOnline(self.config, self._view, now_ms, nothing_to_lose=False)
        return [fx.Report("LooksBack"), *self._lease(now_ms)]

    def min_id_notice(self, notice: MinIdNotice, now_ms: int) -> list[fx.Effect]:
        """905. That another one acts is believed at once; that this broker does, only when the name
        servers say so together, which are asked.
        """
        own = self.config.place
        if self.isolated or self.config.is_master or not self.config.enabled:
            return []
        if notice.min_id is None or notice.broker_name not in (None, own.broker_name):
            return []
        speaks = notice.min_id != MASTER_ID and self._signs.speaks(now_ms)
        if notice.min_id >= own.broker_id or speaks:
            self._poll_due_ms = now_ms + self.config.member_poll_ms
            return [self._ask(now_ms)]
        effects = self._state.smallest_is(
            notice.min_id,
            notice.min_address,
            offline_address=notice.offline_address,
            ha_address=notice.ha_address,
            token=self._token + 1,
        )
        return self._with_services(effects)

    def registered(self, answer: Registered | None, now_ms: int) -> list[fx.Effect]:
        """A registration is over: the first answer that names a master, or one that names none.
        None: no name server took it.
        """
        self._is_registering = False
        if answer is None:
            return []
        self._registered_ms = now_ms
        if answer.master_address is None or answer.ha_address is None:
            return []
        return self._state.follow(answer.master_address, answer.ha_address, wake=False)

    # -- what other brokers say --------------------------------------------------------------------

    def exchange(self, info: HaInfo, own_end: int, now_ms: int) -> tuple[HaInfo, list[fx.Effect]]:
        """906: (the answer, what follows). `own_end`: where the log ended when it was opened.
        Where special services end by it, the answer is due when that has been carried out.
        """
        if info.ha_address is None:
            if not self.config.is_master:
                return HaInfo(), self._yields(now_ms) if info.comes_back else []
            own, delivers = self.config, self.delivers(now_ms)
            return HaInfo(own.ha_address, own_end, own.place.address, delivers=delivers), []
        if self.config.is_master or info.master_address is None:
            return HaInfo(), []
        effects = self._yields(now_ms)
        effects += self._state.follow(info.master_address, info.ha_address)
        if info.flushed_offset is not None:
            effects.append(fx.StoreFlushedOffset(info.flushed_offset))
        return HaInfo(), effects

    def _yields(self, now_ms: int) -> list[fx.Effect]:
        """Somebody comes back for whom this slave acts: what it delivered from here on would be
        delivered twice.
        """
        if not self.acts or self.isolated:
            return []
        self._yielding.heard(now_ms)
        return self._lease(now_ms)

    def ha_info_told(
        self, token: int, info: HaInfo | None, now_ms: int, chance: float
    ) -> list[fx.Effect]:
        """What a master answered to the question with this token; None: it was not reached, which
        the next registration mends.
        """
        if token == self._asked_master:
            self._signs.says(now_ms, delivers=info is not None and info.delivers)
            return self._lease(now_ms)
        if self._pre_online is not None:
            return self._after(self._pre_online.told(token, info, now_ms, chance), now_ms)
        if token != self._token or info is None or info.ha_address is None:
            return []
        if self.min_id != MASTER_ID or self._state.min_address is None:
            return []
        address = info.master_address or self._state.min_address
        return self._state.follow(address, info.ha_address)

    def links_are(
        self,
        links: Iterable[HaLink],
        hosts: Mapping[str, frozenset[str]],
        now_ms: int,
        chance: float,
    ) -> list[fx.Effect]:
        """All links to this master, when one changes and each second."""
        self._lapsed |= not self._is_confirmed(now_ms)
        self._links, self._hosts = tuple(links), hosts
        if self._pre_online is None:
            return []
        found = self._pre_online.links_are(self._links, hosts, now_ms, chance)
        return self._after(found, now_ms)

    def own_link(
        self, transfers: bool, peer: str, heard_ms: int, now_ms: int, chance: float
    ) -> list[fx.Effect]:
        """A slave's own link, each second or more often: whether it transfers, to which address,
        and when something came over it last.
        """
        self._signs.link(transfers, heard_ms)
        if self._pre_online is None:
            return []
        found = self._pre_online.own_link(transfers, peer, now_ms, chance)
        return self._after(found, now_ms)

    def log_ends(self, offset: int, now_ms: int) -> list[fx.Effect]:
        """Where a slave's log ends, in bytes: each time before anything is delivered. It grows by
        its master's hand only. Behind a pause of the process no tick has come yet, and another one
        may act by now.
        """
        grew = self._log_end is not None and offset > self._log_end
        self._log_end = offset
        if not self.acts:
            return []
        if grew:
            self._signs.wrote(now_ms)
        return self._lease(now_ms)

    def pushed(self, token: int, ok: bool, now_ms: int, chance: float) -> list[fx.Effect]:
        """What came of `PushHaInfo`."""
        if self._pre_online is None:
            return []
        return self._after(self._pre_online.pushed(token, ok, now_ms, chance), now_ms)

    def fetched(
        self, token: int, tables: Tables | None, now_ms: int, chance: float
    ) -> list[fx.Effect]:
        """What came of `FetchTables`; None: the member was not reached. A table that it refuses
        with an error (RocketMQ's answer where it has none) is a None within.
        """
        if token == self._copies and tables is not None and not self.acts:
            acting = self._state.min_id, self._state.min_address or ""
            return [fx.TakeTables(token, (MemberTables(*acting, tables),))]
        if self._pre_online is None:
            return []
        return self._after(self._pre_online.fetched(token, tables, now_ms, chance), now_ms)

    def taken(self, token: int, ok: bool, now_ms: int, chance: float) -> list[fx.Effect]:
        """Whether what `TakeTables` led to is on the disk."""
        if self._pre_online is None:
            return []
        return self._after(self._pre_online.taken(token, ok, now_ms, chance), now_ms)

    # -- going online ------------------------------------------------------------------------------

    def _after(self, effects: list[fx.Effect], now_ms: int) -> list[fx.Effect]:
        pre_online = self._pre_online
        assert pre_online is not None
        # What the broker followed on its way back it follows from now on.
        for effect in effects:
            if isinstance(effect, fx.FollowMaster):
                self._state.follows = effect.address
        if pre_online.outcome is None:
            return effects
        self._pre_online = None
        min_id, address = pre_online.outcome
        report = fx.Report("PreOnlineOver", {"min_id": min_id, "left_out": pre_online.left_out})
        return [*effects, report, *self._go_online(min_id, address, now_ms)]

    def _go_online(self, min_id: int, min_address: str, now_ms: int) -> list[fx.Effect]:
        """Services, registration, then the place: in this order."""
        self._confirmed_ms = now_ms
        self._lapsed = self._running = False
        self._yielding = Yielding()
        effects = self._with_services(self._state.begin(min_id, min_address))
        if self._state.acts and not self._running:
            # It went online before: only the services had stopped.
            self._running = True
            effects.append(fx.SpecialServices(True, "back in its place"))
        was_isolated = self.isolated
        self.isolated = self.fenced = False
        if was_isolated or not self.config.starts_isolated:
            effects += self._register(now_ms)
        return [*effects, fx.WentOnline(min_id, min_address)]

    def _with_services(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        """Without orders to services that are as they should be; questions are noted."""
        kept: list[fx.Effect] = []
        for effect in effects:
            if isinstance(effect, fx.AskHaInfo):
                self._token = effect.token
            if isinstance(effect, fx.SpecialServices):
                self._yielding = Yielding()
                self._signs.forget()
                if effect.on == self._running:
                    continue
                self._running = effect.on
            kept.append(effect)
        return kept

    def _register(self, now_ms: int) -> list[fx.Effect]:
        self._register_due_ms = now_ms + self.config.register_every_ms
        if now_ms < self._began_ms + self.config.appears_after_ms:
            return []
        self._registering_ms, self._is_registering = now_ms, True
        return [fx.Register()]

    def _ask(self, now_ms: int) -> fx.AskMembers:
        return fx.AskMembers(self._ways(), now_ms)

    def _ways(self) -> dict[str, bool]:
        return {name: self._view.asks_by_route(name) for name in self.config.name_servers}
