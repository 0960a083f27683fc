"""The JSON files of folder `config`."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import TopicConfig
from brokers.store.files.errors import LogError
from brokers.store.files.json_files import JsonFile


async def test_tables_are_found_again(tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    files.topics.put([TopicConfig("T", 4, 4)], 5)
    files.groups.ensure("g", 5)
    files.offsets.commit("g", "T", 0, 7, 5)
    files.topics_file.save_now()
    files.groups_file.save_now()
    await files.offsets_saved()
    again = TableFiles(tmp_path)
    assert (
        again.topics.get("T") == TopicConfig("T", 4, 4)
        and again.topics.version == files.topics.version
    )
    assert again.groups.get("g") is not None and again.offsets.query("g", "T", 0) == 7


def test_a_torn_file_is_read_from_its_backup(tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    for name in ("A", "B"):
        files.topics.put([TopicConfig(name)], 5)
        files.topics_file.save_now()
    (tmp_path / "config" / "topics.json").write_bytes(b'{"topicConfig')
    again = TableFiles(tmp_path)
    assert again.topics.get("A") is not None and again.topics.get("B") is None


def test_java_files_with_unquoted_keys_are_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / ("consumerOffset.json")).write_text(
        '{\n\t"offsetTable":{"T@g":{0:5,1:7\n\t\t}\n\t}\n}'
    )
    assert TableFiles(tmp_path).offsets.query("g", "T", 1) == 7


async def test_what_is_written_is_plain_json(tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    files.offsets.commit("g", "T", 0, 7, 5)
    await files.offsets_saved()
    read = fastjson.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())
    assert isinstance(read, dict) and read["offsetTable"] == {"T@g": {"0": 7}}


@pytest.mark.parametrize("content", [b'{"topicConfig', b'{"topicConfigTable": 7}'])
def test_a_damaged_table_without_a_copy_is_refused_and_never_taken_for_an_empty_one(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_bytes(content)
    with pytest.raises(LogError, match="topics.json.*restore the file"):
        TableFiles(tmp_path)


async def test_what_a_full_disk_put_off_is_written_later_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TableFiles(tmp_path)
    files.topics.put([TopicConfig("T")], 5)
    files.groups.ensure("g", 5)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patched:
        patched.setattr(JsonFile, "save", full)
        # a topic is acknowledged only when it is durable
        with pytest.raises(OSError, match="planted"):
            await files.topics_file.save()
        files.groups_file.save_soon()
        with pytest.raises(OSError, match="planted"):
            await files.close()
    assert (
        TableFiles(tmp_path).groups.get("g") is None
        and files.topics_file.unsaved
        and files.groups_file.unsaved
    )
    files.save_late()
    await files.topics_file.until_saved()
    assert TableFiles(tmp_path).topics.get("T") is not None and not files.topics_file.unsaved
    await files.close()
    assert TableFiles(tmp_path).groups.get("g") is not None and not files.groups_file.unsaved


async def test_offsets_are_durable_as_they_are_when_somebody_asks_also_while_older_ones_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, begun, go_on = TableFiles(tmp_path), threading.Event(), threading.Event()
    await files.offsets_saved()
    # nothing changed
    assert not files.offsets_file.unsaved and not list(tmp_path.rglob("consumerOffset.json"))
    save = JsonFile.save

    def slow(file: JsonFile, document: bytes) -> None:
        begun.set()
        go_on.wait(60)
        save(file, document)

    monkeypatch.setattr(JsonFile, "save", slow)
    files.offsets.commit("g", "T", 0, 7, 5)
    first = asyncio.ensure_future(files.offsets_saved())
    await asyncio.to_thread(begun.wait, 60)
    under_way = asyncio.ensure_future(files.offsets_saved())
    files.offsets.commit("g", "T", 0, 8, 6)
    second = asyncio.ensure_future(files.offsets_saved())
    await asyncio.sleep(0.05)
    assert not first.done() and not under_way.done() and not second.done()
    go_on.set()
    await asyncio.gather(first, under_way, second)
    assert TableFiles(tmp_path).offsets.query("g", "T", 0) == 8 and not files.offsets.dirty


async def test_offsets_that_the_disk_refused_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TableFiles(tmp_path)
    files.offsets.commit("g", "T", 0, 7, 5)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patched:
        patched.setattr(JsonFile, "save", full)
        for _ in range(2):
            with pytest.raises(OSError, match="planted"):
                await files.offsets_saved()
    await files.offsets_saved()
    assert TableFiles(tmp_path).offsets.query("g", "T", 0) == 7


def test_what_an_older_release_stored_and_is_not_valid_is_left_out_and_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").mkdir()
    for name, text in (
        ("topics.json", '{"topicConfigTable":{"T":{},"%RETRY%my.group":{},"U":7}}'),
        ("subscriptionGroup.json", '{"subscriptionGroupTable":{"g":{},"my.group":{}}}'),
        ("consumerOffset.json", '{"offsetTable":{"T@g":{0:5},"T@my.group":{0:7}}}'),
    ):
        (tmp_path / "config" / name).write_text(text)
    files, told = TableFiles(tmp_path), []
    files.left_out.report_to(lambda kind, fields: told.append((fields["table"], fields["names"])))
    assert files.topics.get("T") and files.groups.get("g") and files.offsets.query("g", "T", 0) == 5
    assert dict(told) == {
        "topics.json": ("%RETRY%my.group", "U"),
        ("subscriptionGroup.json"): ("my.group",),
        "consumerOffset.json": ("T@my.group",),
    }


async def test_one_table_that_cannot_be_written_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TableFiles(tmp_path)
    files.offsets.commit("g", "T", 0, 7, 5)
    files.groups.ensure("g", 5)
    files.groups_file.save_soon()

    def too_deep() -> object:
        raise RecursionError("planted")

    monkeypatch.setattr(files.groups, "text", too_deep)
    with pytest.raises(RecursionError):
        await files.close()
    assert TableFiles(tmp_path).offsets.query("g", "T", 0) == 7


def test_a_file_of_which_only_the_older_copy_can_be_read_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = JsonFile(tmp_path / "topics.json")
    for _ in range(2):
        file.save({"topicConfigTable": {}})
    (tmp_path / "topics.json").write_bytes(b"{")
    assert (
        JsonFile(tmp_path / "topics.json").load() is not None
        and ("older copy topics.json.bak") in caplog.text
    )
