"""
Giving a snapshot to another controller over HTTP: `GET /snapshot?not_above=OFFSET`.

Responsible for the route; `snapshot_fetch` asks it. Refuses to know: sockets, and what is in a
snapshot.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path

from processors.log.snapshot_fetch import ETAG, NOT_ABOVE, etag
from processors.log.snapshots import SnapshotFolder
from processors.process.http_front import HttpAnswer, Route, text

CONTENT_TYPE = "application/octet-stream"
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
        return HttpAnswer(200, CONTENT_TYPE, path, {ETAG: etag(offset, digest)})

    return answer


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
