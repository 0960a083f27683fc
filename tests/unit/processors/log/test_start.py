"""Where a controller begins: which snapshot is believed, which is fetched, what is refused (design
D4, S11).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.log.landed_tables import LandedTables
from processors.log.outcomes import OutcomePublisher
from processors.log.reader import LogBroken, LogReader, LogUnreachable
from processors.log.snapshots import SnapshotFolder
from processors.log.start import StartFold, progress_text
from processors.log.start_notes import StartNotes
from processors.settings.config import ControllerConfig
from tests.support.controller_rig import Rig
from tests.support.landed_log import command_records, lake_in, land
from tests.support.mock_kafka import mock_kafka
from tests.unit.processors.log.test_snapshots import answering


@pytest.fixture(autouse=True)
def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was folded when something happens does not hang on how many are folded
    together.
    """
    monkeypatch.setattr("processors.log.start.RECORDS_TOGETHER", 1)
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)


async def fill(kafka: dict[str, str], rig: Rig) -> None:
    loop = asyncio.get_running_loop()
    commands = LogProducer(kafka, COMMANDS_TOPIC, loop)
    outcomes = OutcomePublisher(kafka, loop, lambda offset, ok: None)
    await outcomes.warm_up()
    for record in rig.log.records:
        commands.append(record, lambda offset: None)
    for outcome in rig.published:
        outcomes.publish(outcome)
    await commands.close(timeout_s=20)
    await outcomes.close()


class Start:
    """One start in a folder of its own; `folded` are the offsets that were really read."""

    def __init__(self, folder: Path, kafka: dict[str, str], **changes: object) -> None:
        fields = {
            "controller_id": "c1",
            "cluster_id": "cluster",
            "data_dir": folder,
            "kafka": kafka,
            "snapshot_fetch_gap": 3,
        }
        self.config = ControllerConfig.model_validate(fields | changes)
        self.snapshots = SnapshotFolder(folder / "snapshots", 3)
        self.notes = StartNotes(folder)
        self.kafka = kafka
        self.folded: list[int] = []
        self.cancelled_after: int | None = None

    async def run(self) -> Folder:
        reader = LogReader(self.kafka)
        start = StartFold(
            self.config,
            reader,
            self.snapshots,
            self.notes,
            on_progress=self.folded.append,
            cancelled=lambda: (
                self.cancelled_after is not None and len(self.folded) >= self.cancelled_after
            ),
        )
        try:
            return (await asyncio.to_thread(start.run))[0]
        finally:
            reader.close()


async def test_a_log_that_is_shorter_than_the_tables_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.log.start.BEHIND_WAIT_S", 0.3)
    # a start does without the answer when it is late: here it comes
    patient = partial(LandedTables, wait_s=60)
    monkeypatch.setattr("processors.log.start.LandedTables", patient)
    rig, _ = history()
    lake = lake_in(tmp_path / "tables", "cluster")
    land(lake, command_records(rig.log.records))
    rig.log.records.pop()
    rig.published.pop()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        with pytest.raises(
            LogBroken,
            match=(
                f"up to offset {len(rig.log.records)} have landed in .*regent controller rebuild"
            ),
        ):
            await Start(tmp_path / "c1", kafka, tables=lake.root).run()
        for tables in (str(tmp_path / "nothing"), ""):
            folder = await Start(tmp_path / "c2", kafka, tables=tables).run()
            assert folder.offset == len(rig.log.records) - 1


async def test_a_log_as_long_as_the_tables_or_longer_starts(tmp_path: Path) -> None:
    rig, _ = history()
    lake = lake_in(tmp_path / "tables", "cluster")
    land(lake, command_records(rig.log.records[:-1]))
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        folder = await Start(tmp_path / "c1", kafka, tables=lake.root).run()
    assert folder.offset == len(rig.log.records) - 1


def history(alterations: int = 4) -> tuple[Rig, Folder]:
    """A rig with a history, and its folder half way."""
    rig = Rig().lead().three()
    half = rig.folder.copy()
    for number in range(alterations):
        rig.alter("1,2" if number % 2 == 0 else "1,2,3", rig.state.sets["a"].sync_state_set_epoch)
    return rig, half


def wrong(half: Folder) -> bytes:
    """A snapshot of that very history in which one replica has another address; its own digest is
    right.
    """
    name, broker_set = next(iter(half.state.sets.items()))
    replicas = (replace(broker_set.replicas[0], address="stranger:666"), *broker_set.replicas[1:])
    state = replace(
        half.state, sets=half.state.sets.set(name, replace(broker_set, replicas=replicas))
    )
    return snapshot_codec.dump(Folder(state, half.offset, half.digest, half.recent.copy()))


async def test_an_own_snapshot_whose_state_is_not_the_published_one_is_refused_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig, half = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka, snapshot_fetch_gap=1_000)
        start.snapshots.write(half).write_bytes(wrong(half))
        folder = await start.run()
    assert folder.digest == rig.folder.digest and start.folded[0] == 0
    assert folder.state == rig.folder.state
    assert (
        f"own snapshot at offset {half.offset} is not used: its state is not the one that was "
        "published"
    ) in caplog.text


async def test_a_snapshot_of_an_offset_without_a_published_state_is_folded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As older releases published.
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1_000)
    rig, half = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka, snapshot_fetch_gap=1_000)
        start.snapshots.write(half)
        folder = await start.run()
    assert (
        folder.digest == rig.folder.digest
        and start.folded[-1] == rig.folder.offset
        and ("no digest of the state") in caplog.text
    )


async def test_a_log_that_ends_below_what_a_stopped_controller_had_applied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.log.start.BEHIND_WAIT_S", 0.0)
    rig, _ = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka)
        start.notes.keep_applied_offset(rig.folder.offset + 1)
        with pytest.raises(LogBroken, match="was cut or made anew"):
            await start.run()


async def test_the_newest_snapshot_bounds_what_is_folded(tmp_path: Path) -> None:
    rig, half = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka, snapshot_fetch_gap=1_000)
        start.snapshots.write(half)
        folder = await start.run()
    assert folder.digest == rig.folder.digest
    assert start.folded == list(range(half.offset + 1, rig.folder.offset + 1))


async def test_records_that_are_folded_together_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.log.start.RECORDS_TOGETHER", 4)
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 100)
    rig, _ = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka)
        folder = await start.run()
    assert folder.digest == rig.folder.digest
    assert start.folded[:2] == [3, 7] and start.folded[-1] == rig.folder.offset


async def test_a_start_that_is_given_up_ends_in_the_middle_of_the_history(tmp_path: Path) -> None:
    rig, _ = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka)
        start.cancelled_after = 2
        with pytest.raises(LogUnreachable):
            await start.run()
    assert start.folded == [0, 1]


async def test_a_missing_snapshot_is_fetched_from_a_peer_proven_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig, half = history()
    data = snapshot_codec.dump(half)
    with mock_kafka() as kafka, answering(200, data) as (peer, asked):
        await fill(kafka, rig)
        start = Start(tmp_path, kafka, peers_http={"c0": "127.0.0.1:1", "c2": peer})
        folder = await start.run()
    assert asked == [f"/snapshot?not_above={rig.folder.offset}"]
    assert folder.digest == rig.folder.digest and start.folded[0] == half.offset + 1
    assert start.snapshots.offsets() == [half.offset]
    assert (
        "no snapshot from c0"
    ) in caplog.text and f"snapshot at offset {half.offset} fetched from c2" in caplog.text


@pytest.mark.parametrize(
    "kind",
    [
        "garbage",
        "other version",
        "other history",
        "other cluster",
        "from the future",
        "well-formed and wrong",
    ],
)
async def test_a_peers_snapshot_that_is_not_of_this_history_is_never_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    rig, half = history()
    stranger, _ = history(alterations=30)
    stranger.folder.offset, good = half.offset, snapshot_codec.dump(half)
    future = half.copy()
    future.offset = 10_000
    data = {
        "garbage": b"<html>",
        "other version": good.replace(b"regent-snapshot ", b"regent-snapshot 9", 1),
        "other history": snapshot_codec.dump(stranger.folder),
        "from the future": snapshot_codec.dump(future),
        "other cluster": good.replace(b'"cluster"', b'"another"'),
        ("well-formed and wrong"): wrong(half),
    }[kind]
    with mock_kafka() as kafka, answering(200, data) as (peer, _):
        await fill(kafka, rig)
        start = Start(tmp_path, kafka, peers_http={"c2": peer})
        folder = await start.run()
    assert folder.digest == rig.folder.digest and start.folded == list(range(rig.folder.offset + 1))
    assert half.offset not in start.snapshots.offsets()
    assert kind != (
        "well-formed and wrong"
    ) or "c2's snapshot at offset 6 is not used: its state is not" in caplog.text.replace(
        str(half.offset), "6"
    )


async def test_an_own_snapshot_of_another_history_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig, half = history()
    other, _ = history(alterations=30)
    other.folder.offset = half.offset + 1
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka)
        start.snapshots.write(half)
        start.snapshots.write(other.folder)
        folder = await start.run()
    assert folder.digest == rig.folder.digest and start.folded[0] == half.offset + 1
    assert "another digest was published for it" in caplog.text


async def test_a_log_that_ends_below_a_snapshot_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.log.start.BEHIND_WAIT_S", 0.0)
    rig, _ = history()
    longer, _ = history(alterations=30)
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        start = Start(tmp_path, kafka)
        start.snapshots.write(longer.folder)
        with pytest.raises(LogBroken, match="was cut or made anew.*rebuild --from-delta"):
            await start.run()


async def test_a_long_fold_leaves_a_snapshot_so_that_the_next_start_is_short(
    tmp_path: Path,
) -> None:
    rig, _ = history()
    with mock_kafka() as kafka:
        await fill(kafka, rig)
        first = Start(tmp_path, kafka, snapshot_every_offsets=5)
        await first.run()
        second = Start(tmp_path, kafka)
        assert (await second.run()).digest == rig.folder.digest
    assert len(first.folded) == rig.folder.offset + 1 and second.folded == []


def test_progress_names_the_rate_and_the_time_left() -> None:
    assert progress_text(1_000, 5_000, 2.0) == "1000 of 5000 records, 500/s, 8 s left"
    assert progress_text(5_000, 5_000, 10.0) == "5000 of 5000 records, 500/s in 10.0 s"
