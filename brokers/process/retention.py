"""Keeping the disk of a broker from filling up, and saying when it is full.

Responsible for: deleting what retention.py decides, at its period; telling when the store stops and
begins again to take messages. Refuses to know: which files may go, who reads them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from brokers.clock import Clock
from brokers.process.config import BrokerConfig
from brokers.replica.replica_port import Replica
from brokers.store.files.disk_space import used_ratio
from brokers.store.files.errors import LogError
from brokers.store.files.json_files import JsonFile
from brokers.store.log.held_time import HELD_TIME_FILE, HeldTime, held_time_of
from brokers.store.log.retention import Limits, LogFile, Policy, decide
from brokers.store.store import MessageStore
from brokers.store.trimming import trim

PERIOD_MS = 10_000
LOOK_MS = 1_000
# What a killed run forgets, at most, of how long it held its files.
SAVE_MS = 600_000

_log = logging.getLogger("regent.broker.retention")


def retention_policy(config: BrokerConfig) -> Policy:
    """What may be deleted when."""
    return Policy(
        config.file_reserved_hours * 3_600_000,
        frozenset(int(hour) for hour in config.delete_when.split(";")),
        config.disk_max_used_percent,
        config.disk_clean_forcibly_percent,
        config.disk_full_percent,
    )


def make_retention(
    config: BrokerConfig,
    replica: Replica,
    clock: Clock,
    report: Callable[[str, Mapping[str, object]], None],
) -> RetentionTask:
    """As this broker is configured."""
    return RetentionTask(
        replica.store,
        retention_policy(config),
        clock,
        wanted=replica.wanted_offset,
        trimmed=replica.log_trimmed,
        report=report,
        failed=replica.storage_failed,
    )


class RetentionTask:
    """`wanted()`: offset from which linked slaves still copy, None when there are none;
    `trimmed()`: the log begins later now; `failed(reason)`: the disk refused. `policy` may be
    changed at any time.
    """

    def __init__(
        self,
        store: MessageStore,
        policy: Policy,
        clock: Clock,
        *,
        wanted: Callable[[], int | None],
        trimmed: Callable[[], None],
        report: Callable[[str, Mapping[str, object]], None],
        failed: Callable[[str], None],
    ) -> None:
        self._store = store
        self.policy = policy
        self._clock = clock
        self._wanted = wanted
        self._trimmed = trimmed
        self._report = report
        self._failed = failed
        self._full_since_ms: int | None = None
        self._held_file = JsonFile(store.root / "config" / HELD_TIME_FILE)
        self._held = self._loaded()
        self._saved, self._held_until_ms = self._held, clock.now_ms()

    def _loaded(self) -> HeldTime:
        try:
            return self._held_file.decoded(held_time_of) or HeldTime()
        except (LogError, OSError) as error:
            _log.warning(
                "%s: all files of the log count as new, and stay for the whole reserved time", error
            )
            return HeldTime()

    async def run(self) -> None:
        """For as long as the broker runs."""
        rounds = 0
        while True:
            self.look()
            if rounds % (PERIOD_MS // LOOK_MS) == 0:
                await self.clean()
            rounds += 1
            await asyncio.sleep(LOOK_MS / 1000)

    def look(self) -> None:
        """Notes, and reports once, that the store refuses messages or accepts them again."""
        self._store.full = (
            None
            if self._used_percent() <= self.policy.full_percent
            else ("the disk is as full as it may be")
        )
        self._store.log.ask_for_room()
        reason, now_ms = self._store.writable(), self._clock.now_ms()
        if reason is not None and self._full_since_ms is None:
            self._full_since_ms = now_ms
            _log.error("no more messages are taken: %s", reason)
            self._report("DiskFull", {"log_end": self._store.log_end, "reason": reason})
        elif reason is None and self._full_since_ms is not None:
            full_for_ms, self._full_since_ms = now_ms - self._full_since_ms, None
            _log.warning("messages are taken again after %d ms", full_for_ms)
            self._report(
                "DiskWritable", {"log_end": self._store.log_end, "full_for_ms": full_for_ms}
            )

    def _used_percent(self) -> float:
        return 100 * used_ratio(self._store.root)

    async def clean(self, *, whatever_hour: bool = False) -> None:
        """One round of deleting. The wall clock says at which hour, never what is old."""
        hour = time.localtime().tm_hour
        policy = replace(self.policy, hours=frozenset((hour,))) if whatever_hour else self.policy
        files = await self._held_files()
        if len(files) < 2:
            return
        wanted, confirmed = (
            self._wanted(),
            min(self._store.confirm_offset, self._store.remembered_offset),
        )
        limits = Limits(confirmed, confirmed if wanted is None else wanted)
        made = decide(policy, files, limits, self._used_percent(), self._held.ran_ms, hour)
        if not made.reason:
            return
        before = self._store.log_min
        try:
            remove = trim(
                self._store.log,
                self._store.queues,
                made.delete_below,
                self._store.remembered_offset,
            )
            await asyncio.to_thread(remove)
        except (LogError, OSError) as error:
            self._failed(f"old files of the log cannot be deleted: {error}")
            return
        self._trimmed()
        _log.warning("log files below %d are deleted: %s", self._store.log_min, made.reason)
        self._report(
            "LogTrimmed",
            {"from_offset": before, "to_offset": self._store.log_min, "reason": made.reason},
        )

    async def _held_files(self) -> list[LogFile]:
        now_ms, log = self._clock.now_ms(), self._store.log
        starts = log.file_starts
        self._held = self._held.after(now_ms - self._held_until_ms, starts, log.store_ms_at)
        self._held_until_ms = now_ms
        if (
            self._held.begun.keys() != self._saved.begun.keys()
            or self._held.ran_ms - self._saved.ran_ms >= SAVE_MS
        ):
            try:
                await asyncio.to_thread(self._held_file.save, self._held.document())
                self._saved = self._held
            except (LogError, OSError) as error:
                _log.warning("how long the log's files were held cannot be written: %s", error)
        return self._held.oldest(starts)
