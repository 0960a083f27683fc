"""What a controller remembers between its starts, beside snapshots.

Responsible for: the id of the log it belongs to (so that a topic made anew is noticed), how far it
was, where other controllers give out snapshots, and a consumer group of its own for each start.
Refuses to know: Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from processors.log.whole_file import replace_whole

NOTES_FILE = "start-notes.json"
GROUPS_KEPT = 16
"""Groups are used in turn: the member a killed process left behind is gone long before its group
comes again.
"""


class StartNotes:
    """A small JSON file, written whole (design S12). A torn or missing one costs no safety."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / NOTES_FILE

    def log_id(self) -> bytes | None:
        """The command id of record 0 of the log this controller has followed; None on the first
        start.
        """
        text = self._read().get("log_id")
        try:
            return bytes.fromhex(text) if isinstance(text, str) else None
        except ValueError:
            return None

    def keep_log_id(self, log_id: bytes) -> None:
        if self.log_id() != log_id:
            self._write(self._read() | {"log_id": log_id.hex()})

    def applied_offset(self) -> int:
        """The last offset that was applied when this controller was stopped in order; -1 when it is
        not known.
        """
        kept = self._read().get("applied_offset")
        return kept if isinstance(kept, int) else -1

    def keep_applied_offset(self, offset: int) -> None:
        if offset > self.applied_offset():
            self._write(self._read() | {"applied_offset": offset})

    def peers_http(self) -> dict[str, str]:
        """The HTTP addresses other controllers were heard with last."""
        kept = self._read().get("peers_http")
        if not isinstance(kept, dict):
            return {}
        return {str(name): at for name, at in kept.items() if isinstance(at, str)}

    def keep_peers_http(self, addresses: Mapping[str, str]) -> None:
        if addresses and self.peers_http() != dict(addresses):
            self._write(self._read() | {"peers_http": dict(addresses)})

    def next_group(self, stem: str) -> str:
        """A group nobody is in: a new member would wait for a dead one up to the session
        timeout.
        """
        last = self._read().get("starts")
        starts = last + 1 if isinstance(last, int) else 0
        self._write(self._read() | {"starts": starts})
        return f"{stem}-{starts % GROUPS_KEPT}"

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, content: dict[str, object]) -> None:
        replace_whole(self._path, json.dumps(content).encode())
