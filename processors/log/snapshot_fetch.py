"""
A snapshot from another controller, over HTTP (design D4).

Responsible for: the question, limits of size and time, and the answer's integrity. What comes back
is bytes of a stranger until `snapshot_codec` has read them and the published outcomes have proven
them. Blocking; belongs into a thread. Refuses to know: when it is worth asking.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

from brokers.remoting.connection import split_address
from processors.fold.snapshot_codec import SNAPSHOT_BYTES_MAX

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
    """Wake whoever reads from it."""
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
