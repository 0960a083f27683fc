"""Folders as a loss of power leaves them, and the rows that open them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.store.recovery.boot import MARKER_NAME, BootMarker
from tests.bench import lost_power
from tests.bench.apart import ChildFailed, apart
from tests.bench.lost_power import AtLeast, Opened
from tests.bench.rows import power_loss, terabyte

FILE_BYTES = 1 << 20


def laid(root: Path) -> Path:
    """Sixteen queues with two durable messages and one behind the last checkpoint, of a broker on
    this start of the machine.
    """
    apart(lost_power.fill_queues, root, 16, 2, FILE_BYTES)
    marker = BootMarker(root)
    marker.begin(marker.examine(True))
    return root


def test_a_copy_without_power_is_opened_as_one_and_the_folder_it_was_made_of_stays(
    tmp_path: Path,
) -> None:
    source, target = laid(tmp_path / "laid"), tmp_path / "opened"
    lost_power.without_power(source, target)
    assert BootMarker(target).examine(True).reason == "other_boot"
    opened = apart(lost_power.open_store, target, FILE_BYTES)
    assert (opened.messages, opened.read_from) == (48, 0) and opened.end > 48 * 1024
    assert json.loads((source / MARKER_NAME).read_text())["boot_id"] != lost_power.OTHER_BOOT


def test_a_folder_that_lost_no_power_is_not_measured(tmp_path: Path) -> None:
    root = laid(tmp_path / "laid")
    (root / "abort").unlink()
    with pytest.raises(ChildFailed, match="orderly end"):
        apart(lost_power.open_store, root, FILE_BYTES)


def test_the_least_is_a_page_of_each_queue_and_the_log_up_to_its_end(tmp_path: Path) -> None:
    root = laid(tmp_path / "laid")
    least = lost_power.read_at_least(root, 0)
    assert (least.queue_files, least.log_bytes) == (16, FILE_BYTES)
    assert lost_power.read_at_least(root, FILE_BYTES).log_bytes == 0


def test_a_start_stands_beside_java_and_beside_what_it_cannot_do_without() -> None:
    found = power_loss.Starts(
        [1.0, 2.0, 3.0], [4.0], [Opened(0.5, 0, 1 << 30, 9)], [AtLeast(10, 0.1, 1 << 30, 0.15)]
    )
    broker, alone = power_loss.figures("row", "10 queues", found, power_loss.at_most(3.0))
    assert (broker.value, broker.ratio, broker.reached) == (2.0, 0.5, True)
    assert alone.ratio == pytest.approx(2.0) and "10 queue files and 1.00 GiB" in broker.note
    found.java = []
    assert power_loss.figures("row", "10 queues", found)[0].ratio is None


def test_a_log_of_many_files_lives_under_a_limit_of_few_descriptors(tmp_path: Path) -> None:
    root, files, queues = tmp_path / "store", 100, 400
    apart(terabyte.lay, root, files, queues, FILE_BYTES)
    taken = sum(path.stat().st_blocks for path in (root / "commitlog").iterdir()) * 512
    assert taken < files * FILE_BYTES / 5
    life = apart(terabyte.live, root, files, queues, FILE_BYTES, 400)
    assert life.read == 2 * files and life.descriptors < 400


def test_more_descriptors_than_the_limit_end_the_measurement(tmp_path: Path) -> None:
    root = tmp_path / "store"
    apart(terabyte.lay, root, 4, 400, FILE_BYTES)
    with pytest.raises(ChildFailed, match="Too many open files|descriptors"):
        apart(terabyte.live, root, 4, 400, FILE_BYTES, 40)
