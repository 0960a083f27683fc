"""Timed messages on two replicas: whatever is killed, copied late or not flushed, none that was
acknowledged is lost, none comes early, and a recall in time holds.

Both replicas must have a message before it is confirmed (design S1). A killed one comes back as the
slave of the other, without what was not confirmed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.timed import DELETES, DELIVER_MS, TIMER_TOPIC, TimerRules, waiting_of
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.service.timers.timer_service import TimerService
from brokers.store.appender import PutResult
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields, RecordError, decode_messages, host_bytes
from brokers.store.store import MessageStore, StoreConfig
from tests.support.examples import examples

HOST = host_bytes("127.0.0.1", 1)
RULES = TimerRules("b", roll_window_slots=10, log_file_bytes=4_096, flush_interval_ms=300)
STEP_MS = 250
FINISH_MS = 40_000
# of a jump of the clock: it is over before anybody believes it
JUMP_STEPS = 12
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.one_of(st.integers(900, 4_000), st.integers(1, 30_000))),
        st.tuples(st.just("send"), st.integers(900, 4_000)),
        st.tuples(st.just("recall"), st.integers(0, 20)),
        # how many steps, and what is done in each
        st.tuples(st.just("pass"), st.integers(0, 63)),
        st.tuples(st.just("pass"), st.integers(0, 63)),
        st.tuples(st.just("copy"), st.integers(1, 7)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("jump"), st.integers(-3_600_000, 3_600_000)),
    ),
    min_size=10,
    max_size=40,
)
# Bits: the slave gets the log, the places; the disk of the master gets all of it.
LOG, PLACES, DISK = 1, 2, 4


class OneClock(Clock):
    """Of the world, and of all replicas. `true_ms` never jumps."""

    def __init__(self) -> None:
        self.true_ms = 1_795_413_488_000
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self.true_ms - 1_795_000_000_000

    def wall_ms(self) -> int:
        return self.true_ms + self.ahead_ms


class Replica:
    """One life of one replica, on its folder."""

    def __init__(self, world: World, folder: Path) -> None:
        self.folder = folder
        self._world = world
        self.store = MessageStore(folder, StoreConfig(log_file_bytes=1 << 20))
        self.kept = KeptFiles(folder / "config")
        self._turns: deque[Callable[[], None]] = deque()
        self.service = TimerService(
            self.store,
            self.kept,
            self,
            world.clock,
            RULES,
            repair=lambda bad, by: None,
            soon=self._turns.append,
            beside=self._beside,
            master_epoch=lambda: world.epoch,
            topics=list,
        )

    def _beside(self, job: Callable[[], None]) -> asyncio.Future[None]:
        job()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    @property
    def safe_offset(self) -> int:
        """As what is put into the own log (`own_puts`)."""
        return self.store.durable_offset

    @property
    def is_full(self) -> bool:
        return False

    def append(self, messages: Sequence[MessageFields]) -> list[PutResult | RecordError]:
        if self._world.master is not self:
            raise NotPut(14, "not the master")
        self._world.copied(messages)
        return self.store.put_many([(each,) for each in messages], self._world.clock.wall_ms())

    async def turn(self) -> None:
        self.service.tick(self._world.clock.now_ms())
        for _ in range(1_000):
            if not self._turns:
                break
            self._turns.popleft()()
        await asyncio.sleep(0)

    def die(self) -> None:
        """As by kill -9: what memory held is gone."""
        files = self.service._files
        if files is not None:
            files.close()
        self.store.close(clean=False)


class World:
    def __init__(self, root: Path) -> None:
        self.clock = OneClock()
        self.epoch = 1
        self.kills = 0
        self.sent: dict[str, int] = {}  # key -> end of its record
        self.slots: dict[str, int] = {}
        self.due_ms: dict[str, int] = {}
        self.recalls: list[tuple[str, int, int]] = []  # key, end of the record, slot
        self.acknowledged: set[str] = set()
        self.recalled: set[str] = set()
        self.master: Replica | None = None
        first, self.slave = (Replica(self, root / name) for name in ("a", "b"))
        self._lead(first)

    def _lead(self, replica: Replica) -> None:
        self.master = replica
        replica.store.rebuild_queue_offsets()
        replica.service.mastership_begins()

    @property
    def leader(self) -> Replica:
        assert self.master is not None
        return self.master

    def copied(self, messages: Sequence[MessageFields]) -> None:
        """A master puts these, which may be copies that are due."""
        for message in messages:
            if message.topic == "T":
                key = bytes(message.body).decode()
                assert self.clock.true_ms >= self.due_ms[key], f"{key} is early"

    def copy_log(self) -> None:
        """The slave has everything, and all of it is confirmed."""
        master, slave = self.leader.store, self.slave.store
        while slave.log_end < master.log_end:
            slave.append_raw(slave.log_end, master.read_log(slave.log_end, 1 << 16))
        master.dispatch_to(master.log_end)
        slave.dispatch_to(slave.log_end)
        now_ms = self.clock.true_ms
        for key, end in self.sent.items():
            if end <= master.log_end:
                self.acknowledged.add(key)
        for key, end, slot_ms in self.recalls:
            if end <= master.log_end and now_ms < slot_ms:
                self.recalled.add(key)
        self.recalls.clear()

    def copy_places(self) -> None:
        code = RequestCode.GET_TIMER_CHECK_POINT
        self.slave.kept.adopt(code, self.leader.kept.body(code, self.clock.wall_ms()))

    def kill(self) -> None:
        """The slave leads; the killed one follows, without what the new master does not have."""
        killed = self.leader
        self.kills += 1
        self.epoch += 1
        killed.die()
        end = self.slave.store.log_end
        self.sent = {key: sent for key, sent in self.sent.items() if sent <= end}
        self.recalls = [each for each in self.recalls if each[1] <= end]
        self._lead(self.slave)
        self.slave = Replica(self, killed.folder)
        if self.slave.store.log_end > end:
            self.slave.store.truncate(end)

    def send(self, delay_ms: int) -> None:
        key = f"k{len(self.slots)}"
        text = encode_properties({"UNIQ_KEY": key, "TIMER_DELAY_MS": str(delay_ms)})
        message = MessageFields("T", 0, key.encode(), text, 1, HOST, HOST)
        stored = self.leader.service.timed.as_stored(message)
        assert stored.topic == TIMER_TOPIC
        (result,) = self.leader.append([stored])
        assert isinstance(result, PutResult)
        self.slots[key] = waiting_of(stored.properties).slot_ms
        self.due_ms[key] = self.clock.true_ms + delay_ms
        self.sent[key] = result.end_offset

    def recall(self, number: int) -> None:
        key = f"k{number}"
        slot_ms = self.slots.get(key, 0)
        if key not in self.sent or slot_ms < self.clock.true_ms + 2_000:
            return
        properties = {DELETES: f"T+{key}", "UNIQ_KEY": key, DELIVER_MS: str(slot_ms + 1)}
        record = MessageFields("T", 0, b"0", encode_properties(properties), 1, HOST, HOST)
        (result,) = self.leader.append([self.leader.service.timed.as_stored(record)])
        assert isinstance(result, PutResult)
        self.recalls.append((key, result.end_offset, slot_ms))

    def copy(self, what: int) -> None:
        if what & LOG:
            self.copy_log()
        if what & DISK:
            self.leader.store.checkpoint()
        if what & PLACES:
            self.copy_places()

    async def pass_steps(self, steps: int, what: int) -> None:
        for _ in range(steps):
            self.clock.true_ms += STEP_MS
            self.copy(what)
            await self.leader.turn()
            await self.slave.turn()

    async def act(self, action: str, value: int) -> None:
        if action == "send":
            self.send(value)
        elif action == "recall":
            self.recall(value)
        elif action == "pass":
            await self.pass_steps(1 + value // 8, value % 8)
        elif action == "copy":
            self.copy(value)
        elif action == "kill":
            self.kill()
        else:
            self.clock.ahead_ms = value
            await self.pass_steps(JUMP_STEPS, LOG)
            self.clock.ahead_ms = 0

    async def finish(self) -> None:
        """Everything is copied and flushed, and time goes by."""
        for _ in range(FINISH_MS // STEP_MS // 8):
            self.copy(LOG | PLACES | DISK)
            await self.pass_steps(8, LOG)

    def judge(self) -> None:
        data = self.leader.store.read_log(0, self.leader.store.log_end)
        came = Counter(
            bytes(message.fields.body).decode()
            for message in decode_messages(data)
            if message.fields.topic == "T"
        )
        lost = self.acknowledged - came.keys() - self.recalled
        assert not lost, f"lost {lost}"
        back = self.recalled & came.keys()
        assert not back, f"recalled in time, and delivered: {back}"
        if not self.kills:
            twice = [key for key, times in came.items() if times > 1]
            assert not twice, f"twice without a kill: {twice}"


async def play(actions: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory(prefix="timers-") as root:
        world = World(Path(root))
        try:
            for action, value in actions:
                await world.act(action, value)
            await world.finish()
            world.judge()
        finally:
            world.leader.die()
            world.slave.die()


@given(ACTIONS)
@settings(max_examples=examples(25), deadline=None)
def test_nothing_is_lost_early_or_back_whatever_happens(actions: list[tuple[str, int]]) -> None:
    asyncio.run(play(actions))
