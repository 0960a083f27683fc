"""What a fold goes on from, as bytes and back.

Responsible for the form and for the names of states. Refuses to know where they are kept, and to
say whether one is right.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from msgspec import Struct

from processors.fold import snapshot_codec
from processors.fold.folder import Folder

COMPRESSED_BYTES_MAX = 256 * 1024 * 1024
_FAST = 1
"""Of zlib: more takes longer than it saves."""


class KeptState(Struct, array_like=True):
    """The folder, and what the invariants know; the snapshot is compressed (zlib).

    Releases that asked the invariants while they folded kept both compressed as one.
    """

    snapshot: bytes
    carried: bytes
    """Empty where nobody asked the invariants."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A kept state, ready to go on from."""

    state: str
    """Names the state of the fold, however it was kept."""
    folder: Folder
    carried: bytes


def snapshot_of(folder: Folder) -> tuple[str, bytes]:
    """The name of a state of the fold, and the state, compressed. Equal states have equal names."""
    plain = snapshot_codec.dump(folder)
    return sha256(plain).hexdigest(), zlib.compress(plain, _FAST)


def packed(snapshot: bytes, carried: bytes) -> bytes:
    """A state to be kept, of a compressed snapshot and what the invariants know."""
    return msgspec.msgpack.encode(KeptState(snapshot, carried))


def kept_name(state: bytes) -> str:
    """Names the bytes that are kept; of an earlier release those of the plain state."""
    try:
        return sha256(_inflated(state)).hexdigest()
    except zlib.error:
        return sha256(state).hexdigest()


def unpacked(state: bytes) -> Unpacked | None:
    """A state as it was kept; None when this release cannot read it."""
    try:
        kept, is_plain = _decoded(state)
        snapshot = kept.snapshot if is_plain else _inflated(kept.snapshot)
        folder = snapshot_codec.load(snapshot)
    except (zlib.error, msgspec.MsgspecError, snapshot_codec.SnapshotError):
        return None
    return Unpacked(sha256(snapshot).hexdigest(), folder, kept.carried)


def carried_in(state: bytes) -> bytes:
    """What the invariants knew behind a kept state; empty when that cannot be said."""
    try:
        return _decoded(state)[0].carried
    except msgspec.MsgspecError:
        return b""


def _decoded(state: bytes) -> tuple[KeptState, bool]:
    """What is kept, and whether its snapshot is plain, as earlier releases kept it."""
    try:
        plain = _inflated(state)
    except zlib.error:
        return msgspec.msgpack.decode(state, type=KeptState), False
    return msgspec.msgpack.decode(plain, type=KeptState), True


def _inflated(data: bytes) -> bytes:
    """Raises zlib.error, also for what is too large."""
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, COMPRESSED_BYTES_MAX)
    if inflater.unconsumed_tail or not inflater.eof:
        raise zlib.error("cut, or too large")
    return plain
