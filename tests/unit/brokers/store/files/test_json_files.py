"""Configuration files: dialect of the real broker, the older copy, damage."""

import threading
from pathlib import Path

import pytest

from brokers.store.files.errors import LogError
from brokers.store.files.json_files import CONSUMER_OFFSET_FILE, JsonFile
from tests.unit.brokers.store.log_samples import GOLDEN


@pytest.mark.parametrize(
    "name",
    [
        "topics.json",
        "consumerOffset.json",
        "subscriptionGroup.json",
        "delayOffset.json",
        "messageRequestMode.json",
        "timermetrics",
    ],
)
def test_files_of_the_real_broker_are_read_and_come_back(tmp_path: Path, name: str) -> None:
    document = JsonFile(GOLDEN / name).load()
    assert document is not None
    mine = JsonFile(tmp_path / "config" / name)
    mine.save(document)
    assert mine.load() == document


def test_unquoted_integer_keys_become_text() -> None:
    document = JsonFile(GOLDEN / CONSUMER_OFFSET_FILE).load()
    assert document is not None
    table = document["offsetTable"]
    assert isinstance(table, dict)
    assert table["Life@LifeOrderly"] == {"0": 5, "1": 8}


def test_nothing_there_is_no_document(tmp_path: Path) -> None:
    assert JsonFile(tmp_path / "topics.json").load() is None


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 100, b'{"a":', b"[1]", b"\xff\xfe"])
def test_the_older_copy_answers_for_a_missing_empty_or_broken_file(
    tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "topics.json"
    JsonFile(path).save({"n": 1})
    JsonFile(path).save({"n": 2})
    assert JsonFile(path).load() == {"n": 2}
    path.unlink() if damage is None else path.write_bytes(damage)
    file = JsonFile(path)
    assert file.load() == {"n": 1}
    file.save({"n": 3})
    assert file.load() == {"n": 3}
    path.unlink()
    assert JsonFile(path).load() == {"n": 1}  # the broken file did not replace the good copy


def test_damage_without_a_copy_is_an_error_and_never_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b'{"a":')
    with pytest.raises(LogError, match="restore the file"):
        JsonFile(path).load()


def test_two_threads_that_save_leave_one_whole_document(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "f.json")
    document = [{"n": number, "fill": "x" * 50_000} for number in range(2)]
    threads = [
        threading.Thread(target=lambda one=one: [file.save(one) for _ in range(20)])
        for one in document
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert JsonFile(tmp_path / "f.json").load() in document
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.json", "f.json.bak"]
