"""What one peer of a remoting connection may cost.

Responsible for: the names and defaults of the limits.
Refuses to know: how a limit is kept (connection.py, server.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.remoting.codec import FRAME_BYTES_MAX

# How long a server or client that stops waits for its connections to end.
CLOSE_WAIT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may cost. Times in ms, 0 = no limit in time."""

    frame_bytes: int = FRAME_BYTES_MAX
    # Not sent because the peer does not read: at the first, reading its requests stops; at the
    # second, the connection ends.
    write_pause_bytes: int = 1_048_576
    write_buffer_bytes: int = 67_108_864
    # Requests taken and not answered yet, and the bytes of their bodies; more is answered with
    # SYSTEM_BUSY.
    in_flight_requests: int = 16_384
    in_flight_bytes: int = 134_217_728
    # Calls of ours that wait for a response.
    calls: int = 65_536
    partial_frame_ms: int = 30_000
    idle_ms: int = 120_000
    # After a close: for the peer to take what was written before it.
    close_ms: int = 5_000
    # Server only.
    connections: int = 8_192
    # Beyond these, for those whom the server keeps a place for: replicas and controllers.
    reserved_connections: int = 256
    partial_bytes_of_all: int = 268_435_456
    # What all peers together may leave unread; those that leave the most are cut off first.
    unsent_bytes_of_all: int = 268_435_456
