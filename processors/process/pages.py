"""What a controller shows over HTTP: metrics, health, readiness, log levels, its newest snapshot.

Responsible for: the pages, and what of the process's disk they tell. Refuses to know: sockets
(`http_front`), and what the figures mean.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.remoting.connection import split_address
from processors.controller.core import ControllerCore
from processors.controller.gauges import Figures
from processors.controller.metrics import Metrics
from processors.controller.operators import LOG_LEVELS
from processors.log.controller_log import ControllerLog
from processors.log.snapshot_fetch import PATH
from processors.process import log_levels
from processors.process.effect_runner import monotonic_ms
from processors.process.http_front import HttpAnswer, HttpFront, Route, text
from processors.process.metrics_text import CONTENT_TYPE, Disk, render
from processors.process.snapshot_route import snapshot_route
from processors.settings.config import ControllerConfig

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

    async def _figures(self) -> Figures | None:
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
                f"{'the log does not answer' if core.is_active else 'no controller leads'}",
            )
        )

    async def _show_level(self, _query: Mapping[str, str]) -> HttpAnswer:
        return text(
            200, "\n".join(f"{name} {level}" for name, level in log_levels.levels().items())
        )

    async def _set_level(self, query: Mapping[str, str]) -> HttpAnswer:
        level = query.get("level", "").upper()
        if level not in LOG_LEVELS:
            return text(
                400,
                f"level is one of {', '.join(LOG_LEVELS)}: PUT "
                "/loglevel?level=DEBUG&logger=processors",
            )
        name = query.get("logger", "")
        if name and not log_levels.is_logger(name):
            return text(400, f"no logger {name!r}; there are {' '.join(log_levels.loggers())}")
        logging.getLogger(name or None).setLevel(level)
        return text(200, f"{name or 'root'} {level}")
