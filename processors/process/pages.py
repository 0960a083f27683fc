"""What a controller shows over HTTP: metrics, health, readiness, log levels, its newest snapshot.

Responsible for: the pages, and what of the process's disk they tell. Refuses to know: sockets
(`http_front`), and what the figures mean.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.remoting.addresses import split_address
from events.http_front import HttpAnswer, HttpFront, Route, text
from processors.controller.context import LOGGER_ROOTS
from processors.controller.core import ControllerCore
from processors.controller.gauges import Gauges
from processors.controller.metrics import Metrics
from processors.controller.operators import LOG_LEVELS
from processors.log.controller_log import ControllerLog
from processors.log.snapshots import ETAG, NOT_ABOVE, PATH, SnapshotFolder, etag
from processors.process.effect_runner import monotonic_ms
from processors.process.metrics_text import CONTENT_TYPE, Disk, render
from processors.settings.config import ControllerConfig


def loggers() -> list[str]:
    """The names that a level can be set for: ours, and the names above
    them.
    """
    return sorted(
        name
        for name in tuple(logging.root.manager.loggerDict)
        if name.partition(".")[0] in LOGGER_ROOTS
    )


def is_logger(name: str) -> bool:
    """True for a logger of ours that is there."""
    return name.partition(".")[0] in LOGGER_ROOTS and name in logging.root.manager.loggerDict


def levels() -> dict[str, str]:
    """The root's level, and those of loggers that have one of their own."""
    own = {
        name: logging.getLevelName(one.level)
        for name, one in sorted(logging.root.manager.loggerDict.items())
        if isinstance(one, logging.Logger) and one.level != logging.NOTSET
    }
    return {"root": logging.getLevelName(logging.root.level), **own}


SNAPSHOT_TYPE = "application/octet-stream"
OFFSET_MAX = 2**63 - 1


def snapshot_route(snapshots: SnapshotFolder) -> Route:
    """The newest snapshot whose offset is at most the one asked for; 404 when there is none."""

    async def answer(query: Mapping[str, str]) -> HttpAnswer:
        asked = query.get(NOT_ABOVE, str(OFFSET_MAX))
        if not (asked.isascii() and asked.isdigit() and len(asked) <= len(str(OFFSET_MAX))):
            return text(400, f"{NOT_ABOVE} is an offset, not {asked[:32]!r}")
        found = await asyncio.to_thread(snapshots.newest_path, int(asked))
        if found is None:
            return text(404, f"no snapshot at or below offset {asked}")
        offset, path = found
        try:
            digest = await asyncio.to_thread(_digest_of, path)
        except OSError:
            return text(404, "it is gone; ask again")
        return HttpAnswer(200, SNAPSHOT_TYPE, path, {ETAG: etag(offset, digest)})

    return answer


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SNAPSHOTS = "snapshot-*.bin"


def disk_of(data_dir: Path, now_s: float) -> Disk:
    """What lies in the folder now. Files that vanish while it is looked at are left out."""
    used, newest, written_s = 0, -1, 0.0
    for path in data_dir.rglob("*"):
        try:
            found = path.stat()
        except OSError:
            continue
        if not path.is_file():
            continue
        used += found.st_size
        if path.match(SNAPSHOTS) and int(path.stem.partition("-")[2]) > newest:
            newest, written_s = int(path.stem.partition("-")[2]), found.st_mtime
    return Disk(used, newest, now_s - written_s if newest >= 0 else -1.0)


class ControllerPages:
    """`core`: None while the process starts."""

    def __init__(
        self,
        config: ControllerConfig,
        metrics: Metrics,
        core: Callable[[], ControllerCore | None],
        log: ControllerLog,
        more: Mapping[str, Route] | None = None,
    ) -> None:
        self._metrics, self._data_dir = metrics, config.data_dir
        self._who = {
            "address": config.advertised,
            "group": config.cluster_id,
            "peer_id": config.controller_id,
            **config.metrics_labels,
        }
        self._core, self._log = core, log
        routes: dict[str, Route] = {
            "/metrics": self._show_metrics,
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/loglevel": self._show_level,
            "PUT /loglevel": self._set_level,
            PATH: snapshot_route(log.snapshots),
        }
        self._front = (
            HttpFront(*split_address(config.http_listen), routes) if config.http_listen else None
        )

    @property
    def port(self) -> int | None:
        """The port that is listened on; None when HTTP is off."""
        return None if self._front is None else self._front.port

    async def start(self) -> None:
        """Listen, if HTTP is on. Raises OSError."""
        if self._front is not None:
            await self._front.start()

    async def close(self) -> None:
        if self._front is not None:
            await self._front.close()

    async def _show_metrics(self, _query: Mapping[str, str]) -> HttpAnswer:
        disk = await asyncio.to_thread(disk_of, self._data_dir, time.time())
        figures = await self._figures()
        page = await asyncio.to_thread(render, self._metrics, figures, disk, self._who)
        return HttpAnswer(200, CONTENT_TYPE, page)

    async def _figures(self) -> Gauges | None:
        """Step by step, so that nobody's decision waits for a scrape."""
        core = self._core()
        for step in () if core is None else core.figures(monotonic_ms()):
            if step is not None:
                return step
            await asyncio.sleep(0)
        return None

    async def _health(self, _query: Mapping[str, str]) -> HttpAnswer:
        """That this is answered is the point: the loop turns."""
        return text(200, "ok")

    async def _readiness(self, _query: Mapping[str, str]) -> HttpAnswer:
        core = self._core()
        if core is None:
            return text(
                503,
                "not ready: starting, commands are applied up to offset "
                f"{self._log.caught_up_offset}",
            )
        return (
            text(200, "ready")
            if core.knows_leader
            else text(
                503,
                "not ready: "
                f"{'no controller leads' if core.log_answers else 'the log does not answer'}",
            )
        )

    async def _show_level(self, _query: Mapping[str, str]) -> HttpAnswer:
        return text(200, "\n".join(f"{name} {level}" for name, level in levels().items()))

    async def _set_level(self, query: Mapping[str, str]) -> HttpAnswer:
        level = query.get("level", "").upper()
        if level not in LOG_LEVELS:
            return text(
                400,
                f"level is one of {', '.join(LOG_LEVELS)}: PUT "
                "/loglevel?level=DEBUG&logger=regent.controller",
            )
        name = query.get("logger", "")
        if name and not is_logger(name):
            return text(400, f"no logger {name!r}; there are {' '.join(loggers())}")
        logging.getLogger(name or None).setLevel(level)
        return text(200, f"{name or 'root'} {level}")
