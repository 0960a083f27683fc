"""What producer and consumer processes share: arguments, a stop by SIGTERM, and a status file for
the live line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATUS_INTERVAL_S = 0.2


def parser(description: str) -> argparse.ArgumentParser:
    """The flags that every workload process has."""
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--name-server", action="append", required=True, metavar="HOST:PORT")
    flags.add_argument("--topic", default="regent-demo")
    flags.add_argument("--queues", type=int, default=4)
    flags.add_argument("--out", type=Path, required=True, help="file of records")
    flags.add_argument("--status", type=Path, required=True, help="file with the current figures")
    flags.add_argument("--poll-ms", type=int, default=200, help="how often the route is read")
    flags.add_argument("--timeout-ms", type=int, default=500, help="limit of one call")
    return flags


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def write_status(path: Path, value: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)


def read_status(path: Path) -> dict[str, Any]:
    """The last figures, empty when there are none yet."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
