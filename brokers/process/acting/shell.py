"""Carries out what the rules of a set without controllers say (PROTOCOL 7.2, 7.3).

Responsible for: telling the machine what happens (time, answers, notices, links), doing what it
says in its order, calls beside each other. Refuses to know: when who acts, how special services
work.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TypeVar

from brokers.acting import effects as fx
from brokers.acting.config import ActingConfig
from brokers.acting.core import ActingCore
from brokers.acting.ha_links import HaLink
from brokers.acting.messages import HaInfo, MinIdNotice, Registered
from brokers.acting.reverse_sync import decide
from brokers.clock import Clock
from brokers.process.acting.calls import ActingCalls
from brokers.process.acting.tables import OwnTables
from brokers.remoting.addresses import split_address
from brokers.replica.core_port import Core
from brokers.replica.fixed.core import FixedCore

TICK_MS = 200
OVER_MS = 2_500
"""906 is answered before its asker gives up (3 s): 0, or to ask once more."""
T = TypeVar("T")
REPORTED = frozenset(
    (
        *("MinBrokerIdChanged", "ActingBegan", "ActingOver", "MasterExpelled"),
        *("PreOnlineOver", "PreOnlineWithoutMember"),
    )
)
"""Broker events; other facts of the machine stand in the log."""
_COLUMNS = {"min_id": "min_broker_id", "member": "member_broker_id"}

_log = logging.getLogger("regent.broker.acting")


@dataclass(frozen=True, slots=True)
class ActingHooks:
    """What the broker around does. `register()`: at every name server, how many took it.
    `special(on)`: a slave's special services; `over(limit in ms)`: whether those that were switched
    off are over. `act(on)`: a slave serves in place of its master, or
    no more. `hold()`, `resume()`: a master leaves its role, and takes it up again (LogError,
    OSError: it cannot). `forget`, `follow`: a slave's master. `look_again()`: held pulls.
    `members(by id)`: who is registered. `alive(count)`: what a write counts on.
    """

    register: Callable[[], Awaitable[int]]
    special: Callable[[bool], None]
    over: Callable[[int], Awaitable[bool]]
    act: Callable[[bool], None]
    hold: Callable[[], None]
    resume: Callable[[], None]
    forget: Callable[[str], None]
    follow: Callable[[str, str | None], None]
    look_again: Callable[[], None]
    members: Callable[[Mapping[int, str]], None]
    alive: Callable[[int], None]
    report: Callable[[str, Mapping[str, object]], None]


class ActingShell:
    """One broker's. `replica()`: its core, None before it has one; `opened_end`: where the log
    ended when it was opened, in bytes; `hosts_of(address)`: numbers of the host of a member, where
    its name was looked up.
    """

    def __init__(
        self,
        config: ActingConfig,
        clock: Clock,
        calls: ActingCalls,
        tables: OwnTables,
        hooks: ActingHooks,
        replica: Callable[[], Core | None],
        *,
        opened_end: int,
        hosts_of: Callable[[str], frozenset[str]] = lambda address: frozenset(),
    ) -> None:
        self.core = ActingCore(
            config, clock.now_ms(), nothing_to_lose=opened_end == 0 and tables.empty
        )
        self._config, self._clock = config, clock
        self._hooks = hooks
        self._calls, self._tables = calls, tables
        self._replica, self._opened_end = replica, opened_end
        self._hosts_of = hosts_of
        self._under_way: set[asyncio.Task[None]] = set()
        self._registering = 0
        self._named: Registered | None = None
        self._asking_master = False
        self._error: BaseException | None = None
        self._acted, self._smallest = False, (0, "")  # as told last

    # -- what the broker asks ----------------------------------------------------------------------

    @property
    def isolated(self) -> bool:
        """Nobody is to see this broker yet, or any more."""
        return self.core.isolated

    def may_register(self) -> bool:
        """Who was dropped finds out first whether somebody acted: a master registers by itself only
        where it was named a moment ago, and else when the machine says so.
        """
        if self.core.isolated:
            return False
        return self._registering > 0 or self.core.may_register(self._clock.now_ms())

    def may_deliver(self) -> bool:
        """Whether the special services of a master may put anything now. A slave's are switched:
        here, where a master has just written something that would leave, or behind a pause of the
        process.
        """
        now_ms = self._clock.now_ms()
        if self._config.is_master:
            return self.core.delivers(now_ms)
        core = self._replica()
        if isinstance(core, FixedCore):
            self._do(self.core.log_ends(core.log_end, now_ms))
        return True

    # -- what happens ------------------------------------------------------------------------------

    async def run(self) -> None:
        """For as long as the broker runs; the ports listen."""
        try:
            self._do(self.core.start(self._clock.now_ms()))
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                if self._error is not None:
                    raise self._error
                now_ms = self._clock.now_ms()
                self._do(self.core.tick(now_ms, random.random()))
                self._look_at_links()
        finally:
            for task in self._under_way:
                task.cancel()

    def notice(self, notice: MinIdNotice) -> None:
        """905."""
        self._do(self.core.min_id_notice(notice, self._clock.now_ms()))

    def exchange(self, info: HaInfo) -> HaInfo:
        """906: the answer. ValueError: it names what is no address."""
        if info.ha_address is not None:
            split_address(info.ha_address)  # ValueError: nobody can link there
        now_ms = self._clock.now_ms()
        answer, effects = self.core.exchange(info, self._opened_end, now_ms)
        self._do(effects)
        return answer

    async def tells_all(self) -> bool:
        """Whether the tables say everything that was delivered while this slave acted; False: some
        of it is under way still.
        """
        return self.core.delivers(self._clock.now_ms()) or await self._hooks.over(OVER_MS)

    def named(self, master_address: str, ha_address: str) -> None:
        """The answer to a registration names a master."""
        try:
            split_address(ha_address)
        except ValueError:
            return
        self._named = Registered(master_address, ha_address)
        if not self._registering:
            self._do(self.core.registered(self._named, self._clock.now_ms()))

    def _look_at_links(self) -> None:
        core, now_ms = self._replica(), self._clock.now_ms()
        if not isinstance(core, FixedCore):
            return
        if core.master is not None:
            links = [
                HaLink(key, one.host, one.opened_ms, one.acked is not None, one.heard_ms)
                for key, one in core.master.links.items()
            ]
            hosts = {one: self._hosts_of(one) for one in self.core.members.values()}
            self._do(self.core.links_are(links, hosts, now_ms, random.random()))
        if core.slave is not None:
            peer = core.slave.ha_address or ""
            seen = core.slave.master_seen(now_ms)
            heard_ms = now_ms - (seen.read_ms_ago or 0)
            told = self.core.own_link(core.slave.follows, peer, heard_ms, now_ms, random.random())
            self._do(told)

    # -- what is done ------------------------------------------------------------------------------

    def _do(self, effects: list[fx.Effect]) -> None:
        """In their order. Calls begin and are answered later. Who acts serves before it delivers,
        and delivers no more before it serves no more.
        """
        acts = self.core.acts and not self.core.isolated
        if acts:
            self._hooks.act(True)
        for effect in effects:
            self._one(effect)
        if not acts:
            self._hooks.act(False)
        if effects:
            self._note_state()

    def _one(self, effect: fx.Effect) -> None:
        match effect:
            case fx.SpecialServices(on, reason):
                _log.info("special services %s: %s", "on" if on else "off", reason)
                if not self._config.is_master:
                    self._hooks.special(on)
            case fx.BumpVersions(step):
                self._tables.bump(step)
            case fx.ForgetMaster(address):
                self._hooks.forget(address)
            case fx.FollowMaster(address, ha_address):
                self._hooks.follow(address, ha_address)
            case fx.RerunHeldPulls():
                self._hooks.look_again()
            case fx.AliveReplicas(count):
                self._hooks.alive(count)
            case fx.Fence(reason):
                _log.error("this master was taken for dead (%s): it serves no more for now", reason)
                self._hooks.hold()
            case fx.WentOnline(min_id, min_address):
                self._online(min_id, min_address)
            case fx.Report(kind, fields):
                self._report(kind, {_COLUMNS.get(key, key): to for key, to in fields.items()})
            case fx.StoreFlushedOffset():
                pass  # RocketMQ shows it to people; nothing is decided by it
            case _:
                self._call(effect)

    def _report(self, kind: str, fields: Mapping[str, object]) -> None:
        _log.info("%s: %s", kind, dict(fields))
        if kind in REPORTED:
            self._hooks.report(kind, fields)

    def _note_state(self) -> None:
        """What changed since the last look is a fact, and so is who acts."""
        core = self.core
        acts, smallest = core.acts and not core.isolated, (core.min_id, core.min_address or "")
        if acts == self._acted and smallest == self._smallest:
            return
        found = {"min_broker_id": smallest[0], "min_address": smallest[1]}
        if smallest != self._smallest:
            self._report("MinBrokerIdChanged", found)
        if acts and not self._acted:
            self._report("ActingBegan", {"min_address": self._config.place.address})
        if self._acted and not acts:
            self._report("ActingOver", found)
        self._acted, self._smallest = acts, smallest

    def _online(self, min_id: int, min_address: str) -> None:
        _log.info("online: the smallest of the set is broker %d at %s", min_id, min_address)
        if self._config.is_master:
            self._hooks.resume()

    def _call(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Register():
                self._spawn(self._register())
            case fx.SendHeartbeat(compat):
                self._spawn(self._calls.beat(compat))
            case fx.AskMembers(compat, asked_ms):
                for name, by_route in compat.items():
                    self._spawn(self._ask_members(name, by_route, asked_ms))
            case fx.PushHaInfo(token, address, info):
                self._spawn(self._told(self._calls.push(address, info), self.core.pushed, token))
            case fx.AskHaInfo(token, address):
                told = self.core.ha_info_told
                self._spawn(self._told(self._calls.ha_info(address), told, token))
            case fx.FetchTables(token, address):
                fetched = self.core.fetched
                self._spawn(self._told(self._calls.tables(address), fetched, token))
            case fx.TakeTables():
                self._hooks.hold()  # what is served until then would not know what is taken
                self._spawn(self._told(self._take(effect), self.core.taken, effect.token))
            case _:
                raise AssertionError(f"{effect} is another machine's")

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error

    async def _told(
        self, call: Awaitable[T], tell: Callable[[int, T, int, float], list[fx.Effect]], token: int
    ) -> None:
        found = await call
        self._do(tell(token, found, self._clock.now_ms(), random.random()))

    async def _register(self) -> None:
        self._registering += 1
        self._named = None
        try:
            taken = await self._hooks.register()
        finally:
            self._registering -= 1
        answer = (self._named or Registered()) if taken else None
        self._do(self.core.registered(answer, self._clock.now_ms()))

    async def _ask_members(self, name_server: str, compat: bool, asked_ms: int) -> None:
        answer = await self._calls.members(name_server, compat=compat)
        now_ms = self._clock.now_ms()
        found = self.core.members_answered(name_server, answer, asked_ms, now_ms, random.random())
        self._hooks.members(self.core.members)
        self._do(found)
        self._seek_master()

    def _seek_master(self) -> None:
        """A master that this slave does not follow yet, for it registered later."""
        core = self.core
        master = core.members.get(0)
        if (
            self._config.is_master
            or core.isolated
            or core.min_id != 0
            or master in (None, core.follows)
            or self._asking_master
        ):
            return
        assert master is not None
        self._asking_master = True
        self._spawn(self._ask_master(master))

    async def _ask_master(self, address: str) -> None:
        try:
            info = await self._calls.ha_info(address)
        finally:
            self._asking_master = False
        if info is not None and info.ha_address is not None and self.core.min_id == 0:
            try:
                self.exchange(HaInfo(info.ha_address, None, address))
            except ValueError as error:
                _log.warning("%s takes links nowhere: %s", address, error)

    async def _take(self, effect: fx.TakeTables) -> bool:
        decision = decide(self._tables.now(), effect.tables)
        for one in decision.verdicts:
            _log.info(
                "%s of broker %d: %d taken, %s", one.table, one.member_id, one.taken, one.reason
            )
        try:
            await self._tables.take(decision)
        except OSError as error:
            _log.error("what members know cannot be kept: %s", error)
            return False
        return True
