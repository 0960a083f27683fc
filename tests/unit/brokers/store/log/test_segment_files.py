"""Descriptors of log files: how many, which, and what stays open."""

import os
import threading
from pathlib import Path

import pytest

from brokers.store.files.errors import DiskFull
from brokers.store.log.segment_files import Segment, SegmentFiles
from tests.support.descriptors import none_left, open_count

FILE = 1024


def segments_of(folder: Path, count: int) -> list[Segment]:
    found = []
    for number in range(count):
        path = folder / f"{number * FILE:020d}"
        path.write_bytes(bytes([number]) * FILE)
        found.append(Segment(number * FILE, path))
    return found


def is_open(segment: Segment) -> bool:
    return segment.fd >= 0


def test_no_more_than_so_many_are_open_and_each_can_be_read(tmp_path: Path) -> None:
    before, files, found = open_count(tmp_path), SegmentFiles(FILE, 4), segments_of(tmp_path, 20)
    for _ in range(2):
        for number, segment in enumerate(found):
            assert os.pread(files.fd(segment, 0), 1, 0) == bytes([number])
            assert open_count(tmp_path) <= before + 4
    for segment in found:
        segment.close()
    assert open_count(tmp_path) == before


def test_one_that_is_in_use_stays_open(tmp_path: Path) -> None:
    files, found = SegmentFiles(FILE, 4), segments_of(tmp_path, 20)
    first = files.fd(found[0], 0)
    for segment in found[1:]:
        files.fd(segment, 0)
        assert files.fd(found[0], 0) == first


def test_what_is_not_durable_yet_is_not_closed(tmp_path: Path) -> None:
    files, found = SegmentFiles(FILE, 2), segments_of(tmp_path, 8)
    for segment in found[:3]:
        files.fd(segment, 0)
        segment.written = True
    for segment in found[3:]:
        files.fd(segment, 2 * FILE)
    assert is_open(found[2]) and not is_open(found[0]) and not is_open(found[1])


def test_closing_does_not_wait_for_a_flush(tmp_path: Path) -> None:
    files, found = SegmentFiles(FILE, 2), segments_of(tmp_path, 6)
    with files.syncing:
        reads = threading.Thread(target=lambda: [files.fd(segment, 0) for segment in found])
        reads.start()
        reads.join(10)
        assert not reads.is_alive() and all(map(is_open, found))
    files.fd(segments_of(tmp_path, 1)[0], 0)
    assert sum(map(is_open, found)) < 6


def test_a_file_that_nobody_has_open_is_made_durable_or_waits_for_a_descriptor(
    tmp_path: Path,
) -> None:
    (segment,) = segments_of(tmp_path, 1)
    before = open_count(tmp_path)
    segment.sync()
    with none_left(), pytest.raises(DiskFull, match="Too many open files"):
        segment.sync()
    assert open_count(tmp_path) == before
