"""Clean and unclean starts: what counts as lost bytes, and that it is not forgotten before the
replica caught up.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.store.files.durable import AbortMarker
from brokers.store.recovery.boot import (
    Boot,
    BootMarker,
    Traces,
    judge,
    machine_boot_id,
    machine_boot_s,
)
from brokers.store.recovery.checkpoint import Checkpoint, write_checkpoint


def begin(marker: BootMarker, store_has_data: bool, boot_id: str) -> Boot:
    boot = marker.examine(store_has_data, boot_id)
    marker.begin(boot)
    return boot


@pytest.mark.parametrize(
    ("marker", "boot_id", "store_has_data", "clean"),
    [
        (None, "x", False, True),
        (None, "x", True, False),
        ({"boot_id": "x", "flushed_exit": False}, "x", True, True),
        ({"boot_id": "x", "flushed_exit": False}, "y", True, False),
        ({"boot_id": "x", "flushed_exit": True}, "y", True, True),
        ({"boot_id": "x", "flushed_exit": True, "io_error": True}, "x", True, False),
        ({"boot_id": "", "flushed_exit": False}, "", True, False),
    ],
)
def test_a_start_is_clean_only_when_written_bytes_survived(
    marker: dict[str, object] | None, boot_id: str, store_has_data: bool, clean: bool
) -> None:
    assert judge(marker, boot_id, store_has_data)[0] is clean


def test_a_killed_process_on_the_same_boot_is_clean(tmp_path: Path) -> None:
    first = begin(BootMarker(tmp_path), False, "boot-1")
    second = begin(BootMarker(tmp_path), True, "boot-1")
    assert (
        second.clean
        and second.same_boot
        and not first.same_boot
        and first.incarnation != second.incarnation
    )


def test_an_unclean_start_stays_unclean_until_the_replica_caught_up(tmp_path: Path) -> None:
    begin(BootMarker(tmp_path), False, "boot-1")
    assert not begin(BootMarker(tmp_path), True, "boot-2").clean
    marker = BootMarker(tmp_path)
    assert not begin(marker, True, "boot-2").clean
    marker.caught_up()
    assert begin(BootMarker(tmp_path), True, "boot-2").clean


def test_a_flushed_exit_survives_a_reboot_and_an_io_error_does_not(tmp_path: Path) -> None:
    marker = BootMarker(tmp_path)
    begin(marker, False, "boot-1")
    marker.flushed_exit()
    marker = BootMarker(tmp_path)
    assert begin(marker, True, "boot-2").clean
    marker.io_error()
    marker.flushed_exit()
    assert not begin(BootMarker(tmp_path), True, "boot-2").clean


def test_a_torn_marker_is_unclean(tmp_path: Path) -> None:
    (tmp_path / "runMarker").write_bytes(b'{"boot')
    assert not begin(BootMarker(tmp_path), True, "x").clean


def test_a_system_without_boot_id_has_an_empty_one(tmp_path: Path) -> None:
    assert machine_boot_id(tmp_path / "none") == ""


def test_an_io_error_counts_also_when_the_disk_takes_no_marker_any_more(tmp_path: Path) -> None:
    marker = BootMarker(tmp_path)
    begin(marker, False, "boot-1")
    (tmp_path / "runMarker.tmp").mkdir()  # nothing can be written beside the marker
    marker.io_error()
    assert not BootMarker(tmp_path).examine(True, "boot-1").clean


def test_what_an_unclean_start_could_trust_is_kept_until_it_caught_up(tmp_path: Path) -> None:
    begin(BootMarker(tmp_path), False, "boot-1")
    marker = BootMarker(tmp_path)
    boot = marker.examine(True, "boot-2")
    assert boot.trusted_end is None
    marker.begin(replace(boot, trusted_end=700))
    again = BootMarker(tmp_path)
    assert begin(again, True, "boot-2").trusted_end == 700
    again.caught_up()
    assert BootMarker(tmp_path).examine(True, "boot-2").trusted_end is None


FLUSHED = {"boot_id": "x", "flushed_exit": True, "checkpoint": 7}
KILLED = {"boot_id": "x", "flushed_exit": False}


@pytest.mark.parametrize(
    ("marker", "boot_id", "traces", "verdict"),
    [
        # a folder that only Java brokers used
        (None, "x", Traces(checkpoint=7), (True, "foreign_flushed_exit")),
        (None, "x", Traces(True, True, 7), (True, "foreign_same_boot")),
        (None, "x", Traces(True, False, 7), (False, "foreign_other_boot")),
        (None, "x", Traces(), (False, "no_marker")),
        # ours ended in order, then a Java broker used it
        (FLUSHED, "y", Traces(checkpoint=7), (True, "flushed_exit")),
        (FLUSHED, "y", Traces(checkpoint=8), (True, "foreign_flushed_exit")),
        (FLUSHED, "y", Traces(True, False, 7), (False, "foreign_other_boot")),
        (FLUSHED, "y", Traces(True, False, 8), (False, "foreign_other_boot")),
        (FLUSHED, "y", Traces(True, True, 8), (True, "foreign_same_boot")),
        (FLUSHED, "x", Traces(True, False, 8), (True, "same_boot")),
        (FLUSHED | {"io_error": True}, "x", Traces(checkpoint=8), (False, "io_error")),
        # ours did not end in order: no later run makes good what that one may have lost
        (KILLED, "y", Traces(checkpoint=8), (False, "other_boot")),
        (KILLED, "y", Traces(True, True, 8), (False, "other_boot")),
        (KILLED, "x", Traces(True, True, 8), (True, "same_boot")),
    ],
)
def test_a_folder_that_another_broker_used_is_judged_by_what_that_one_left(
    marker: dict[str, object] | None, boot_id: str, traces: Traces, verdict: tuple[bool, str]
) -> None:
    assert judge(marker, boot_id, True, traces) == verdict


def test_an_orderly_end_of_ours_is_stale_once_another_broker_began_on_the_folder(
    tmp_path: Path,
) -> None:
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1, 1, 0, 5, 5))
    marker = BootMarker(tmp_path)
    begin(marker, False, "boot-1")
    marker.flushed_exit(5)
    boot = BootMarker(tmp_path).examine(True, "boot-2")
    assert (boot.clean, boot.reason, boot.log_end) == (True, "flushed_exit", 5)
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(2, 2, 0, None, 9))
    assert BootMarker(tmp_path).examine(True, "boot-2").reason == "foreign_flushed_exit"
    AbortMarker(tmp_path).set()
    begun = BootMarker(tmp_path).examine(True, "boot-2")
    assert (begun.clean, begun.reason, begun.same_boot) == (True, "foreign_same_boot", True)
    before_the_machine = (machine_boot_s() or 0) - 60
    os.utime(tmp_path / "abort", (before_the_machine, before_the_machine))
    lost = BootMarker(tmp_path).examine(True, "boot-2")
    assert (lost.clean, lost.reason, lost.same_boot) == (False, "foreign_other_boot", False)
    # a clock that cannot be believed
    os.utime(tmp_path / "abort", (time.time() + 9e6, time.time() + 9e6))
    assert not BootMarker(tmp_path).examine(True, "boot-2").clean


def test_the_time_of_the_machines_start_is_known_or_not(tmp_path: Path) -> None:
    assert 0 < (machine_boot_s() or 0) <= time.time()
    assert machine_boot_s(tmp_path / "none") is None
    (tmp_path / "stat").write_text("cpu 1 2\n")
    assert machine_boot_s(tmp_path / "stat") is None


@pytest.mark.parametrize(
    "name", ["brokerIdentity", "epochFileCheckpoint", "epochFileCheckpointSeen"]
)
def test_a_folder_with_a_trace_of_an_earlier_life_and_no_marker_is_no_first_start(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("put back after the disk was lost")
    boot = begin(BootMarker(tmp_path), False, "boot-1")
    assert (boot.clean, boot.reason) == (False, "identity_without_marker")
    # a kill before it caught up washes nothing off
    assert not begin(BootMarker(tmp_path), False, "boot-1").clean


def test_a_first_start_killed_behind_its_identity_is_clean(tmp_path: Path) -> None:
    begin(BootMarker(tmp_path), False, "boot-1")
    (tmp_path / "brokerIdentity").write_text("c#a#1")
    assert begin(BootMarker(tmp_path), False, "boot-1").clean
