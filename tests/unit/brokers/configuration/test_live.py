"""25 and 26 at a broker: on the disk before they are answered, found by the next start, told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.configuration.live import LiveConfig, config_file, with_kept_changes
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand


class Peer:
    """Who asks."""

    peer = "10.0.0.9:4711"


class Asked:
    """One broker's configuration, and what became of it."""

    def __init__(self, folder: Path, **fields: object) -> None:
        self.written = BrokerConfig.model_validate(
            {"store_dir": folder, "controllers": ["c:1"], **fields}
        )
        self.told: list[tuple[str, Mapping[str, object]]] = []
        self.live = LiveConfig(
            self.written,
            folder,
            Clock(),
            lambda: {"brokerId": "0"},
            lambda kind, fields: self.told.append((kind, fields)),
        )

    async def ask(self, code: int, body: bytes = b"") -> RemotingCommand:
        answer = self.live.serves()[code].handler(
            Peer(),  # type: ignore[arg-type]
            RemotingCommand.request(code, body=body),
        )
        answer = answer if isinstance(answer, RemotingCommand) else await answer  # type: ignore[misc]
        assert isinstance(answer, RemotingCommand)
        return answer

    async def shown(self) -> dict[str, str]:
        lines = (await self.ask(26)).body.decode().splitlines()
        assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
        return dict(line.split("=", 1) for line in lines)


async def test_73_a_change_is_in_force_shown_kept_and_told(tmp_path: Path) -> None:
    asked, seen = Asked(tmp_path), []
    asked.live.when_changed(
        ["file_reserved_hours"], lambda now: seen.append(now.file_reserved_hours)
    )
    asked.live.when_changed(["delete_when"], lambda now: seen.append(now.delete_when))
    answer = await asked.ask(25, b"fileReservedTime=48\nflushDiskType=SYNC_FLUSH")
    assert (answer.code, answer.remark) == (0, "from the next start on: flush_disk")
    assert seen == [48] and (await asked.shown())["fileReservedTime"] == "48"
    assert asked.live.running.flush_disk == "async"
    next_start = with_kept_changes(asked.written, tmp_path)
    assert (next_start.file_reserved_hours, next_start.flush_disk) == (48, "sync")
    assert Asked(tmp_path).live.wanted == next_start
    ((kind, fields),) = asked.told
    assert kind == "BrokerConfigChanged" and fields["at_next_start"] == ["flush_disk"]
    assert fields["changes"] == ["file_reserved_hours: 72 -> 48", "flush_disk: async -> sync"]


async def test_the_version_grows_with_each_change_and_outlives_a_start(tmp_path: Path) -> None:
    for counter in (1, 2):
        asked = Asked(tmp_path)
        assert (await asked.ask(25, b"fileReservedTime=%d" % counter)).code == 0
        version = fastjson.loads((await asked.ask(26)).ext["version"])
        assert isinstance(version, dict) and version["counter"] == counter


async def test_a_refused_change_changes_nothing(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    for body, code in ((b"fileReservedTime=48\nlisten=x", 16), (b"fileReservedTime=x", 1)):
        assert (await asked.ask(25, body)).code == code
    assert (await asked.ask(25, b"nobody=knows")).code == 0
    assert asked.live.wanted == asked.written and not asked.told
    assert not config_file(tmp_path).path.exists()


async def test_a_change_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    (tmp_path / "config").write_text("no folder")
    answer = await asked.ask(25, b"fileReservedTime=48")
    assert answer.code == 1 and "written" in str(answer.remark)
    assert asked.live.wanted == asked.written and not asked.told


async def test_changes_at_once_follow_each_other(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    await asyncio.gather(*(asked.ask(25, b"fileReservedTime=%d" % n) for n in (1, 2, 3)))
    assert asked.live.running.file_reserved_hours == 3 and len(asked.told) == 3
    assert with_kept_changes(asked.written, tmp_path).file_reserved_hours == 3


async def test_a_file_of_changes_that_cannot_be_read_is_named_and_the_broker_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config_file(tmp_path).path.parent.mkdir()
    config_file(tmp_path).path.write_text("torn")
    asked = Asked(tmp_path)
    assert asked.live.wanted == asked.written and "brokerConfig.json" in caplog.text
    assert (await asked.ask(25, b"fileReservedTime=5")).code == 0
    assert with_kept_changes(asked.written, tmp_path).file_reserved_hours == 5
