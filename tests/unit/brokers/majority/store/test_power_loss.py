"""A log that is killed or loses its power between any two writes, against a model in memory."""

from __future__ import annotations

import random

import pytest

from brokers.majority.entry import EMPTY, Entry, Place
from brokers.majority.log_port import Taken
from brokers.majority.store import recovery
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.walk import EntryWalk
from brokers.store.files.errors import LogError
from tests.simulation.blocks import PowerCut
from tests.support.examples import examples
from tests.support.majority_disk import MajorityDisk, SegmentLog

STEPS = 40


class Life:
    """A disk, and what its log should hold. `durable`: entries up to here were said to be."""

    def __init__(self, seed: int) -> None:
        self.disk, self.draw = MajorityDisk(seed), random.Random(seed)
        self.model: list[Entry] = []
        self.maybe: list[Entry] | None = None  # what a step that was cut off leads to
        self.durable, self.committed, self.term = -1, -1, 1

    def step(self) -> None:
        """One step, or PowerCut in the middle of it."""
        chance, log = self.draw.random(), self.disk.log
        if chance < 0.55:
            self._append()
        elif chance < 0.7 and len(self.model) - 1 > self.committed:
            self._replace_tail(self.draw.randrange(self.committed + 1, len(self.model)))
        elif chance < 0.85:
            self.durable = max(self.durable, log.flush())
        elif chance < 0.92:
            self.committed = log.commit(self.draw.randint(-1, len(self.model)))
        else:
            log.checkpoint()
            self.durable = len(self.model) - 1

    def _append(self) -> None:
        size = self.draw.choice((0, 1, 30, 200, 900, 2_048 - 48 - 8))
        body = self.draw.randbytes(size)
        made = Entry(len(self.model), self.term, 0, body)
        self.maybe = [*self.model, made]
        log = self.disk.log
        self.model.append(log.append_as_leader(self.term, size, lambda position: body))
        self.maybe = None

    def _replace_tail(self, first: int) -> None:
        """Another leader's log: cut, and one of its entries, as long as the one it replaces."""
        log, old = self.disk.log, self.model[first]
        self.term += 1
        self.durable = min(self.durable, first - 1)  # from the first moment on
        self.maybe = self.model[:first]
        log.truncate_from(first)
        self.model = self.model[:first]
        new = Entry(first, self.term, old.position, self.draw.randbytes(len(old.body)))
        self.maybe = [*self.model, new]
        assert log.append_as_follower(new) is Taken.APPENDED
        held = log.get(first)
        assert held is not None
        self.model.append(held)
        self.maybe = None

    def check(self, found_all: bool) -> None:
        """The log is what it was, or less than that where nothing was promised; never a mixture."""
        log = self.disk.log
        held = [log.get(index) for index in range(log.last.index + 1)]
        candidates = [self.model] + ([self.maybe] if self.maybe is not None else [])
        fitting = [one for one in candidates if bare(held) == bare(one[: len(held)])]
        assert fitting, f"{len(held)} entries that never stood beside each other"
        assert log.last.index >= self.durable, "what was flushed is gone"
        assert not found_all or len(held) in [len(one) for one in fitting]
        assert log.committed_index <= log.last.index
        assert log.owed is None
        assert log.last == (held[-1].place if held else EMPTY)
        assert log.flushed_index == log.last.index, "a start makes what it found durable"
        self.model = [entry for entry in held if entry is not None]
        self.maybe, self.durable = None, log.last.index
        self.committed = log.committed_index


def bare(entries) -> list[tuple[int, int, bytes]]:
    return [(entry.index, entry.term, entry.body) for entry in entries]


def lived(seed: int, *, power_lost: bool) -> None:
    """Four lives of one log, each cut off in the middle of a write."""
    life = Life(seed)
    for _ in range(4):
        life.disk.power_in = life.draw.randrange(STEPS)
        try:
            for _ in range(STEPS):
                life.step()
        except PowerCut:
            pass
        if power_lost:
            life.disk.lose_power()
        else:
            life.disk.open(same_boot=True)
        life.check(found_all=not power_lost)


@pytest.mark.parametrize("seed", range(examples(240)))
def test_a_loss_of_power_at_any_write_takes_only_what_was_not_flushed(seed: int) -> None:
    lived(seed, power_lost=True)


@pytest.mark.parametrize("seed", range(examples(90)))
def test_a_kill_at_any_write_takes_nothing_that_was_written(seed: int) -> None:
    lived(1_000 + seed, power_lost=False)


# (what, where, what stands there instead)
PLANTED = [
    ("marks are not lowered before a cut", EntryLog, "_lower_marks", lambda self, to: None),
    ("a flush syncs nothing", SegmentLog, "flush", lambda self: self.end_offset),
    ("checksums are not looked at", EntryWalk, "_unfit", lambda self, head, own_crc: ""),
    ("the index is not cut", EntryIndex, "cut_from", lambda self, index: None),
    ("the index is not compared", recovery, "_follow", lambda walk, _: (len(list(walk)), -1)),
    ("what is flushed is not what was written", EntryLog, "flush", lambda self: self.last.index),
]


@pytest.mark.parametrize(
    ("what", "where", "name", "instead"), PLANTED, ids=[row[0] for row in PLANTED]
)
def test_a_planted_bug_is_found(
    what: str, where: object, name: str, instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, instead)
    with pytest.raises((AssertionError, LogError)):
        for seed in range(60):
            lived(seed, power_lost=True)


def test_bytes_behind_a_cut_do_not_come_back() -> None:
    """The example of a follower that held (6, t3)(7, t3) when a leader of t2 replaced 6: equal
    sizes, so 7 would follow without a gap.
    """
    disk = MajorityDisk(1)
    for number in range(8):
        disk.log.append_as_leader(3 if number > 5 else 1, 20, lambda position: bytes(20))
    disk.log.flush()
    disk.log.truncate_from(6)
    position = disk.log.get(5).position + 68
    assert disk.log.append_as_follower(Entry(6, 2, position, b"x" * 20)) is Taken.APPENDED
    disk.log.flush()
    disk.lose_power()
    assert disk.log.last == Place(2, 6) and disk.log.term_of(7) is None


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("index", [0, 5, 9])
def test_what_was_on_the_disk_and_is_damaged_is_owed(index: int, same_boot: bool) -> None:
    disk = MajorityDisk(2)
    entries = [disk.log.append_as_leader(1, 100, lambda position: bytes(100)) for _ in range(10)]
    disk.log.checkpoint()
    disk.data.flip(entries[index].position + 60)
    found = disk.open(same_boot=same_boot)
    assert found.owed == disk.log.owed == Place(1, 9)
    assert disk.log.last == (Place(1, index - 1) if index else EMPTY)
    disk.open(same_boot=same_boot)
    assert disk.log.owed == Place(1, 9), "until it has them again, whatever starts in between"


def test_a_debt_ends_with_a_committed_entry_at_or_behind_it() -> None:
    disk = MajorityDisk(3)
    entries = [disk.log.append_as_leader(1, 100, lambda position: bytes(100)) for _ in range(10)]
    disk.log.checkpoint()
    disk.data.flip(entries[5].position + 60)
    disk.open(same_boot=False)
    for entry in entries[5:]:
        assert disk.log.append_as_follower(entry) is Taken.APPENDED
        disk.log.commit(entry.index - 1)
        assert disk.log.owed == Place(1, 9)
    disk.log.commit(9)
    assert disk.log.owed is None
    disk.open(same_boot=False)
    assert disk.log.owed is None


def test_damage_in_what_was_written_since_the_last_mark_is_seen_unless_power_was_lost() -> None:
    for same_boot, owed in ((True, Place(1, 9)), (False, None)):
        disk = MajorityDisk(4)
        entries = [
            disk.log.append_as_leader(1, 100, lambda position: bytes(100)) for _ in range(10)
        ]
        disk.log.flush()
        disk.data.flip(entries[7].position + 60)
        found = disk.open(same_boot=same_boot)
        assert found.owed == owed and disk.log.last == Place(1, 6)


@pytest.mark.parametrize("power_in", range(24))
def test_a_new_begin_that_is_cut_off_leaves_the_old_log_or_a_debt(power_in: int) -> None:
    disk = MajorityDisk(power_in)
    for _ in range(5):
        disk.log.append_as_leader(1, 400, lambda position: bytes(400))
    disk.log.commit(2)
    disk.log.checkpoint()
    disk.power_in = power_in
    try:
        assert disk.log.restart_at(Entry(50, 3, 4 * 2_048, b"x")) is Taken.APPENDED
        disk.log.flush()
    except PowerCut:
        pass
    disk.lose_power()
    if disk.log.last != Place(1, 4):
        assert disk.log.last in (EMPTY, Place(3, 50)) and disk.log.owed == Place(1, 4)
    assert disk.log.committed_index == min(2, disk.log.last.index)
