"""The JSON configuration files of a broker (folder `config`): tolerant reading, durable writing,
one older copy.

Responsible for: PROTOCOL 3.9: the `.bak` copy, fastjson's dialect, rule S12.
Refuses to know: what topics, groups or offsets are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from brokers.remoting.fastjson import JsonRejected, dumps, loads
from brokers.store.files.durable import replace_file
from brokers.store.files.errors import LogError

TOPICS_FILE = "topics.json"
CONSUMER_OFFSET_FILE = "consumerOffset.json"
SUBSCRIPTION_GROUP_FILE = "subscriptionGroup.json"
DELAY_OFFSET_FILE = "delayOffset.json"
REQUEST_MODE_FILE = "messageRequestMode.json"
TIMER_METRICS_FILE = "timermetrics"
ORDERED_POPS_FILE = "consumerOrderInfo.json"

# What an older release let grow is read all the same; tables of today stay below a frame.
OWN_FILE_BYTES_MAX = 1_073_741_824

Table = TypeVar("Table")
_log = logging.getLogger("regent.store.files")


class JsonFile:
    """One document, a JSON object. Keys are text: unquoted integer keys of the Java side become
    their digits.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._backup = self.path.with_name(self.path.name + ".bak")
        self._worth_keeping = True
        self._lock = threading.Lock()

    def load(self) -> dict[str, object] | None:
        """The document, of the `.bak` copy when the file is missing, empty or broken; None when
        neither exists.

        LogError when there is something but nothing readable: never taken for an empty table.
        """
        broken: str | None = None
        for path in (self.path, self._backup):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            if data.strip(b"\0 \t\r\n"):
                try:
                    document = _as_object(loads(data, OWN_FILE_BYTES_MAX))
                    if path is self._backup:
                        _log.warning(
                            "%s is missing, empty or damaged (%s): its older copy %s is read",
                            self.path,
                            broken,
                            path.name,
                        )
                    return document
                except JsonRejected as error:
                    broken = broken or f"{path}: {error}"
            if path is self.path:
                self._worth_keeping = False
        if broken is None:
            return None
        raise LogError(
            f"{broken}; restore the file, or remove it and its .bak copy to start with an empty "
            "table"
        )

    def decoded(self, decode: Callable[[object], Table]) -> Table | None:
        """The document as `decode` has it, which raises ValueError; LogError, with the way out,
        then and when damaged.
        """
        document = self.load()
        try:
            return None if document is None else decode(document)
        except ValueError as error:
            raise LogError(
                f"{self.path}: {error}; restore the file, or remove it to start with an empty table"
            ) from None

    def save(self, document: dict[str, object] | bytes) -> None:
        """Keeps the current file as `.bak`, then replaces it; each step is durable before the next.
        On any thread.
        """
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._worth_keeping and self.path.exists():
                replace_file(self._backup, self.path.read_bytes())
            replace_file(self.path, document if isinstance(document, bytes) else dumps(document))
            self._worth_keeping = True


def _as_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise JsonRejected("not a JSON object")
    return value
