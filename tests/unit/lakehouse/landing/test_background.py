"""What goes on beside landing, on real tables; the log's ends and the rhythm are the test's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.care.maintain import lake_locks
from lakehouse.errors import LakehouseError
from lakehouse.gold.job import Step
from lakehouse.gold.progress import NOTHING_TAKEN, Mark
from lakehouse.landing import background, log_probe
from lakehouse.landing.anchoring import read_anchors
from lakehouse.landing.background import Watch, beside
from lakehouse.landing.config import LandConfig
from lakehouse.landing.log_probe import LogEnds
from lakehouse.landing.status import LandingStatus, StatusFile, read_status
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, DECISIONS
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = sound_history().records
WAIT_S = 60.0
COMMANDS = "regent.commands-0"


def config_of(folder: Path, **more: object) -> LandConfig:
    return LandConfig.model_validate(
        {
            "kafka": {"bootstrap.servers": "none:1"},
            "tables": str(folder / "tables"),
            "checkpoint_dir": str(folder),
            "jars_dir": str(folder),
            "gold_every_s": 0,
            "check_every_s": 0,
            "maintain_every_s": 0,
            **more,
        }
    )


def until(status: StatusFile, done: Callable[[LandingStatus], bool]) -> LandingStatus:
    limit = time.monotonic() + WAIT_S
    while not done(status.status):
        assert time.monotonic() < limit, status.status
        time.sleep(0.01)
    return status.status


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], LogEnds]:
    found = {("regent.commands", 0): LogEnds(0, len(RECORDS) + 3)}
    monkeypatch.setattr(log_probe, "log_ends", lambda kafka, topics: found)
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lake_in(tmp_path / "tables")
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    return lake


def test_the_watch_puts_what_is_behind_into_the_status(
    tmp_path: Path, ends: dict[tuple[str, int], LogEnds]
) -> None:
    status = StatusFile(tmp_path)
    status.update(landed={COMMANDS: len(RECORDS)})
    watch = Watch(config_of(tmp_path), status)
    watch.step(lambda: False)
    assert status.status.lag_records == {COMMANDS: 3}
    time.sleep(0.01)
    watch.step(lambda: False)
    assert status.status.lag_ms[COMMANDS] >= 10
    status.update(landed={COMMANDS: len(RECORDS) + 3})
    watch.step(lambda: False)
    told = read_status(tmp_path)
    assert told is not None and (told.lag_records, told.lag_ms) == ({COMMANDS: 0}, {COMMANDS: 0})


def test_check_care_and_metrics_go_on_beside_landing(
    tmp_path: Path,
    lake: Lake,
    ends: dict[tuple[str, int], LogEnds],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append_to_bronze(lake, [("regent.commands", 0, len(RECORDS) + 5, RECORDS[-1])])
    for i in range(30):
        append_to_bronze(lake, [("regent.broker-events", 0, i, b"no event")])
    cared: list[str] = []
    real = background.maintain.maintain

    def told(*arguments: object, **more: object) -> object:
        for one in real(*arguments, **more):  # type: ignore[arg-type]
            cared.append(f"{one.table} {one.files_before} {one.files_after}")
            yield one

    monkeypatch.setattr(background.maintain, "maintain", told)
    monkeypatch.setattr(background, "WATCH_EVERY_S", 0.01)
    status = StatusFile(tmp_path)
    config = config_of(tmp_path, check_every_s=1, maintain_every_s=1, metrics_listen="127.0.0.1:0")
    locks = lake_locks(lake)
    with beside(config, lake, locks, status):
        status.batch_done("landed", {COMMANDS: 5}, 5, 100)
        found = until(
            status,
            lambda s: bool(
                s.alarms and s.lag_records and any(one.startswith(DECISIONS.name) for one in cared)
            ),
        )
    locks.close()
    assert found.alarms == 1, "five commands are missing"
    assert found.metrics and found.metrics.startswith("127.0.0.1:")
    assert f"{BRONZE.name} 33 4" in cared


def test_what_landed_is_anchored_beside_landing(
    tmp_path: Path, lake: Lake, ends: dict[tuple[str, int], LogEnds]
) -> None:
    status, file = StatusFile(tmp_path), tmp_path / "elsewhere"
    config = config_of(tmp_path, anchors_file=file, anchors_every_s=1)
    locks = lake_locks(lake)
    with beside(config, lake, locks, status):
        status.batch_done("landed", {COMMANDS: len(RECORDS)}, 5, 100)
        until(status, lambda s: file.exists())
    locks.close()
    [anchor] = read_anchors(str(file))[0]
    assert (anchor.topic, anchor.offset) == ("regent.commands", len(RECORDS) - 1)


def test_what_fails_is_told_in_the_status_and_forgotten_once_it_works(
    tmp_path: Path,
    lake: Lake,
    ends: dict[tuple[str, int], LogEnds],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "WATCH_EVERY_S", 0.01)
    answers, told = iter([ValueError("nobody answers")]), threading.Event()

    def asked(kafka: object, topics: object) -> dict[tuple[str, int], LogEnds]:
        if (error := next(answers, None)) is not None:
            raise error
        told.wait(WAIT_S)  # the trouble stands until the next round ends: not before it was seen
        return ends

    monkeypatch.setattr(log_probe, "log_ends", asked)
    status = StatusFile(tmp_path)
    locks = lake_locks(lake)
    with beside(config_of(tmp_path), lake, locks, status):
        assert until(status, lambda s: bool(s.troubles)).troubles == {
            "watch": ("ValueError: nobody answers")
        }
        told.set()
        until(status, lambda s: not s.troubles)
    locks.close()


def test_gold_is_made_piece_by_piece_and_a_piece_that_fails_is_made_again(
    tmp_path: Path,
    lake: Lake,
    ends: dict[tuple[str, int], LogEnds],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[Step | Exception] = [
        Step(5, 2, Mark(4, 0, 0, NOTHING_TAKEN)),
        LakehouseError("a hole"),
        Step(1, 1, Mark(5, 0, 0, NOTHING_TAKEN)),
    ]
    told: list[str | None] = []

    def step(job: object) -> Step:
        found = steps.pop(0) if steps else Step(0, 0, Mark(5, 0, 0, NOTHING_TAKEN))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(background.GoldJob, "step", step)
    status = StatusFile(tmp_path)
    monkeypatch.setattr(
        status, "troubled", lambda name, why: told.append(why) if name == "gold" else None
    )
    locks = lake_locks(lake)
    with beside(config_of(tmp_path, gold_every_s=1), lake, locks, status):
        until(status, lambda s: len(told) >= 2)
    locks.close()
    assert told[:2] == ["LakehouseError: a hole", None] and not steps
