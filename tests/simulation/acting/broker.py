"""One broker of the world: the product's machines, and a store that is a few lists.

Responsible for: carrying out effects. A log of special messages that slaves copy, places, the
offset of one group. Refuses to know: rules, and whether anything is right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from brokers.acting import effects as fx
from brokers.acting.config import ActingConfig
from brokers.acting.core import ActingCore
from brokers.acting.escape import Escape
from brokers.acting.forms import Kind
from brokers.acting.ha_links import HaLink
from brokers.acting.lock_messages import LockRequest
from brokers.acting.lock_quorum import LockQuorum, others_of
from brokers.acting.messages import CouldNotAnswer, HaInfo, MemberAnswer, Members, Place
from brokers.acting.messages import Registered as MasterTold
from brokers.acting.reverse_sync import MemberTables, Places, Tables, decide
from brokers.acting.targets import Route
from brokers.process.acting.shell import OVER_MS
from brokers.service.clients.queue_locks import Queue, QueueLocks
from brokers.service.escape.bridge import SETTLE_MS
from brokers.service.tables.data_version import DataVersion
from brokers.store.log.records import MessageFields, host_bytes
from tests.simulation.acting.pops import POPPED, REVIVED, WHEEL, Pops, Reply, Stored

if TYPE_CHECKING:
    from tests.simulation.acting.world import World

SET, CLUSTER, TOPIC, GROUP = "broker-a", "c1", "T", "T@g"
COPY_TABLES_MS, LINK_MS, TICK_MS = 3_000, 500, 200
HOST = host_bytes("10.0.0.2", 10911)
BEGUN = DataVersion(0, 1, 1)
USUAL = (
    fx.AskMembers, fx.SendHeartbeat, fx.AliveReplicas, fx.SendAway, fx.AskRoute, fx.SendLock,
    fx.AnswerLock, fx.StoreFlushedOffset,
)  # fmt: skip
"""Effects that a trace leaves out, for they come all the time."""


class Broker:
    """Of the set that is watched. `log`: (due ms) of special messages; `place`: of the first that
    is not delivered, by the table; `offset`: of the one group.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world, self.net = world, world.net
        self.number = number
        self.name = f"a{number}"
        self.host = "10.0.0.1" if world.one_host else f"10.0.0.{number + 1}"
        port = 10_911 + 10 * number
        self.address, self.ha_address = f"{self.host}:{port}", f"{self.host}:{port + 1}"
        self.up, self.life, self.paused_until_ms = False, 0, 0
        self.log: list[int] = []
        self.delays = Places(BEGUN, {("", 1): 0, WHEEL: 0})
        self.offsets = Places(BEGUN, {(GROUP, 0): 0, POPPED: 0, REVIVED: 0})
        self.pops = Pops(self)
        self.history: list[tuple[int, int, int]] = []  # (ms, offset, place)

    def start(self) -> None:
        """A new process on the old disk."""
        now_ms = self.net.now_ms
        self.up, self.life = True, self.life + 1
        names = tuple(one.name for one in self.world.name_servers)
        place = Place(CLUSTER, SET, self.number, self.address)
        config = ActingConfig(place, self.ha_address, names, total_replicas=3, compat=False)
        self.core = ActingCore(config, now_ms, nothing_to_lose=not self.log)
        self.escape = Escape(allowed=True, has_local_master=lambda: False)
        forgot = now_ms if self.life > 1 else None
        self.quorum = LockQuorum(
            QueueLocks(), f"{self.name}.{self.life}", 3, strict=True, forgot_at_ms=forgot
        )
        self.ends_ms: int | None = None  # until then puts under way are waited for
        self.comers: list[tuple[int, Callable[[HaInfo | None], None]]] = []
        self.waiting: dict[str, Callable[[tuple[Queue, ...]], None]] = {}
        self.link_to: str | None = None
        self.heard_link_ms: dict[int, int] = {}
        self.next = self.place
        self.copies_due_ms = self.links_due_ms = now_ms
        self.online_since_ms: int | None = None
        self.pops.start()
        self.do(self.core.start(now_ms))
        self._run(self.life)

    def stop(self) -> None:
        """The process is gone; name servers see its connection close."""
        self.up = False
        for one in self.world.name_servers:
            self.net.deliver(self, one, partial(one.closed, self.number, self.life))

    @property
    def place(self) -> int:
        return self.delays.places["", 1]

    @property
    def offset(self) -> int:
        return self.offsets.places[GROUP, 0]

    @property
    def delivers(self) -> bool:
        return self.net.alive(self) and self.core.delivers(self.net.now_ms)

    # -- what happens each moment ------------------------------------------------------------------

    def _run(self, life: int) -> None:
        if not self.up or self.life != life:
            return
        now_ms = self.net.now_ms
        if now_ms < self.paused_until_ms:
            self.net.at(self.paused_until_ms, lambda: self._run(life))
            return
        self.do(self.core.tick(now_ms, self.net.chance.random()))
        self.do(self.quorum.tick(now_ms))
        if self.core.config.is_master:
            self.do(self.core.links_are(self._links(), {}, now_ms, 0.5))
        elif now_ms >= self.links_due_ms:
            self.links_due_ms = now_ms + LINK_MS
            self._copy_log()
        if not self.core.config.is_master and now_ms >= self.copies_due_ms:
            self.copies_due_ms = now_ms + COPY_TABLES_MS
            self._copy_tables()
        if not self.core.config.is_master:
            self.do(self.core.log_ends(len(self.log), now_ms))
        if self.core.delivers(now_ms):
            self._deliver()
        self._settle()
        self.net.at(now_ms + TICK_MS, lambda: self._run(life))

    def _links(self) -> list[HaLink]:
        return [
            HaLink(number, self.world.brokers[number].host, heard, True, heard)
            for number, heard in self.heard_link_ms.items()
            if self.net.now_ms - heard < 20_000
        ]

    def _copy_log(self) -> None:
        master = self.world.brokers[0]
        if self.link_to is None or not master.up:
            self._link_is(False)
            return
        own, end = self.number, len(self.log)

        stored = self.pops.stored
        had = len(stored.messages), len(stored.wheel), len(stored.revive)

        def serve() -> tuple[list[int], Stored]:
            master.heard_link_ms[own] = self.net.now_ms
            return master.log[end : end + 50], stored.behind(master.pops.stored)

        def then(more: tuple[list[int], Stored] | None) -> None:
            now = len(stored.messages), len(stored.wheel), len(stored.revive)
            if more is not None and len(self.log) == end and now == had:
                self.log += more[0]
                stored.add(more[1])
            self._link_is(more is not None)

        self.net.call(self, master, serve, then)

    def _link_is(self, up: bool) -> None:
        peer, now_ms = self.world.brokers[0].ha_address if up else "", self.net.now_ms
        self.do(self.core.own_link(up and self.link_to is not None, peer, now_ms, now_ms, 0.5))

    def _copy_tables(self) -> None:
        """As RocketMQ's slaves: the master's word counts, whatever the version."""
        master = self.world.brokers[0]
        if self.core.follows is None or self.core.acts or not master.up:
            return

        def then(told: tuple[Places, Places] | None) -> None:
            if told is not None and self.core.follows is not None and not self.core.acts:
                self.delays, self.offsets = told
                self._note()

        self.net.call(self, master, lambda: (master.delays, master.offsets), then)

    def _deliver(self) -> None:
        now_ms = self.net.now_ms
        while self.next < len(self.log) and self.log[self.next] <= now_ms:
            if self.number == 0:
                self.world.delivered(self.next, self.name)
            elif not self.escape.offer(
                "level", self.next, Kind.LEVEL, MessageFields(TOPIC, 0, b"m", b"", 0, HOST, HOST)
            ):
                break
            self.next += 1
        self.pops.turn(now_ms)
        if self.number:
            self.do(self.escape.tick(now_ms, self.net.chance.random()))
        self._moved()

    def _moved(self) -> None:
        to = self.escape.safe("level", self.next) if self.number else self.next
        if to > self.place:
            self.goes_on(("", 1), to)
            self._note()

    def goes_on(self, key: tuple[str, int], to: int) -> None:
        """A place, in the table that has it; never back."""
        table = self.delays if key in self.delays.places else self.offsets
        if to <= table.places[key]:
            return
        moved = Places(table.version.changed(self.net.now_ms), {**table.places, key: to})
        if table is self.delays:
            self.delays = moved
        else:
            self.offsets = moved

    def _note(self) -> None:
        self.history.append((self.net.now_ms, self.offset, self.place))

    def commit(self, offset: int) -> bool:
        """Of the group, by its client; False: it is to ask for a route again. What is the master's
        a slave that does not act passes on, and keeps nothing of it: its table is the master's.
        """
        if self.number and not self.core.acts:
            master = self.world.brokers[0]
            if self.core.follows == master.address:
                self.net.counts["commit.passed_on"] += 1
                self.net.call(self, master, lambda: master.commit(offset), lambda done: None)
            return False
        if self.core.isolated:
            return False
        if offset > self.offset:
            self.goes_on((GROUP, 0), offset)
            self._note()
        return True

    def produce(self, due_ms: int) -> bool:
        if self.core.isolated or self.number:
            return False
        self.log.append(due_ms)
        self.pops.stored.messages.append(self.net.now_ms)
        return True

    def of_pops(self, ask: Callable[[Pops, Reply], None], reply: Reply) -> None:
        """A request of a client: a slave that does not act passes it on."""
        master = self.world.brokers[0]
        if self.number and not self.core.acts:
            if self.core.follows == master.address:
                self.net.ask(self, master, lambda then: master.of_pops(ask, then), reply)
        elif self.core.isolated:
            reply(None)
        else:
            ask(self.pops, reply)

    # -- effects -----------------------------------------------------------------------------------

    def do(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            self._do(effect)

    def _do(self, effect: fx.Effect) -> None:
        if not isinstance(effect, USUAL):
            self.net.note(f"{self.name} ({self.offset}, {self.place}): {effect}")
        match effect:
            case fx.AskMembers():
                self._ask(effect)
            case fx.SendHeartbeat():
                for one in self.world.name_servers:
                    beat = partial(one.beat, self.number, self.life, self.address)
                    self.net.deliver(self, one, beat)
            case fx.Register():
                self._register()
            case fx.SpecialServices():
                self._switch(effect.on)
            case fx.BumpVersions():
                self.delays, self.offsets = (
                    _ahead(self.delays, effect),
                    _ahead(self.offsets, effect),
                )
            case fx.ForgetMaster():
                self.link_to = None
                self.world.brokers[0].heard_link_ms.pop(self.number, None)
            case fx.FollowMaster():
                self.link_to = effect.ha_address
            case fx.AskHaInfo() | fx.PushHaInfo() | fx.FetchTables() | fx.TakeTables():
                self._way_back(effect)
            case fx.SendAway():
                self._send_away(effect)
            case fx.AskRoute():
                self._route(effect.topic)
            case fx.SendLock():
                self._send_lock(effect)
            case fx.AnswerLock():
                self.waiting.pop(effect.round_id, lambda queues: None)(effect.queues)
            case fx.Report():
                self.net.counts[effect.kind] += 1
                if effect.kind == "PreOnlineOver":
                    self.world.left_out = tuple(effect.fields["left_out"])  # type: ignore[arg-type]
            case _:
                pass

    def _switch(self, on: bool) -> None:
        if on:
            self._over()
            self.next = min(self.place, len(self.log))
            self.pops.begins()
        elif not self.number:
            self._moved()
            self.pops.ends()
        else:
            self.escape.hold()
            self.ends_ms = self.net.now_ms + SETTLE_MS
            self._settle()

    def _settle(self) -> None:
        """As `SpecialServices` and the answer to 906 do: over when nothing is under way."""
        now_ms = self.net.now_ms
        if self.ends_ms is not None and (not self.escape.in_flight or now_ms >= self.ends_ms):
            self._over()
        for until_ms, reply in list(self.comers):
            if self.ends_ms is None or now_ms >= until_ms:
                self.comers.remove((until_ms, reply))
                reply(HaInfo() if self.ends_ms is None else None)

    def _over(self) -> None:
        if self.ends_ms is not None:
            self.ends_ms = None
            self._moved()
            self.pops.ends()
            self.escape.forget()

    def _ask(self, effect: fx.AskMembers) -> None:
        for one in self.world.name_servers:

            def then(answer: MemberAnswer | None, name: str = one.name) -> None:
                heard = CouldNotAnswer("silence") if answer is None else answer
                now_ms, chance = self.net.now_ms, self.net.chance.random()
                self.do(self.core.members_answered(name, heard, effect.asked_ms, now_ms, chance))

            self.net.call(self, one, one.members, then)

    def _register(self) -> None:
        answers: list[MasterTold | None] = []

        def then(answer: MasterTold | None) -> None:
            answers.append(answer)
            if len(answers) == len(self.world.name_servers):
                taken = [each for each in answers if each is not None]
                named = [each for each in taken if each.master_address]
                first = named[0] if named else taken[0] if taken else None
                self.do(self.core.registered(first, self.net.now_ms))

        for one in self.world.name_servers:
            self.net.call(self, one, lambda one=one: one.register(self), then)  # type: ignore[misc]

    def _way_back(
        self, effect: fx.AskHaInfo | fx.PushHaInfo | fx.FetchTables | fx.TakeTables
    ) -> None:
        core, token = self.core, effect.token
        now, chance = (lambda: self.net.now_ms), self.net.chance.random()
        if isinstance(effect, fx.TakeTables):
            self._take(effect.tables)
            self.do(core.taken(token, True, now(), chance))
            return
        other = self.world.broker_at(effect.address)
        if isinstance(effect, fx.AskHaInfo):
            self.net.call(
                self, other, lambda: other.exchange(HaInfo()),
                lambda info: self.do(core.ha_info_told(token, info, now(), chance)),
            )  # fmt: skip
        elif isinstance(effect, fx.PushHaInfo):
            mine = effect.info
            self.net.ask(
                self, other, lambda reply: other.told(mine, reply),
                lambda info: self.do(core.pushed(token, info is not None, now(), chance)),
            )  # fmt: skip
        else:
            self.net.call(
                self, other, lambda: Tables(other.offsets, other.delays),
                lambda tables: self.do(core.fetched(token, tables, now(), chance)),
            )  # fmt: skip

    def exchange(self, info: HaInfo) -> HaInfo:
        answer, effects = self.core.exchange(info, 0, self.net.now_ms)
        self.do(effects)
        return answer

    def told(self, info: HaInfo, reply: Callable[[HaInfo | None], None]) -> None:
        """Of one that comes back."""
        self.exchange(info)
        self.comers.append((self.net.now_ms + OVER_MS, reply))
        self._settle()

    def _take(self, tables: tuple[MemberTables, ...]) -> None:
        decision = decide(Tables(self.offsets, self.delays), tables)
        self.offsets = decision.offsets or self.offsets
        self.delays = decision.delays or self.delays

    def _send_away(self, effect: fx.SendAway) -> None:
        item = self.escape._by_token[effect.token]
        other, what = self.world.other_set, (item.source, item.place)

        def then(code: int | None) -> None:
            now_ms, chance = self.net.now_ms, self.net.chance.random()
            if self.escape.answered(effect.token, code, now_ms, chance) is not None:
                self._moved()
                self._settle()

        if item.source == "level":
            self.net.call(self, other, lambda: other.take(item.place, self.name), then)
        else:
            record = self.pops.leaving[what]
            self.net.call(self, other, lambda: other.take_of_pops(record), then)

    def _route(self, topic: str) -> None:
        def then(answer: Members | None) -> None:
            route = None if answer is None else Route((("broker-b", "b:1", 4),))
            self.escape.route_told(topic, route, self.net.now_ms)

        one = self.net.chance.choice(self.world.name_servers)
        self.net.call(self, one, one.members, then)

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, client: str, queue: Queue, then: Callable[[tuple[Queue, ...]], None]) -> None:
        others = others_of(self.core.members, self.number)
        request = LockRequest("G", client, (queue,))
        name = f"{self.name}.{self.life}-{self.quorum._number + 1}"
        self.waiting[name] = then
        round_id, effects = self.quorum.lock(request, others, self.net.now_ms)
        assert round_id == name
        self.do(effects)

    def _send_lock(self, effect: fx.SendLock) -> None:
        other = self.world.broker_at(effect.address)
        request = LockRequest(effect.group, effect.client_id, effect.queues, True, effect.round_id)
        if not effect.lock:
            self.net.deliver(
                self, other, lambda: other.do(other.quorum.unlock(request, (), self.net.now_ms))
            )
            return
        self.net.call(
            self, other, lambda: other.quorum.vote_for(request, self.net.now_ms),
            lambda held: self.do(
                self.quorum.voted(
                    effect.round_id, effect.address, held, effect.round_id if held else ""
                )
            ),
        )  # fmt: skip


def _ahead(table: Places, effect: fx.BumpVersions) -> Places:
    version = table.version
    ahead = DataVersion(version.state_version, version.timestamp_ms, version.counter + effect.step)
    return Places(ahead, table.places)
