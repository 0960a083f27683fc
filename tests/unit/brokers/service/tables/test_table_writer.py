"""Writing a table beside the loop: what is told to whom, and when."""

import asyncio
import threading
from pathlib import Path

import pytest

from brokers.service.tables.table_writer import TableWriter
from brokers.store.files.json_files import JsonFile
from tests.support.brokers import until


class Slow(JsonFile):
    """A file whose writes wait for `go`, and fail while `refuses`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.refuses = False
        self.writes: list[object] = []
        self.begun = 0

    def save(self, document: dict[str, object] | bytes) -> None:
        self.begun += 1
        assert self.go.wait(20)
        self.writes.append(document)
        if self.refuses:
            raise OSError("planted")
        super().save(document)


def made(folder: Path) -> tuple[TableWriter, Slow, dict[str, object]]:
    table: dict[str, object] = {"n": 0}
    file = Slow(folder / "config" / "t.json")
    return TableWriter(file, lambda: dict(table)), file, table


async def test_many_who_ask_get_few_writes_and_nobody_an_older_one(tmp_path: Path) -> None:
    writer, file, table = made(tmp_path)
    waits = []
    for number in range(10):
        table["n"] = number
        waits.append(asyncio.ensure_future(writer.save()))
        await asyncio.sleep(0)
    assert writer.unsaved and not any(wait.done() for wait in waits)
    file.go.set()
    await asyncio.gather(*waits)
    assert file.writes[-1] == {"n": 9} and len(file.writes) <= 2 and not writer.unsaved
    assert JsonFile(file.path).load() == {"n": 9}


async def test_a_change_during_a_write_is_unsaved_until_the_next_write(tmp_path: Path) -> None:
    writer, file, table = made(tmp_path)
    first = asyncio.ensure_future(writer.save())
    await until(lambda: file.begun, "the write began")
    table["n"] = 1
    writer.save_soon()
    second = asyncio.ensure_future(writer.until_saved())
    file.go.set()
    await first
    await second
    assert file.writes == [{"n": 0}, {"n": 1}] and not writer.unsaved
    await writer.until_saved()
    assert len(file.writes) == 2


async def test_who_waits_for_a_disk_that_refuses_is_told_and_it_stays_unsaved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer, file, _ = made(tmp_path)
    file.go.set()
    file.refuses = True
    for _ in range(2):
        with pytest.raises(OSError, match="planted"):
            await writer.save()
    assert (
        writer.unsaved
        and len([record for record in caplog.records if "planted" in record.message]) == 1
    )
    with pytest.raises(OSError, match="planted"):
        await writer.until_saved()
    file.refuses = False
    await writer.until_saved()
    assert not writer.unsaved


async def test_the_end_waits_for_the_write_under_way_and_writes_the_rest(tmp_path: Path) -> None:
    writer, file, table = made(tmp_path)
    writer.save_soon()
    await until(lambda: file.begun, "the write began")
    table["n"] = 5
    writer.save_soon()
    closing = asyncio.ensure_future(writer.close())
    file.go.set()
    await closing
    assert JsonFile(file.path).load() == {"n": 5} and not writer.is_writing


async def test_before_there_is_anything_to_wait_for_it_writes_on_its_own_thread(
    tmp_path: Path,
) -> None:
    writer, file, _ = made(tmp_path)
    file.go.set()
    writer.save_now()
    assert not writer.unsaved and JsonFile(file.path).load() == {"n": 0}
