"""What a name server keeps over its restarts: keys and values, and settings changed at run time.

Responsible for: two files in its data folder, each written whole and durable before an answer.
Refuses to know: what stands in them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from brokers.remoting import fastjson
from processors.log.whole_file import replace_whole

KV_FILE = "kvConfig.json"
SETTINGS_FILE = "namesrvConfig.json"
FILE_BYTES_MAX = 64 * 1_048_576

Kept = TypeVar("Kept")

_log = logging.getLogger("regent.nameserver")


class NotKept(Exception):
    """It would be gone after a restart; the text says why, with the way out."""


class KeptFile:
    """One document. `folder` None: this name server keeps nothing."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = None if folder is None else folder / name

    def load(self, decode: Callable[[object], Kept], otherwise: Kept) -> Kept:
        """What `decode` makes of it, which raises ValueError; `otherwise` when there is none. One
        that is damaged is named, and moved aside. NotKept when the disk refuses.
        """
        if self._path is None:
            return otherwise
        try:
            return decode(fastjson.loads(self._path.read_bytes(), FILE_BYTES_MAX))
        except FileNotFoundError:
            return otherwise
        except OSError as error:
            raise NotKept(f"{self._path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            aside = self._path.with_suffix(".damaged")
            os.replace(self._path, aside)
            _log.error(
                "%s is damaged: %s; it is %s now, and counts as empty", self._path, error, aside
            )
            return otherwise

    def save(self, document: dict[str, object]) -> None:
        """NotKept when it is not on the disk."""
        if self._path is None:
            raise NotKept(
                "this name server keeps nothing over a restart: set data_dir in its file, and "
                "start it again"
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_whole(self._path, fastjson.dumps(document))
        except OSError as error:
            raise NotKept(f"{self._path} cannot be written: {error.strerror or error}") from None
