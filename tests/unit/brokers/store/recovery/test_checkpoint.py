"""The checkpoint file."""

from pathlib import Path

import pytest

from brokers.store.recovery.checkpoint import (
    Checkpoint,
    content_mark,
    decode_checkpoint,
    encode_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from tests.unit.brokers.store.log_samples import GOLDEN


def test_the_real_checkpoint_is_read_and_written() -> None:
    data = (GOLDEN / "checkpoint").read_bytes()
    checkpoint = decode_checkpoint(data)
    assert (checkpoint.log_ms, checkpoint.queues_ms, checkpoint.confirm_offset) == (
        1795227099182,
        1795227099182,
        7302,
    )
    assert checkpoint.flushed_offset is None  # nothing that the other kind says
    assert encode_checkpoint(checkpoint) == data


def test_recovery_begins_three_seconds_earlier_but_not_before_time_began() -> None:
    assert Checkpoint(10_000, 9_000).recovery_ms == 6_000
    assert Checkpoint(2_000, 2_000).recovery_ms == 0


def test_a_checkpoint_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, Checkpoint(1, 2, 3, 4, 5))
    assert read_checkpoint(path) == Checkpoint(1, 2, 3, 4, 5)


@pytest.mark.parametrize("data", [b"", b"\0" * 4095, b"\0" * 4097, b"\xff" * 4096])
def test_a_torn_checkpoint_says_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    assert read_checkpoint(path) == Checkpoint()


def test_a_missing_checkpoint_says_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "checkpoint") == Checkpoint()


def test_what_a_java_broker_reads_of_ours_is_what_it_would_have_written(tmp_path: Path) -> None:
    data = encode_checkpoint(Checkpoint(1, 2, 3, 4000, 5000))
    assert data[:40] == b"".join(value.to_bytes(8, "big") for value in (1, 2, 3, 0, 5000))


@pytest.mark.parametrize("position", range(48))
def test_our_flushed_offset_is_unknown_once_anybody_else_wrote(position: int) -> None:
    data = bytearray(encode_checkpoint(Checkpoint(1, 2, 3, 4000, 5000)))
    data[position] ^= 1
    read = decode_checkpoint(bytes(data))
    assert read.flushed_offset is None and (read.log_ms, read.confirm_offset) != (0, 0)


def test_a_checkpoint_of_an_earlier_version_is_still_read() -> None:
    data = b"".join(value.to_bytes(8, "big") for value in (1, 2, 0, 4000, 5000)).ljust(4096, b"\0")
    assert decode_checkpoint(data) == Checkpoint(1, 2, 0, 4000, 5000)


def test_the_content_mark_changes_with_what_other_brokers_write_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    assert content_mark(tmp_path) == 0
    marks = []
    for checkpoint in (
        Checkpoint(1, 2, 3, 4, 5),
        Checkpoint(1, 2, 3, None, 5),
        Checkpoint(1, 2, 3, 4, 6),
    ):
        write_checkpoint(tmp_path / "checkpoint", checkpoint)
        marks.append(content_mark(tmp_path))
    assert marks[0] == marks[1] != marks[2] and 0 not in marks
