"""Outcomes folded again from the log (design D7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC
from processors.fold.folder import Folder
from processors.log.outcome_refold import OutcomeRefold
from processors.log.outcomes import OutcomePublisher
from processors.log.reader import LogReader
from processors.log.snapshots import SnapshotFolder
from tests.support.controller_rig import Rig
from tests.support.mock_kafka import mock_kafka


async def test_pieces_of_history_come_out_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)
    rig = Rig().lead().three()
    folder, snapshots = Folder(), SnapshotFolder(tmp_path, 3)
    outcomes = [folder.apply(offset, data).outcome for offset, data in enumerate(rig.log.records)]
    half = Folder()
    for offset in range(3):
        half.apply(offset, rig.log.records[offset])
    snapshots.write(half)
    with mock_kafka() as kafka:
        commands = LogProducer(kafka, COMMANDS_TOPIC, asyncio.get_running_loop())
        await commands.warm_up()
        for record in rig.log.records:
            commands.append(record, lambda offset: None)
        await commands.close(timeout_s=20)
        publisher = OutcomePublisher(kafka, asyncio.get_running_loop(), lambda offset, ok: None)
        await publisher.warm_up()
        for outcome in outcomes:
            publisher.publish(outcome)
        await publisher.close()
        refold = OutcomeRefold(lambda: LogReader(kafka), snapshots)
        for first, end in ((4, 6), (6, 8), (1, 4)):
            found = await asyncio.to_thread(refold.outcomes, first, end)
            assert found == outcomes[first:end]
        await asyncio.to_thread(refold.close)
