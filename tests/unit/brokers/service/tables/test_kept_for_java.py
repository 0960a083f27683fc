"""Which of a master's answers are taken over for Java's services."""

import json
import random
import struct
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.service.tables.kept_for_java import (
    TIMER_CHECK_POINT_FILE,
    TIMER_CHECK_POINT_FILE_BYTES,
    KeptDocument,
    KeptFiles,
    TimerCheckPoint,
    forget_timer_epoch,
)
from brokers.store.files.errors import LogError


def check_point(*fields: int) -> bytes:
    return struct.pack(">7q", *fields)


def test_positions_in_the_own_timer_log_stay() -> None:
    own = TimerCheckPoint()
    own.from_file(check_point(1_000, 52, 1, 1, 1, 1, 1))
    own.adopt(check_point(9_000, 5200, 90, 91, 2, 9_100, 4))
    assert own.body(0) == own.to_file()[:56] == check_point(9_000, 52, 1, 91, 2, 9_100, 4)


def test_without_a_check_point_timers_are_read_from_the_oldest_message_on() -> None:
    assert TimerCheckPoint().body(1_700_000_000_999) == check_point(
        1_700_000_000_000, 0, 0, 0, 0, 0, 0
    )


def test_who_knows_no_check_point_wipes_out_none() -> None:
    own = TimerCheckPoint()
    own.adopt(check_point(9_000, 0, 0, 91, 2, 9_100, 4))
    own.adopt(TimerCheckPoint().body(9_999_000))
    assert own.body(0) == check_point(9_000, 0, 0, 91, 2, 9_100, 4)


@pytest.mark.parametrize("size", [0, 32, 55, 57])
def test_a_check_point_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        TimerCheckPoint().adopt(b"\0" * size)


def test_an_empty_document_takes_no_ones_place_and_a_full_one_does() -> None:
    table = KeptDocument("offsetTable")
    table.adopt(b'{"offsetTable":{1:5}}')
    first = table.value
    table.adopt(b'{"offsetTable":{}}')
    table.adopt(b'{"offsetTable":{"1":5}}')
    assert table.value is first
    table.adopt(b'{"offsetTable":{"1":6}}')
    assert table.body(0) == b'{"offsetTable":{"1":6}}'


def test_a_document_too_deep_to_be_written_is_refused() -> None:
    table = KeptDocument("offsetTable")
    with pytest.raises(ValueError, match="deep"):
        table.adopt(b'{"offsetTable":' + b'{"a":' * 700 + b"1" + b"}" * 701)
    assert table.body(0) == (
        b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{}}'
    )


GOLDEN = Path(__file__).parents[4] / "golden"
DELAYS, MODES, METRICS, CHECK_POINT, ORDERED = 45, 402, 61, 60, 19017
FILES = {
    DELAYS: "delayOffset.json",
    MODES: ("messageRequestMode.json"),
    METRICS: "timermetrics",
    CHECK_POINT: "timercheck",
}
MODE = (
    b'{"messageRequestModeMap":{"T":{"g":{"consumerGroup":"g","mode":"POP","popShareQueueNum":0,'
    b'"topic":"T"}}}}'
)


def recorded() -> dict[int, bytes]:
    """Bodies of a Java master's last answers, by request code."""
    asked: dict[int, int] = {}
    bodies = {}
    for line in map(
        json.loads, (GOLDEN / "wire" / ("slave-master-metadata.jsonl")).read_text().splitlines()
    ):
        if not line["flag"] & 1:
            asked[line["opaque"]] = line["code"]
        else:
            raw = bytes.fromhex(line["raw_hex"])
            bodies[asked[line["opaque"]]] = raw[8 + (int.from_bytes(raw[4:8]) & 0xFFFFFF) :]
    return bodies


def test_a_java_masters_recorded_answers_are_taken_and_given_on(tmp_path: Path) -> None:
    kept, answers = KeptFiles(tmp_path), recorded()
    for code in set(kept.codes) - {ORDERED}:
        kept.adopt(code, answers[code])
    assert kept.body(CHECK_POINT, 5_000) == answers[CHECK_POINT]
    assert fastjson.loads(kept.body(MODES, 0)) == fastjson.loads(answers[MODES])


@pytest.mark.parametrize("code", [DELAYS, METRICS, CHECK_POINT])
def test_a_folder_of_java_is_served(tmp_path: Path, code: int) -> None:
    found = (GOLDEN / "store" / FILES[code]).read_bytes()
    (tmp_path / FILES[code]).write_bytes(found)
    kept = KeptFiles(tmp_path)
    served = kept.body(code, 5_000)
    assert (
        served == found[:56]
        if code == CHECK_POINT
        else fastjson.loads(served) == fastjson.loads(found)
    )
    assert not kept.unsaved


def test_what_was_taken_is_found_again_in_javas_layouts(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path)
    kept.adopt(
        DELAYS,
        b'{"dataVersion":{"counter":1,"stateVersion":2,"timestamp":3},"offsetTable":{1:5,18:7}}',
    )
    kept.adopt(MODES, MODE)
    kept.adopt(
        METRICS, b'{"dataVersion":{"timestamp":3},"timingCount":{"T":{"count":1,"timeStamp":2}}}'
    )
    kept.adopt(CHECK_POINT, check_point(9_000, 104, 2, 3, 1, 9_100, 4))
    kept.save()
    assert not kept.unsaved
    again = KeptFiles(tmp_path)
    assert [again.body(code, 0) for code in again.codes] == [
        kept.body(code, 0) for code in kept.codes
    ]
    assert (
        (tmp_path / "timercheck").stat().st_size
        == TIMER_CHECK_POINT_FILE_BYTES
        == (GOLDEN / "store" / "timercheck").stat().st_size
    )
    assert (tmp_path / "messageRequestMode.json").read_bytes() == MODE


def test_who_knows_nothing_wipes_out_nothing(tmp_path: Path) -> None:
    knows, knows_nothing = KeptFiles(tmp_path / "a"), KeptFiles(tmp_path / "b")
    knows.adopt(DELAYS, b'{"offsetTable":{"1":5}}')
    knows.adopt(MODES, MODE)
    knows.adopt(CHECK_POINT, check_point(9_000, 0, 0, 3, 1, 9_100, 4))
    before = [knows.body(code, 5_000) for code in knows.codes]
    for code in knows.codes:
        knows.adopt(code, knows_nothing.body(code, 5_000))
    assert [knows.body(code, 5_000) for code in knows.codes] == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("delayOffset.json", b"{"), ("messageRequestMode.json", b"[]"), ("timercheck", b"\0" * 55)],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=f"{name}.*restore the file"):
        KeptFiles(tmp_path)


def test_hostile_answers_change_nothing(tmp_path: Path) -> None:
    kept, chance = KeptFiles(tmp_path), random.Random(7)
    known = {**recorded(), MODES: MODE, ORDERED: b'{"table":{"T@g":{"0":{"o":[1]}}}}'}
    before = {code: kept.body(code, 5_000) for code in kept.codes}
    for code in kept.codes:
        for body in (
            b"",
            b"{}",
            b"[]",
            b"null",
            b'{"offsetTable":[1]}',
            *(known[code][: chance.randrange(len(known[code]))] for _ in range(50)),
        ):
            with pytest.raises(ValueError, match="."):
                kept.adopt(code, body)
    assert {code: kept.body(code, 5_000) for code in kept.codes} == before


def test_what_a_disk_refused_is_written_later(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "config")
    kept.adopt(MODES, MODE)
    (tmp_path / "config").write_bytes(b"a file where the folder should be")
    with pytest.raises(OSError, match="config"):
        kept.save()
    assert kept.unsaved
    (tmp_path / "config").unlink()
    kept.save()
    assert KeptFiles(tmp_path / "config").body(MODES, 0) == MODE


def test_what_changes_while_it_is_written_is_written_again(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path)
    kept.adopt(DELAYS, b'{"offsetTable":{"1":5}}')
    table = kept._tables[DELAYS]
    write = kept._writers[table]

    def overtaken() -> None:
        write()
        kept.adopt(DELAYS, b'{"offsetTable":{"1":6}}')

    kept._writers[table] = overtaken
    kept.save()
    assert kept.unsaved
    kept._writers[table] = write
    kept.save()
    assert not kept.unsaved and KeptFiles(tmp_path).body(DELAYS, 0) == b'{"offsetTable":{"1":6}}'


def test_nothing_is_written_where_nothing_was_taken(tmp_path: Path) -> None:
    KeptFiles(tmp_path).save()
    assert not list(tmp_path.iterdir())


def test_a_check_point_has_no_epoch_any_more_behind_a_changeover(tmp_path: Path) -> None:
    """A slave that acts counts on without one: it would look older than any of before."""
    files = KeptFiles(tmp_path / "config")
    files.timer_check_point.value = (5_000, 1, 2, 3, 7, 1_234, 11)
    files.save()
    forget_timer_epoch(tmp_path)
    again = KeptFiles(tmp_path / "config").timer_check_point
    assert again.value == (5_000, 1, 2, 3, 0, 1_234, 11)
    forget_timer_epoch(tmp_path / "nowhere")
    (tmp_path / "config" / TIMER_CHECK_POINT_FILE).write_bytes(b"short")
    forget_timer_epoch(tmp_path)
    assert (tmp_path / "config" / TIMER_CHECK_POINT_FILE).read_bytes() == b"short"
