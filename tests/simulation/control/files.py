"""Snapshots that a controller may find at its start: torn, changed, gone, of another version.
Refuses to know who reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256

from tests.simulation.world import World

Damage = Callable[[bytes, World], bytes | None]


def torn(data: bytes, world: World) -> bytes:
    return data[: world.between(0, len(data) - 1)]


def changed(data: bytes, world: World) -> bytes:
    at = world.between(0, len(data) - 1)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def gone(data: bytes, world: World) -> None:
    return None


def of_another_version(data: bytes, world: World) -> bytes:
    """Whole and well formed, and its fields mean something else there: here terms are counted from
    0.
    """
    try:
        magic, version, _, body = _parts(data)
        plain = json.loads(body)
    except ValueError:
        return data  # An earlier blow has torn it already.
    plain["term"] = max(1, plain["term"] - 1)
    text = json.dumps(plain, separators=(",", ":")).encode("ascii")
    return b"%s%d\n%s\n%s" % (magic, version + 1, sha256(text).hexdigest().encode("ascii"), text)


def _parts(data: bytes) -> tuple[bytes, int, bytes, bytes]:
    head, digest, body = data.split(b"\n", 2)
    magic, _, version = head.rpartition(b" ")
    return magic + b" ", int(version), digest, body


DAMAGES: Mapping[str, Damage] = {
    "torn": torn,
    "changed": changed,
    "gone": gone,
    "of_another_version": of_another_version,
}
