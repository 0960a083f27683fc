"""Catching up with a log, on a mock Kafka (following it needs a real one: tests/integration)."""

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.codec import encode
from events.commands import ChangeSettings
from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from processors.log.controller_log import ControllerLog, all_ready
from processors.log.outcomes import OutcomePublisher
from processors.log.reader import LogBroken, LogUnreachable
from processors.log.snapshots import SnapshotFolder
from processors.log.start_notes import StartNotes
from processors.settings.config import ControllerConfig
from tests.support.brokers import until
from tests.support.controller_rig import Rig
from tests.support.mock_kafka import mock_kafka


async def fill(kafka: dict[str, str], rig: Rig, published: int) -> None:
    """The rig's history into the topics; outcomes up to the offset `published`."""
    loop = asyncio.get_running_loop()
    commands = LogProducer(kafka, COMMANDS_TOPIC, loop)
    for record in rig.log.records:
        commands.append(record, lambda offset: None)
    outcomes = OutcomePublisher(kafka, loop, lambda offset, ok: None)
    await outcomes.warm_up()
    for outcome in rig.published[: published + 1]:
        outcomes.publish(outcome)
    await commands.close(timeout_s=20)
    await outcomes.close()


def controller_log(folder: Path, kafka: dict[str, str], **changes: object) -> ControllerLog:
    fields: dict[str, object] = {
        "controller_id": "c1",
        "cluster_id": "cluster",
        "data_dir": folder,
        "kafka": kafka,
    }
    config = ControllerConfig.model_validate(fields | changes)
    return ControllerLog(config, on_record=lambda offset, data: None, on_halt=pytest.fail)


async def test_the_whole_log_is_folded_and_what_is_not_published_is_kept(tmp_path: Path) -> None:
    rig = Rig().lead().three()
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=4)
        log = controller_log(tmp_path, kafka)
        folder, unpublished = await log.catch_up()
        assert (folder.offset, folder.digest, folder.state) == (
            rig.folder.offset,
            rig.folder.digest,
            rig.state,
        )
        assert [one.command_offset for one in unpublished] == list(range(5, rig.folder.offset + 1))
        answers: list[int | None] = []
        log.ask_end(answers.append)
        log.ask_last_published(answers.append)
        await until(lambda: len(answers) == 2, "both questions are answered")
        assert set(answers) == {4, len(rig.log.records)}
        await log.close(snapshot=False)


async def test_outcomes_that_cannot_be_read_keep_no_question_about_the_commands_waiting(
    tmp_path: Path,
) -> None:
    """At a takeover while a node that leads only their topic is paused, the new leader would count
    as cut from the log.
    """
    rig = Rig().lead().three()
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=4)
        log = controller_log(tmp_path, kafka)
        await log.catch_up()
        gate, answers = threading.Event(), {"end": [], "first": [], "second": []}  # type: ignore[var-annotated]
        readable = log._refold.last_published
        log._refold.last_published = lambda: readable() if gate.wait(30) else -1  # type: ignore[method-assign]
        log.ask_last_published(answers["first"].append)
        log.ask_last_published(answers["second"].append)
        log.ask_end(answers["end"].append)
        await until(
            lambda: len(answers["end"]) == len(answers["second"]) == 1, "the log's end is told"
        )
        assert answers == {"end": [len(rig.log.records)], "first": [], "second": [None]}
        gate.set()
        await until(lambda: answers["first"] == [4], "the newest outcome is told")
        await log.close(snapshot=False)


async def test_a_snapshot_shortens_the_way_but_never_beyond_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)
    rig = Rig().lead().three()
    SnapshotFolder(tmp_path / "snapshots", 3).write(rig.folder)
    early = rig.folder.offset
    rig.alter("1,2", 2)
    SnapshotFolder(tmp_path / "snapshots", 3).write(rig.folder)
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=early)
        log = controller_log(tmp_path, kafka)
        folder, unpublished = await log.catch_up()
        assert folder.digest == rig.folder.digest
        assert [one.command_offset for one in unpublished] == list(
            range(early + 1, rig.folder.offset + 1)
        )
        await log.close(snapshot=False)


async def test_a_log_that_is_shorter_than_its_outcomes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.log.start.BEHIND_WAIT_S", 0.3)
    rig = Rig().lead().three()
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=rig.folder.offset)
        shorter = Rig().lead()
        with mock_kafka() as other:
            await fill(other, shorter, published=-1)
            await fill_outcomes_only(other, rig)
            log = controller_log(tmp_path, other)
            with pytest.raises(LogBroken, match="cut or made anew"):
                await log.catch_up()
            await log.close(snapshot=False)


async def fill_outcomes_only(kafka: dict[str, str], rig: Rig) -> None:
    outcomes = OutcomePublisher(kafka, asyncio.get_running_loop(), lambda offset, ok: None)
    await outcomes.warm_up()
    for outcome in rig.published:
        outcomes.publish(outcome)
    await outcomes.close()


async def test_the_log_of_another_cluster_is_refused(tmp_path: Path) -> None:
    rig = Rig().lead()
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=1)
        log = controller_log(tmp_path, kafka, cluster_id="another")
        with pytest.raises(LogBroken, match="belongs to the cluster"):
            await log.catch_up()
        await log.close(snapshot=False)
    assert OUTCOMES_TOPIC == "regent.outcomes"


async def test_a_snapshot_remembers_from_where_on_it_knows_every_command(tmp_path: Path) -> None:
    """Else the next start would decide a command that came too late, and which all others
    refuse.
    """
    rig = Rig().lead().three()
    rig.folder.recent.forget_before(rig.folder.offset - 2)
    with mock_kafka() as kafka:
        log = controller_log(tmp_path, kafka)
        log._folder = rig.folder
        await log._snapshot()
        await log.close(snapshot=False)
    written = next(SnapshotFolder(tmp_path / "snapshots", 3).newest_first(rig.folder.offset))
    assert written.recent.complete_from == rig.folder.recent.complete_from == rig.folder.offset - 2
    assert list(written.recent.items()) == list(rig.folder.recent.items())


async def test_another_digest_stops_a_start_from_a_snapshot_but_not_from_the_whole_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)
    rig = Rig().lead().three()
    snapshots = SnapshotFolder(tmp_path / "snapshots", 3)
    snapshots.write(rig.folder)
    before = rig.folder.offset
    envelope = rig.core._context.envelope(bytes(16), "test")
    rig.log.records.append(
        encode(
            ChangeSettings(
                replace(envelope, applied_digest=b"x" * 32), {"dedupeWindowOffsets": "9"}
            )
        )
    )
    with mock_kafka() as kafka:
        await fill(kafka, rig, published=before)
        log = controller_log(tmp_path, kafka)
        with pytest.raises(LogBroken, match="move .*snapshots away"):
            await log.catch_up()
        await log.close(snapshot=False)
        for path in (tmp_path / "snapshots").iterdir():
            path.unlink()
        again = controller_log(tmp_path, kafka)
        folder, _ = await again.catch_up()
        assert folder.offset == before + 1 and "its issuer was wrong" in caplog.text
        await again.close(snapshot=False)


def test_an_address_that_keeps_changing_is_not_written_down_each_time(tmp_path: Path) -> None:
    log = controller_log(tmp_path, {"bootstrap.servers": "x:1"}, peers={"c2": "h:1"})
    for port in range(100):
        log.heard_peer({"controllerId": "c2", "httpAddress": f"h:{port}"})
        log.heard_peer({"controllerId": "c2", "httpAddress": "h" * 300 + f":{port}"})
        log.heard_peer({"controllerId": "stranger", "httpAddress": f"h:{port}"})
    assert StartNotes(tmp_path).peers_http() == {"c2": "h:0"}


async def test_a_kafka_that_goes_away_while_a_controller_starts_is_an_unreachable_log() -> None:
    producer = LogProducer(
        {"bootstrap.servers": "127.0.0.1:1"}, COMMANDS_TOPIC, asyncio.get_running_loop()
    )
    with pytest.raises(LogUnreachable, match="went away"):
        await all_ready(producer.warm_up(timeout_s=0.1))
    await producer.close()
