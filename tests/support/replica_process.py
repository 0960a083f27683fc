"""A replica with real sockets, a real store and a real epoch file, for tests: what a broker process
holds besides client service. The test plays the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from brokers.ha.epoch_file import EpochFile
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.driver import ReplicaDriver
from brokers.replica.hooks import AlterResult, ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.store.log.records import MessageFields
from brokers.store.store import MessageStore, StoreConfig

FILE_BYTES = 1 << 16
CONFIG = ReplicaConfig(file_bytes=FILE_BYTES, ha_heartbeat_ms=100, batch_bytes=7000)


class ReplicaProcess:
    """`controller(effect)` answers proposals; None: never answered (unknown)."""

    def __init__(
        self,
        root: Path,
        broker_id: int,
        *,
        config: ReplicaConfig = CONFIG,
        controller: Callable[[fx.ProposeSyncSet], AlterResult] | None = None,
        flush: Callable[[int, Callable[[bool], None]], None] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.root = root
        self.store = MessageStore(
            root, StoreConfig(log_file_bytes=config.file_bytes), same_boot=True
        )
        epoch_file = EpochFile(root / "epochFileCheckpoint")
        epochs, seen = epoch_file.load()
        core = ReplicaCore(
            config,
            broker_id=broker_id,
            incarnation=f"{root.name}-{id(self)}",
            clean=True,
            epochs=epochs,
            epoch_seen=seen,
            none_of_seen=epoch_file.none_of_seen,
            log_end=self.store.log_end,
            log_min=self.store.log_min,
            confirm_offset=self.store.confirm_offset,
        )
        self.roles: list[fx.RoleChanged] = []
        self.events: list[tuple[str, dict]] = []
        self.asked: list[bool] = []
        self.command_ids: list[str] = []
        self.disk_errors: list[str] = []
        self._controller = controller
        hooks = ReplicaHooks(
            self._on_role,
            self._propose,
            self.asked.append,
            self._on_confirm,
            self._report,
            self.disk_errors.append,
        )
        self.driver = ReplicaDriver(core, self.store, epoch_file, hooks, flush=flush)
        self.core = core
        self.port = self.driver.listen("127.0.0.1", 0)
        self.driver.start()

    async def _on_role(self, change: fx.RoleChanged) -> None:
        self.roles.append(change)

    async def _propose(self, effect: fx.ProposeSyncSet, command_id: str) -> AlterResult:
        self.command_ids.append(command_id)
        return self._controller(effect) if self._controller else AlterResult(None)

    def _on_confirm(self, offset: int) -> None:
        self.store.dispatch_to(offset)

    def _report(self, kind: str, fields: dict) -> None:
        self.events.append((kind, fields))

    def reported(self, kind: str) -> list[dict]:
        return [fields for name, fields in self.events if name == kind]

    @property
    def log_bytes(self) -> bytes:
        data, offset = b"", self.store.log_min
        while offset < self.store.log_end:
            piece = self.store.read_log(offset, 1 << 20)
            data, offset = data + piece, offset + len(piece)
        return data

    def put(self, count: int = 1, body: bytes = b"x" * 100) -> int:
        """As a broker sends: refusal, store, growth, without an await between; returns the log
        end.
        """
        refusal = self.driver.write_refusal()
        assert refusal is None, refusal
        for _ in range(count):
            self.driver.log_grew(self.store.put(message(body), 1_700_000_000_000).end_offset)
        return self.store.log_end

    async def stop(self, *, clean: bool = True) -> None:
        await self.driver.stop()
        self.store.close(clean=clean)


def message(body: bytes) -> MessageFields:
    host = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
    return MessageFields("T", 0, body, b"", 1_700_000_000_000, host, host)


def elect(
    processes: list[ReplicaProcess],
    master: ReplicaProcess,
    epoch: int,
    members: tuple[int, ...],
    set_epoch: int | None = None,
) -> None:
    for process in processes:
        process.driver.notice(
            RoleNotice(
                master.broker_id,
                f"127.0.0.1:{master.port + 1}",
                f"127.0.0.1:{master.port}",
                epoch,
                members,
                10 * epoch if set_epoch is None else set_epoch,
                source="test",
            )
        )


async def until(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Wait for a condition; the limit is for a broken test only."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
    assert condition(), what
