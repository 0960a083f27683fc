"""A group of replicas and its clients under one seed.

Responsible for: how many, of which kinds and settings; clients that send one entry after the other.
Refuses to know: accidents, and what has to hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.majority.entry import Entry
from brokers.majority.quorum.config import Durability, QuorumConfig
from brokers.majority.wire.codes import NOT_APPENDED, Code
from tests.simulation.majority.links import Links
from tests.simulation.majority.promises import Promises
from tests.simulation.majority.replica import Replica
from tests.simulation.majority.sim_log import SimulatedLog
from tests.simulation.world import World
from tests.support.majority_history import Told

GROUP = "g"
AWAY_MS = 4_000
"""After which a client looks for another leader: its answer is unknown."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`plain`: so many members say and hear no more than Java's. `base`: index of the entry that
    all logs begin with; None: they are empty. `readers`: clients that only read.
    """

    members: int = 3
    clients: int = 3
    plain: int = 0
    base: int | None = None
    batches: tuple[bool, ...] = (True,)
    weak: bool = False
    window_entries: int = 1_000
    window_bytes: int = 8 << 20
    preferred: tuple[str, ...] = ()
    late: bool = False
    readers: int = 2


def shape_of(world: World, *, loses_power: bool) -> Shape:
    """By chance. The weaker level only where no power is lost: there it promises as much."""
    members = world.chance.choice([3, 3, 3, 3, 5, 5, 1])
    return Shape(
        members,
        world.between(2, 4),
        world.chance.choice([0, 0, 1, 2]) if members > 1 else 0,
        world.chance.choice([None, None, (1 << 31) - 20]),
        world.chance.choice([(True,), (True, False), (False,)]),
        not loses_power and world.seed % 2 == 0,
        world.chance.choice([4, 50, 1_000]),
        world.chance.choice([400, 8 << 20]),
        world.chance.choice([(), (), ("m2",)]),
        readers=world.seed // 2 % 2 * 2,
    )


class Group:
    """`settled`: clients send nothing any more of their own accord."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.world, self.shape = world, shape
        self.links = Links(world)
        if shape.late:
            self.links.slow_ms, self.links.doubles = 300, 2
        self.promises = Promises(self)
        names = tuple(f"m{number}" for number in range(shape.members))
        self.replicas = [self._make(name, names, at) for at, name in enumerate(names)]
        self.clients = [Client(self, number) for number in range(shape.clients)]
        self.readers = [Reader(self, number) for number in range(shape.readers)]
        self.settled = False
        self.told: list[Told] = []

    def _make(self, name: str, names: tuple[str, ...], at: int) -> Replica:
        shape = self.shape
        config = QuorumConfig(
            GROUP, name, names,
            durability=Durability.WRITTEN if shape.weak else Durability.FLUSHED,
            heartbeat_ms=500, vote_pause_ms=(100, 400), vote_wait_ms=600, batch_entries=8,
            batches=shape.batches[at % len(shape.batches)], window_entries=shape.window_entries,
            window_bytes=shape.window_bytes, preferred_pause_max_ms=4_000,
            preferred=tuple(one for one in shape.preferred if one in names),
        )  # fmt: skip
        log = SimulatedLog(0, 7 * at)
        if shape.base is not None:
            log.begin_with(Entry(shape.base, 0, 0, b"first"))
        return Replica(self, config, log, plain=at < shape.plain, old=at == 0 < shape.plain)

    def start(self) -> None:
        for replica in self.replicas:
            replica.start()
        for one in (*self.clients, *self.readers):
            self.world.after(self.world.between(10, 400), one.turn)

    def replica(self, name: str) -> Replica:
        return next(one for one in self.replicas if one.name == name)

    def leaders(self) -> list[Replica]:
        """Who believes to lead, and to have its first entry committed."""
        return [one for one in self.replicas if one.leads]

    @property
    def majority(self) -> int:
        return len(self.replicas) // 2 + 1


class Client:
    """Sends `c<number>-<n>` with growing n, one at a time, and remembers what it heard."""

    def __init__(self, group: Group, number: int) -> None:
        self.group, self.number = group, number
        self.sent = 0
        self.at = 0
        self.wanted = 0

    def turn(self) -> None:
        """Send the next one; asked to stop, only what is wanted of it."""
        world = self.group.world
        if self.group.settled and not self.wanted:
            world.after(100, self.turn)
            return
        self.wanted = max(0, self.wanted - 1)
        self._try(world.between(1, 3) if world.one_in(6) else 1)

    def _try(self, count: int) -> None:
        group, world = self.group, self.group.world
        leader = next((one for one in group.leaders() if not world.one_in(8)), None)
        if leader is None:
            self.at = (self.at + 1) % len(group.replicas)
            leader = group.replicas[self.at]
        first = self.sent + 1
        self.sent += count
        size = world.between(0, 60)
        bodies = [f"c{self.number}-{first + n}:".encode() + b"x" * size for n in range(count)]
        begun_ms, over = world.now_ms, [False]
        floor = group.promises.in_time.heard

        def done(code: Code, index: int) -> None:
            if not over[0]:
                over[0] = True
                took_ms = world.now_ms - begun_ms
                group.promises.heard(self, bodies, code, index, took_ms, floor)
                # What is nowhere may be sent at once; what is unknown is never sent again.
                self.wanted += code in NOT_APPENDED and group.settled
                pause_ms = 30 if code in NOT_APPENDED else 5
                world.after(world.between(1, 60) + pause_ms, self.turn)

        if leader.up:
            leader.append(bodies, done)
        else:
            world.after(5, lambda: done(Code.NOT_LEADER, -1))

        def give_up() -> None:
            if not over[0]:
                group.promises.gives_up(bodies)
                done(Code.TIMEOUT, -1)

        world.after(AWAY_MS, give_up)


class Reader:
    """Asks who believes to lead how far the log is committed, also one that was replaced."""

    def __init__(self, group: Group, number: int) -> None:
        self.group, self.number = group, number
        self.wanted = 0

    def turn(self) -> None:
        """Once; then again. When the group has settled, only what is wanted of it."""
        group, world = self.group, self.group.world
        world.after(world.between(20, 300), self.turn)
        leaders = group.leaders()
        if not leaders or (group.settled and not self.wanted):
            return
        self.wanted = max(0, self.wanted - 1)
        floor = group.promises.in_time.heard
        world.chance.choice(leaders).read(
            lambda code, index: group.promises.was_read(self, code, index, floor)
        )
