"""Outcomes into their topic, and where it ends (design D7)."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.codec import decode
from events.outcomes import Outcome
from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from processors.fold.folder import Folder
from processors.log.outcomes import (
    OutcomePublisher,
    OutcomeRefold,
    last_published,
    published_outcome,
)
from processors.log.reader import LogReader
from processors.log.snapshots import SnapshotFolder
from tests.support.brokers import until
from tests.support.controller_rig import Rig
from tests.support.mock_kafka import mock_kafka


def outcome(offset: int) -> Outcome:
    return Outcome(
        offset, bytes(16), "cluster", 1, "ElectMaster", "a", "", True, None, 0, digest=bytes(32)
    )


async def test_the_newest_published_offset_is_read_back() -> None:
    with mock_kafka() as kafka:
        results: list[tuple[int, bool]] = []
        publisher = OutcomePublisher(
            kafka, asyncio.get_running_loop(), lambda offset, ok: results.append((offset, ok))
        )
        await publisher.warm_up()
        for offset in (4, 5, 6):
            publisher.publish(outcome(offset))
        await publisher.close()
        assert results == [(4, True), (5, True), (6, True)]
        reader = LogReader(kafka)
        assert last_published(reader) == 6
        reader.close()


async def test_the_published_digest_of_a_command_is_found_behind_repeats_and_garbage() -> None:
    with mock_kafka() as kafka:
        loop = asyncio.get_running_loop()
        publisher = OutcomePublisher(kafka, loop, lambda offset, ok: None)
        await publisher.warm_up()
        stranger = LogProducer(kafka, OUTCOMES_TOPIC, loop)
        stranger.append(b"not an outcome", lambda offset: None)
        await stranger.close()
        for offset in (0, 1, 2, 1, 2, 3, 2, 3, 4):
            publisher.publish(replace(outcome(offset), digest=bytes([offset]) * 32))
        await publisher.close()
        reader = LogReader(kafka)
        assert [
            found.digest for offset in range(5) if (found := published_outcome(reader, offset))
        ] == [bytes([offset]) * 32 for offset in range(5)]
        assert published_outcome(reader, 5) is None
        reader.close()


async def test_an_unreadable_record_at_the_end_is_passed_over() -> None:
    with mock_kafka() as kafka:
        loop = asyncio.get_running_loop()
        publisher = OutcomePublisher(kafka, loop, lambda offset, ok: None)
        await publisher.warm_up()
        publisher.publish(outcome(4))
        await publisher.close()
        stranger = LogProducer(kafka, OUTCOMES_TOPIC, loop)
        stranger.append(b"not an outcome", lambda offset: None)
        await stranger.close()
        reader = LogReader(kafka)
        assert last_published(reader) == 4
        reader.close()


async def test_no_outcome_expires_while_the_log_is_away() -> None:
    """Else a later one could get through first, and what expired would be missing for ever."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, never listening: every connection is refused
        kafka = {
            "bootstrap.servers": f"127.0.0.1:{nobody.getsockname()[1]}",
            ("delivery.timeout.ms"): "100",
            "request.timeout.ms": "50",
        }
        loop = asyncio.get_running_loop()
        results: list[bool] = []
        publisher = OutcomePublisher(kafka, loop, lambda offset, ok: results.append(ok))
        publisher.publish(outcome(4))
        expired: list[int | None] = []
        impatient = LogProducer(kafka, OUTCOMES_TOPIC, loop)
        impatient.append(b"appended after the outcome", expired.append)
        await until(lambda: expired, "an ordinary record expires")
        assert results == []
        await impatient.close()
        await publisher.close()
        assert results == [False]


async def test_nothing_follows_an_outcome_that_failed_until_publishing_begins_again() -> None:
    """Whoever dies while repeating it leaves no hole behind which the next controller would go
    on.
    """
    with mock_kafka() as kafka:
        results: list[tuple[int, bool]] = []
        publisher = OutcomePublisher(
            {**kafka, "message.max.bytes": "3000"},
            asyncio.get_running_loop(),
            lambda *told: results.append(told),
        )
        await publisher.warm_up()
        too_large = replace(outcome(5), cause="x" * 4000)
        for one in (outcome(4), too_large, outcome(6)):
            publisher.publish(one)
        await until(lambda: len(results) == 3, "three reports")
        assert sorted(results) == [(4, True), (5, False), (6, False)]
        publisher.begin_again()
        for one in (outcome(5), outcome(6)):
            publisher.publish(one)
        await until(lambda: len(results) == 5, "two more")
        assert results[3:] == [(5, True), (6, True)]
        await publisher.close()
        reader = LogReader(kafka)
        first, end = reader.bounds(OUTCOMES_TOPIC)
        kept = [decode(reader.record(OUTCOMES_TOPIC, at)) for at in range(first, end)]
        assert [one.command_offset for one in kept] == [4, 5, 6]
        reader.close()


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
