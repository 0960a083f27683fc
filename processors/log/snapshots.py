"""Snapshots of the fold as files: a shorter start, never the truth (design D4, S12).

Responsible for: writing them whole or not at all, keeping the newest few, finding one that is good
and old enough. Refuses to know: their format (`snapshot_codec`).
"""

from __future__ import annotations

import http.client
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from brokers.remoting.addresses import split_address
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.fold.snapshot_codec import SNAPSHOT_BYTES_MAX
from processors.log.whole_file import replace_whole

_log = logging.getLogger("regent.controller.snapshots")

_NAME = re.compile(r"^snapshot-(\d{20})\.bin$")


class SnapshotFolder:
    """The snapshots of one controller, named after the last offset they contain."""

    def __init__(self, directory: Path, kept: int) -> None:
        self._directory = directory
        self._kept = kept
        directory.mkdir(parents=True, exist_ok=True)

    def offsets(self) -> list[int]:
        """The offsets there is a file for, ascending."""
        names = (_NAME.match(entry.name) for entry in self._directory.iterdir())
        return sorted(int(match[1]) for match in names if match is not None)

    def write(self, folder: Folder) -> Path | None:
        """Write the folder's state now, whole or not at all; then drop old ones. None: too large to
        be read again.
        """
        data = snapshot_codec.dump(folder)
        if len(data) > snapshot_codec.SNAPSHOT_BYTES_MAX:
            _log.warning(
                "no snapshot at offset %d: %d bytes, limit %d; a start folds the log from where "
                "the last one ends",
                folder.offset,
                len(data),
                snapshot_codec.SNAPSHOT_BYTES_MAX,
            )
            return None
        path = self._path(folder.offset)
        replace_whole(path, data)
        for offset in self.offsets()[: -self._kept]:
            self._path(offset).unlink(missing_ok=True)
        return path

    def newest_first(self, not_above: int) -> Iterator[Folder]:
        """Every good snapshot whose offset is at most `not_above`, the newest first; others are
        logged in one line.
        """
        for offset in reversed(self.offsets()):
            if offset > not_above:
                continue
            try:
                folder = snapshot_codec.load(self._path(offset).read_bytes())
            except (OSError, snapshot_codec.SnapshotError) as error:
                _log.warning("snapshot at offset %d is not used: %s", offset, error)
                continue
            if folder.offset == offset:
                yield folder
            else:
                _log.warning(
                    "snapshot at offset %d is not used: it holds offset %d", offset, folder.offset
                )

    def newest_offset(self) -> int:
        """The highest offset there is a file for, -1 when there is none."""
        return max(self.offsets(), default=-1)

    def newest_path(self, not_above: int) -> tuple[int, Path] | None:
        """Offset and file of the newest snapshot whose offset is at most `not_above`, unread."""
        offset = max((one for one in self.offsets() if one <= not_above), default=None)
        return None if offset is None else (offset, self._path(offset))

    def _path(self, offset: int) -> Path:
        return self._directory / snapshot_codec.file_name(offset)


PATH = "/snapshot"
NOT_ABOVE = "not_above"
ETAG = "ETag"
CONNECT_TIMEOUT_S = 2.0
DEADLINE_S = 120.0
CHUNK_BYTES = 1 << 20


class FetchFailed(Exception):
    """No snapshot came from there; the text says why."""


def etag(offset: int, digest: str) -> str:
    """What names a snapshot: its offset and the sha256 of the whole file, in hex."""
    return f'"{offset}-{digest}"'


def fetch(
    address: str,
    not_above: int,
    *,
    bytes_max: int = SNAPSHOT_BYTES_MAX,
    deadline_s: float = DEADLINE_S,
    cancelled: Callable[[], bool] = lambda: False,
) -> bytes:
    """The newest snapshot that `address` has with an offset of at most `not_above`. Raises
    FetchFailed.
    """
    host, port = split_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
    # A header, or an answer that is no snapshot, may come a byte at a time: the end comes from
    # beside it.
    deadline = time.monotonic() + deadline_s
    at_the_latest: threading.Timer | None = None
    try:
        connection.connect()
        at_the_latest = threading.Timer(deadline_s, _hang_up, (connection.sock,))
        at_the_latest.daemon = True
        at_the_latest.start()
        connection.request("GET", f"{PATH}?{NOT_ABOVE}={not_above}")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            said = answer.read(200).decode("utf-8", "replace").strip()
            raise FetchFailed(f"{address} answered {answer.status}: {said}")
        data = _body(answer, bytes_max, deadline, cancelled)
        named = answer.getheader(ETAG)
        if named is not None and named.strip('"').rpartition("-")[2] != sha256(data).hexdigest():
            raise FetchFailed(f"{address}: the bytes are not those that its ETag names")
        return data
    except (OSError, http.client.HTTPException) as error:
        late = time.monotonic() > deadline
        raise FetchFailed(
            "it took too long" if late else (f"{address}: {error or type(error).__name__}")
        ) from None
    finally:
        if at_the_latest is not None:
            at_the_latest.cancel()
        connection.close()


def _hang_up(connected: socket.socket) -> None:
    """Wake its readers."""
    with suppress(OSError):  # It may be closed by now.
        connected.shutdown(socket.SHUT_RDWR)


def _body(
    answer: http.client.HTTPResponse, bytes_max: int, deadline: float, cancelled: Callable[[], bool]
) -> bytes:
    told = answer.length or 0
    if told > bytes_max:
        raise FetchFailed(f"a snapshot of {told} bytes, limit {bytes_max}")
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            raise FetchFailed(f"more than {bytes_max} bytes")
        if time.monotonic() > deadline or cancelled():
            raise FetchFailed("it took too long")
    if time.monotonic() > deadline:
        raise FetchFailed("it took too long")
    if told and size != told:
        raise FetchFailed(f"torn: {size} of {told} bytes came")
    return b"".join(parts)
