"""What of the wheel is on the disk and what is told: in that order, and safe places only."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.service.sending.timed import TimerRules
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.service.timers.formats import UNIT_BYTES
from brokers.service.timers.keeping import Keeping
from brokers.service.timers.progress import Progress
from brokers.service.timers.time_rules import Target
from brokers.service.timers.timer_files import Entry, TimerFiles, open_files
from brokers.store.store import MessageStore

T = 1_795_413_488_000
RULES = TimerRules(log_file_bytes=4_096)


class Rig:
    def __init__(self, root: Path) -> None:
        self.store = MessageStore(root)
        self.kept = KeptFiles(root / "config")
        self.jobs: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self.keeping = Keeping(
            self.store,
            self.kept,
            Clock(),
            RULES,
            beside=self._beside,
            master_epoch=lambda: 7,
            topics=list,
        )
        self.files: TimerFiles = open_files(
            root, RULES, flushed=0, enqueued=0, now_ms=T, queue_offset_of=lambda unit: 0
        )

    def _beside(self, job: Callable[[], None]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.jobs.append((job, future))
        return future

    async def run_job(self, error: Exception | None = None) -> None:
        job, future = self.jobs.pop()
        if error is None:
            job()
            future.set_result(None)
        else:
            future.set_exception(error)
        await asyncio.sleep(0)

    def put(self, offset: int) -> None:
        self.files.put([Entry(Target(T, False), T - 1_000, offset, 91, 7, False)])
        self.files.next_offset += 1

    def told(self) -> tuple[int, ...]:
        return self.kept.timer_check_point.value[:5]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.files.close()
    made.store.close()


async def test_a_place_in_the_wheel_is_told_when_it_is_flushed(rig: Rig) -> None:
    progress = Progress(T, 0, 0)
    rig.put(0)
    rig.keeping.look(rig.files, progress, None, 0)
    assert rig.told() == (T, 0, 0, 1, 7) and len(rig.jobs) == 1
    rig.put(100)
    rig.keeping.look(rig.files, progress, None, 10_000)
    assert len(rig.jobs) == 1, "one flush at a time"
    await rig.run_job()
    rig.keeping.look(rig.files, progress, None, 20_000)
    assert rig.told() == (T, UNIT_BYTES, 1, 2, 7)
    await rig.run_job()
    rig.keeping.look(rig.files, progress, None, 30_000)
    assert rig.told() == (T, 2 * UNIT_BYTES, 2, 2, 7) and not rig.jobs


async def test_a_flush_that_failed_says_nothing_and_is_tried_again(rig: Rig) -> None:
    progress = Progress(T, 0, 0)
    rig.put(0)
    rig.keeping.look(rig.files, progress, None, 0)
    await rig.run_job(OSError("planted"))
    rig.keeping.look(rig.files, progress, None, 10_000)
    assert rig.told()[1:3] == (0, 0)
    await rig.run_job()
    rig.keeping.look(rig.files, progress, None, 20_000)
    assert rig.told()[1:3] == (UNIT_BYTES, 1)


async def test_only_what_is_safe_is_told_and_its_slots_become_empty(rig: Rig) -> None:
    progress = Progress(T, 0, 0)
    rig.put(0)
    progress.enqueued(0, 500)
    progress.slot_read(T, 900, T + 1_000)
    rig.keeping.look(rig.files, progress, None, 0)
    assert (rig.told()[0], rig.told()[3]) == (T, 0) and rig.files.wheel.slot(T) is not None
    progress.settle(500)
    rig.keeping.tell(rig.files, progress)
    assert (rig.told()[0], rig.told()[3]) == (T, 1)
    rig.store._checkpoint = rig.store._checkpoint.__class__(0, 0, 0, 900, 900)
    rig.keeping.look(rig.files, progress, None, 0)
    assert rig.told()[0] == T + 1_000 and rig.files.wheel.slot(T) is None


async def test_the_word_of_the_master_before_stands_until_this_one_is_there(rig: Rig) -> None:
    progress = Progress(T, T, 9)
    rig.keeping.tell(rig.files, progress)
    assert rig.told()[3] == 9
    rig.files.next_offset = 12
    rig.keeping.tell(rig.files, progress)
    assert rig.told()[3] == 12


async def test_a_slave_tells_of_its_own_files_only(rig: Rig) -> None:
    rig.put(0)
    before = rig.told()
    rig.keeping.look(rig.files, None, None, 0)
    await rig.run_job()
    rig.keeping.look(rig.files, None, None, 10)
    assert rig.told() == (before[0], UNIT_BYTES, 1, *before[3:])


async def test_at_the_end_everything_is_on_the_disk(rig: Rig, tmp_path: Path) -> None:
    progress = Progress(T, 0, 0)
    rig.put(0)
    rig.keeping.look(rig.files, progress, None, 0)
    rig.put(100)  # while a flush is under way
    rig.keeping.close(rig.files, progress)
    assert rig.told() == (T, 2 * UNIT_BYTES, 2, 2, 7)
    await rig.run_job()  # it ends later, and takes nothing back
    again = open_files(
        tmp_path,
        RULES,
        flushed=2 * UNIT_BYTES,
        enqueued=2,
        now_ms=T,
        queue_offset_of=lambda unit: unit.offset // 100,
    )
    slot = again.wheel.slot(T)
    assert slot is not None and slot.number == 2 and again.next_offset == 2
    again.close()
