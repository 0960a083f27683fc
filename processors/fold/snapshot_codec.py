"""A folder as bytes and back: versioned, with a digest, so that a torn one is never used.

Responsible for the format. Refuses to know files: a snapshot is never the truth, only a
shorter way to it, and whoever cannot load one folds the log from its start.
"""

import json
from hashlib import sha256
from typing import Any

from immutables import Map
from msgspec import DecodeError, Struct
from msgspec.json import Decoder
from msgspec.structs import astuple, replace

from events.envelope import DIGEST_BYTES
from processors.fold.folder import Folder
from processors.fold.recent_commands import FirstOutcome, RecentCommands
from processors.fold.rules import SUPPORTED_RULES
from processors.fold.state import BrokerSet, ControllerState

SNAPSHOT_VERSION = 2
SNAPSHOT_BYTES_MAX = 256 * 1024 * 1024
_MAGIC = b"regent-snapshot "
_HEADER_LINES = 2


class SnapshotError(Exception):
    """Bytes that are not a whole snapshot of a version that this release reads."""


def file_name(offset: int) -> str:
    """The name of the file of a snapshot whose last offset this is."""
    return f"snapshot-{offset:020d}.bin"


def dump(folder: Folder) -> bytes:
    """Return the snapshot of `folder`. Two folders that are equal give the same bytes."""
    body = json.dumps(_to_plain(folder), separators=(",", ":"), ensure_ascii=True).encode("ascii")
    head = f"{SNAPSHOT_VERSION}\n{sha256(body).hexdigest()}\n".encode("ascii")
    return _MAGIC + head + body


def load(data: bytes, supported_rules: tuple[int, ...] = SUPPORTED_RULES) -> Folder:
    """Return the folder in `data`. Raises `SnapshotError` for torn, foreign or newer bytes."""
    if len(data) > SNAPSHOT_BYTES_MAX:
        raise SnapshotError(f"snapshot of {len(data)} bytes, limit {SNAPSHOT_BYTES_MAX}")
    if not data.startswith(_MAGIC):
        raise SnapshotError("not a snapshot")
    head = data[len(_MAGIC) :].split(b"\n", _HEADER_LINES)
    if head[0] != str(SNAPSHOT_VERSION).encode("ascii"):
        version = head[0][:16].decode("ascii", "replace")
        raise SnapshotError(f"version {version}, this release reads {SNAPSHOT_VERSION}")
    if len(head) <= _HEADER_LINES or sha256(head[2]).hexdigest().encode("ascii") != head[1]:
        raise SnapshotError("torn: the digest does not match")
    try:
        folder = _from_plain(_PLAIN.decode(head[2]))
    except (DecodeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"unreadable: {error}") from error
    rules = folder.state.rules_version
    if folder.state.is_formed and rules not in supported_rules:
        raise SnapshotError(f"rules {rules}, this release has {supported_rules}")
    folder.supported_rules = supported_rules
    return folder


def _to_plain(folder: Folder) -> dict[str, Any]:
    state = folder.state
    return {
        "offset": folder.offset,
        "digest": folder.digest.hex(),
        "cluster_id": state.cluster_id,
        "term": state.term,
        "leader_id": state.leader_id,
        "leader_address": state.leader_address,
        "leader_release": state.leader_release,
        "rules_version": state.rules_version,
        "settings": dict(sorted(state.settings.items())),
        "fingerprints": state.fingerprints,
        "sets": [_set_to_plain(state.sets[name]) for name in sorted(state.sets)],
        "recent_from": folder.recent.complete_from,
        "recent": [(i.hex(), *astuple(first)) for i, first in folder.recent.items()],
    }


def _set_to_plain(broker_set: BrokerSet) -> tuple[Any, ...]:
    replicas, positions = map(astuple, broker_set.replicas), map(astuple, broker_set.positions)
    return astuple(replace(broker_set, replicas=tuple(replicas), positions=tuple(positions)))


class _Plain(Struct):
    """The body. It may be a stranger's, so that every value is of its type is seen to before it is
    used.
    """

    offset: int
    digest: str
    cluster_id: str
    term: int
    leader_id: str | None
    leader_address: str | None
    leader_release: str
    rules_version: int
    settings: dict[str, str]
    fingerprints: tuple[str, ...]
    sets: list[BrokerSet]
    recent_from: int
    recent: list[tuple[str, int, str, str | None, bool, str | None, int]]


_PLAIN = Decoder(_Plain)


def _from_plain(plain: _Plain) -> Folder:
    digest = bytes.fromhex(plain.digest)
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest of {len(digest)} bytes")
    state = ControllerState(
        plain.cluster_id,
        plain.term,
        plain.leader_id,
        plain.leader_address,
        plain.rules_version,
        Map(plain.settings),
        plain.fingerprints,
        Map({broker_set.broker_name: broker_set for broker_set in plain.sets}),
        plain.leader_release,
    )
    recent = RecentCommands(plain.recent_from)
    for command_id, offset, kind, name, accepted, refusal, code in plain.recent:
        first = FirstOutcome(offset, kind, name, accepted, refusal, code)
        recent.remember(bytes.fromhex(command_id), first)
    return Folder(state, plain.offset, digest, recent)
