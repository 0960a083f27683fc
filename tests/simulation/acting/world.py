"""A set of three brokers without a controller, a second set, two name servers, clients: one seed,
virtual time.

Responsible for: accidents, and judging. Refuses to know: rules; it drives the product's machines
and its name server's table.

Checked: while name servers agree, or a master and who acts for it reach one another, two brokers
never deliver at the same time for longer than WINDOW_MS; a master that begins to deliver has all
places that members had, so that nothing goes back and nothing is delivered once
more but what was under way; nothing due is lost; no two clients believe to hold one queue.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from brokers.acting.messages import Members, Registered
from brokers.service.clients.queue_locks import Queue
from processors.nameserver.records import DataVersion, Registration, TopicQueues
from processors.nameserver.routes import RouteTable
from tests.simulation.acting.broker import CLUSTER, SET, TOPIC, Broker
from tests.simulation.acting.network import Network
from tests.simulation.acting.pops import CheckPoint, Pops, Record, Reply, Reviver, Stored

WINDOW_MS = 10_000 + 1_500
"""Until one that is not confirmed stops, and a tick."""
MOMENTS_MS = 5_000
"""A call, and the age that tables may have when they are taken."""
LOOK_MS = 100
SCAN_MS, NOT_ACTIVE_MS = 5_000, 10_000
QUEUE: Queue = (SET, TOPIC, 0)
BELIEVED_MS = 30_000
DELAYS_MS = (2_000, 30_000)
"""Of the level for which messages wait."""
FAULTS = ("kill", "start", "cut", "cut", "mend", "pause", "names", "other")
HEALED_MS = 150_000


class Wrong(AssertionError):
    """A promise is broken; the text names it first."""


class NameServer:
    """The product's table, and who closed which connection."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.up, self.life, self.paused_until_ms = True, 1, 0
        self.table, self.began_ms = RouteTable(), -60_000

    def restart(self) -> None:
        self.life += 1
        self.table, self.began_ms = RouteTable(), self.world.net.now_ms

    def beat(self, number: int, life: int, address: str) -> None:
        self.table.heartbeat(CLUSTER, address, _connection(number, life), self.world.net.now_ms)

    def closed(self, number: int, life: int) -> None:
        self.table.remove(self.table.connection_closed(_connection(number, life)))

    def register(self, broker: Broker) -> Registered:
        topics = {TOPIC: TopicQueues(4, 4, 6), "S": TopicQueues(1, 1, 6)}
        registration = Registration(
            CLUSTER, SET, broker.number, broker.address, broker.ha_address,
            DataVersion(0, 1, broker.life), topics, NOT_ACTIVE_MS, True,
        )  # fmt: skip
        connection = _connection(broker.number, broker.life)
        found = self.table.register(registration, connection, self.world.net.now_ms)
        return Registered(found.master_address, found.master_ha_address)

    def members(self) -> Members:
        group = self.table.member_group(CLUSTER, SET)["brokerMemberGroup"]
        assert isinstance(group, dict)
        known = {int(key): value for key, value in group["brokerAddrs"].items()}
        return Members(known, self.world.net.now_ms - self.began_ms)

    def scan(self) -> None:
        self.table.remove(self.table.overdue(self.world.net.now_ms))


def _connection(number: int, life: int) -> int:
    """Of a broker's process: a later one has a larger number."""
    return number * 1_000 + life


class OtherSet:
    """The master of another set, which takes what escapes."""

    def __init__(self, world: World) -> None:
        self.world, self.name = world, "b0"
        self.up, self.life, self.paused_until_ms = True, 1, 0
        self.stored = Stored()
        self.reviver = Reviver(self.stored, 0, 0)

    def take(self, place: int, by: str) -> int:
        if self.world.net.chance.random() < self.world.refusals:
            return 2
        self.world.delivered(place, by)
        return 0

    def take_of_pops(self, record: Record | int) -> int:
        """A check point or an acknowledgement waits here for its time; a copy is there."""
        if self.world.net.chance.random() < self.world.refusals:
            return 2
        if isinstance(record, int):
            self.world.came_again(record)
        elif isinstance(record, CheckPoint):
            self.stored.wait(record, record.visible_ms)
        else:
            self.stored.wait(record, self.world.net.now_ms)
        return 0

    def turn(self) -> None:
        """What comes back is fetched of any broker of its set."""
        world, now_ms = self.world, self.world.net.now_ms
        if not self.up:
            return
        for index, record in self.reviver.due(now_ms):
            self.reviver.done[index] = -1
            self.stored.revive.append(record)
        self.reviver.read(now_ms)
        if not any(world.net.alive(one) and world.net.reaches(self, one) for one in world.brokers):
            return
        while (known := self.reviver.points.due(now_ms)) is not None:
            for offset in known.left:
                world.came_again(offset)
            self.reviver.points.settle(known, 0)


class Client:
    """A consumer that asks for routes, commits, and wants the lock of a queue."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.up, self.life, self.paused_until_ms = True, 1, 0
        self.offset = 0
        self.believes_until_ms = -1
        self.goes_to: Broker | None = None

    def turn(self) -> None:
        net = self.world.net
        one = net.chance.choice(self.world.name_servers)
        net.call(self, one, one.members, self._routed)
        broker = self.goes_to
        if broker is not None and broker.up:
            self.offset += 1
            net.call(self, broker, lambda: broker.commit(self.offset), lambda done: None)
            self._ask(lambda pops, reply: pops.pop(reply), self._popped)
            if net.chance.random() < 0.3:
                self._lock(net.chance.choice(self.world.brokers))

    def _ask(
        self, ask: Callable[[Pops, Reply], None], then: Callable[[CheckPoint | bool | None], None]
    ) -> None:
        broker = self.goes_to
        if broker is not None:
            self.world.net.ask(self, broker, lambda reply: broker.of_pops(ask, reply), then)

    def _popped(self, point: CheckPoint | bool | None) -> None:
        """Some are acknowledged, some later, and some never."""
        if not isinstance(point, CheckPoint):
            return
        for offset in point.offsets:
            self.world.net.counts["pop.given"] += 1
            chance = self.world.net.chance.random()
            if chance < 0.6:
                self._acknowledge(point, offset)
            elif chance < 0.8:
                self._change(point, offset)

    def _acknowledge(self, point: CheckPoint, offset: int) -> None:
        def answered(done: CheckPoint | bool | None) -> None:
            if done:
                self.world.net.counts["pop.acknowledged"] += 1
                self.world.popped.add(offset)

        self._ask(lambda pops, reply: pops.ack(point, offset, reply), answered)

    def _change(self, point: CheckPoint, offset: int) -> None:
        def changed(fresh: CheckPoint | bool | None) -> None:
            if isinstance(fresh, CheckPoint):
                self.world.net.counts["pop.changed"] += 1
                if self.world.net.chance.random() < 0.5:
                    self._acknowledge(fresh, offset)

        self._ask(lambda pops, reply: pops.change(point, offset, reply), changed)

    def _routed(self, answer: Members | None) -> None:
        if answer is not None and answer.addresses:
            address = answer.addresses[min(answer.addresses)]
            self.goes_to = self.world.broker_at(address)

    def _lock(self, broker: Broker) -> None:
        net, asked_ms = self.world.net, self.world.net.now_ms

        def answered(queues: tuple[Queue, ...]) -> None:
            net.deliver(broker, self, lambda: self._told(QUEUE in queues, asked_ms))

        net.deliver(self, broker, lambda: broker.lock(self.name, QUEUE, answered))

    def _told(self, held: bool, asked_ms: int) -> None:
        now_ms = self.world.net.now_ms
        # RocketMQ's clients count from the answer; one that took long is dropped by them.
        if now_ms - asked_ms <= 3_000:
            self.believes_until_ms = now_ms + BELIEVED_MS if held else -1


class World:
    """`seed` decides everything. `told(ms, text)` hears what happens. `one_host`: all brokers are
    on it; None: by chance.
    """

    def __init__(
        self,
        seed: int,
        told: Callable[[int, str], None] = lambda ms, text: None,
        *,
        one_host: bool | None = None,
    ) -> None:
        self.net = Network(Random(seed), told)
        self.name_servers = [NameServer(self, "n1"), NameServer(self, "n2")]
        by_chance = self.net.chance.random() < 0.5
        self.one_host = by_chance if one_host is None else one_host
        self.net.counts["world.one_host"] += self.one_host
        self.brokers = [Broker(self, number) for number in range(3)]
        self.other_set = OtherSet(self)
        self.clients = [Client(self, "c1"), Client(self, "c2")]
        self.refusals = 0.1
        self.delay_ms = self.net.chance.choice(DELAYS_MS)
        self.left_out: tuple[int, ...] = ()
        self.deliveries: dict[int, list[tuple[int, str]]] = {}
        self.gone: dict[str, int] = {}
        self.popped: set[int] = set()  # acknowledged, or back for another try
        self._both_since_ms: int | None = None
        self._named_since_ms: dict[int, int] = {}
        self._delivered_before = False

    def broker_at(self, address: str) -> Broker:
        return next(one for one in self.brokers if one.address == address)

    # -- a run -------------------------------------------------------------------------------------

    def run(self, accidents: int = 12) -> World:
        for one in self.brokers:
            one.start()
        self.spend(60_000)
        for _ in range(accidents):
            self._accident()
            self.spend(self.net.chance.choice((2_000, 8_000, 20_000, 45_000, 80_000)))
        self._heal()
        self.spend(HEALED_MS)
        self._nothing_lost()
        self.net.counts["world.settled"] += 1
        return self

    def _accident(self) -> None:
        chance, net = self.net.chance, self.net
        kind = chance.choice(FAULTS)
        net.counts[f"fault.{kind}"] += 1
        broker = self.brokers[0] if chance.random() < 0.5 else chance.choice(self.brokers)
        nodes = [*self.brokers, *self.name_servers, self.other_set]
        if kind == "kill" and broker.up:
            broker.stop()
        elif kind == "start":
            for one in self.brokers:
                if not one.up:
                    one.start()
        elif kind == "cut":
            for other in chance.sample(nodes, chance.randint(1, 4)):
                if other is not broker:
                    net.cuts.add(frozenset((broker.name, other.name)))
        elif kind == "mend":
            net.cuts.clear()
        elif kind == "pause":
            broker.paused_until_ms = net.now_ms + chance.choice((4_000, 13_000, 60_000))
        elif kind == "names":
            chance.choice(self.name_servers).restart()
            if chance.random() < 0.5 and broker.up:
                broker.stop()
                broker.start()
        elif kind == "other":
            self.other_set.up = not self.other_set.up
        net.note(f"{kind} of {broker.name}: {self._state()}")

    def _state(self) -> str:
        now_ms = self.net.now_ms
        down = [one.name for one in (*self.brokers, self.other_set) if not one.up]
        still = [one.name for one in self.brokers if one.up and now_ms < one.paused_until_ms]
        cuts = sorted("-".join(sorted(pair)) for pair in self.net.cuts)
        return f"down {down}, paused {still}, cut {cuts}"

    def _heal(self) -> None:
        self.net.cuts.clear()
        self.other_set.up = True
        for one in self.brokers:
            if not one.up:
                one.start()

    def spend(self, during_ms: int) -> None:
        """Clients, scans and looks go on meanwhile."""
        until_ms = self.net.now_ms + during_ms
        while self.net.now_ms < until_ms:
            now_ms = self.net.now_ms
            if now_ms % 1_000 == 0:
                for client in self.clients:
                    client.turn()
                if self.net.alive(self.brokers[0]):
                    self.brokers[0].produce(now_ms + self.delay_ms)
            if now_ms % SCAN_MS == 0:
                for server in self.name_servers:
                    server.scan()
            self.other_set.turn()
            self.net.run_until(now_ms + LOOK_MS)
            self._look()

    # -- judging -----------------------------------------------------------------------------------

    def _look(self) -> None:
        now_ms = self.net.now_ms
        reached = [one for one in self.name_servers if self.net.reaches(self.brokers[0], one)]
        named = {key for one in reached for key in one.members().addresses}
        self._named_since_ms = {key: self._named_since_ms.get(key, now_ms) for key in named}
        delivers = self.brokers[0].delivers
        if delivers and not self._delivered_before:
            self._master_delivers(self.brokers[0])
        self._delivered_before = delivers
        if self._two_deliver():
            if self._both_since_ms is None:
                self._both_since_ms = now_ms
            if now_ms - self._both_since_ms > WINDOW_MS:
                raise Wrong(f"two deliver: since {self._both_since_ms}, at {now_ms}")
        else:
            self._both_since_ms = None
        believers = [one.name for one in self.clients if now_ms < one.believes_until_ms]
        if len(believers) > 1:
            raise Wrong(f"two owners: {believers} at {now_ms}")

    def _two_deliver(self) -> bool:
        """And could know it."""
        deliver = [one for one in self.brokers if one.delivers]
        named = [set(one.members().addresses) for one in self.name_servers]
        master = self.brokers[0]
        talk = master in deliver and any(
            self.net.reaches(master, one) for one in deliver if one is not master
        )
        return len(deliver) > 1 and (named[0] == named[1] or talk)

    def delivered(self, place: int, by: str) -> None:
        """A special message was delivered, here or by another set's master for `by`."""
        self.net.counts["delivered.here" if by == self.brokers[0].name else "delivered.away"] += 1
        self.net.counts["delivered.twice"] += place in self.deliveries
        self.deliveries.setdefault(place, []).append((self.net.now_ms, by))

    def came_again(self, offset: int) -> None:
        """A copy of what was popped is there for another try."""
        self.net.counts["pop.revived"] += 1
        self.popped.add(offset)

    def _master_delivers(self, master: Broker) -> None:
        """It has what the members that it reaches, and could be told of, had some moments before:
        nothing goes back.
        """
        if self.left_out:
            return
        since_ms = self.net.now_ms - MOMENTS_MS
        for other in self.brokers[1:]:
            named_ms = self._named_since_ms.get(other.number, self.net.now_ms)
            if not (other.up and self.net.reaches(master, other) and named_ms <= since_ms):
                continue
            had = [(offset, place) for at_ms, offset, place in other.history if at_ms <= since_ms]
            if had and master.offset < max(offset for offset, _ in had):
                raise Wrong(f"offset back: {master.offset} of {other.name} {had[-1]}")
            if had and master.place < max(place for _, place in had):
                raise Wrong(f"place back: {master.place} of {other.name} {had[-1]}")

    def _nothing_lost(self) -> None:
        due_ms = self.net.now_ms - 30_000
        lost = [
            place
            for place, due in enumerate(self.brokers[0].log)
            if due <= due_ms and place not in self.deliveries
        ]
        if lost:
            raise Wrong(f"lost: {lost[:5]} of {len(self.brokers[0].log)}")
        produced = self.brokers[0].pops.stored.messages
        late = [key for key, at_ms in enumerate(produced) if at_ms <= due_ms - 30_000]
        if gone := [one for one in late if one not in self.popped]:
            raise Wrong(f"lost pops: {gone[:5]} of {len(late)}")
        online = [one.name for one in self.brokers if one.core.isolated]
        if online:
            raise Wrong(f"not online: {online}, {[one.core.waits_for for one in self.brokers]}")
