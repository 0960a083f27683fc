"""Own places, read for a comparison, and what is taken of others' (PROTOCOL 7.3)."""

from __future__ import annotations

from pathlib import Path

from brokers.acting.reverse_sync import MemberTables, Places, Tables, TimerCheckPoint, decide
from brokers.process.acting.tables import OwnTables
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.table_files import TableFiles

NEWER = DataVersion(0, 9, 1_000)


def opened(folder: Path) -> tuple[TableFiles, OwnTables]:
    files = TableFiles(folder)
    return files, OwnTables(files, timers=True)


async def test_what_is_taken_is_there_after_the_next_start(tmp_path: Path) -> None:
    files, own = opened(tmp_path)
    assert own.empty
    files.offsets.commit("g", "t", 0, 10, 1)
    files.offsets.commit("g", "t", 1, 30, 1)
    theirs = Tables(
        Places(NEWER, {("t@g", 0): 20, ("t@g", 1): 7}),
        Places(NEWER, {("", 3): 44}),
        TimerCheckPoint(5_000, 1, 1, 6, NEWER),
    )
    await own.take(decide(own.now(), [MemberTables(1, "s:1", theirs)]))
    found, again = opened(tmp_path)
    assert dict(found.offsets.of("g", "t")) == {0: 20, 1: 30}, "never lower"
    assert found.offsets.version == NEWER
    now = again.now()
    assert now.delays == Places(NEWER, {("", 3): 44})
    assert now.timers is not None and (now.timers.read_ms, now.timers.queue_offset) == (5_000, 6)
    assert not again.empty


async def test_who_begins_to_act_has_newer_tables_than_its_master(tmp_path: Path) -> None:
    files, own = opened(tmp_path)
    files.offsets.commit("g", "t", 0, 10, 1)
    before = own.now()
    own.bump(1 << 20)
    after = own.now()
    for old, new in ((before.offsets, after.offsets), (before.delays, after.delays)):
        assert old is not None and new is not None
        assert new.version.counter == old.version.counter + (1 << 20)
        assert new.places == old.places
    assert after.timers is not None and after.timers.version is not None
    assert after.timers.version.counter == 1 << 20
    await own.save()
    assert opened(tmp_path)[1].now() == after


def test_without_a_wheel_there_is_no_check_point(tmp_path: Path) -> None:
    assert OwnTables(TableFiles(tmp_path), timers=False).now().timers is None
