"""The fold's state at any moment of history, rebuilt from bronze, as a snapshot that a controller
can start from.

Responsible for comparing with the digest that was published for that offset, and for the file.
Refuses to know the format (`processors.fold.snapshot_codec`). All is folded from the first record:
nothing that was kept earlier is believed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lakehouse import wording
from lakehouse.answers.state_at import folder_at
from lakehouse.errors import LakehouseError
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import DECISIONS
from processors.fold import snapshot_codec
from processors.fold.state_digest import STATE_DIGEST_EVERY, has_state_digest, newest_state_digest


@dataclass(frozen=True, slots=True)
class Written:
    """A snapshot file that was written."""

    path: str
    cluster_id: str
    offset: int
    """Of the last command in it."""
    at_ms: int
    """When the log took that command, ms since 1970-01-01 UTC; 0 when it did not say."""
    digest: str
    published: bool
    """Whether a controller published this very digest for that offset; False: no outcome of it has
    landed.
    """
    size_bytes: int

    def text(self) -> str:
        """For people, with what to do with it."""
        compared = (
            ("as a controller published it")
            if self.published
            else "no outcome of that command has landed to compare it with"
        )
        return "\n".join(
            [
                (
                    f"{self.path}: state after command {self.offset} of "
                    f"{wording.moment(self.at_ms)} UTC, {self.size_bytes} bytes"
                ),
                f"cluster {self.cluster_id}  digest {self.digest[:16]}…, {compared}",
                self._use(),
            ]
        )

    def _use(self) -> str:
        if has_state_digest(self.offset):
            return (
                "A controller of that cluster starts from it when it lies in <data_dir>/snapshots "
                f"as {snapshot_codec.file_name(self.offset)}."
            )
        provable = newest_state_digest(self.offset + 1)
        best = f": --at {provable} gives the newest before it" if provable >= 0 else ""
        return (
            "A controller does not start from it: it takes a state of which a digest is "
            f"published, one in {STATE_DIGEST_EVERY}{best}."
        )


def write_snapshot(
    lake: Lake, out: Path, *, offset: int | None = None, at_ms: int | None = None
) -> Written:
    """Fold to that moment and write the snapshot: into a folder under the name a controller looks
    for, else to that file.

    Raises `NotLanded` when that moment has not landed, `LakehouseError` at a hole and when what was
    published differs.
    """
    folder, taken_ms = folder_at(lake, offset=offset, at_ms=at_ms)
    published = published_digest(lake, folder.offset)
    if published not in (None, folder.digest.hex()):
        raise LakehouseError(
            f"the fold of the commands up to offset {folder.offset} gives another digest than was "
            "published for it: run 'regent verify'"
        )
    data = snapshot_codec.dump(folder)
    path = out / snapshot_codec.file_name(folder.offset) if out.is_dir() else out
    _write_whole(path, data)
    return Written(
        str(path),
        folder.state.cluster_id,
        folder.offset,
        taken_ms,
        folder.digest.hex(),
        published is not None,
        len(data),
    )


def published_digest(lake: Lake, offset: int) -> str | None:
    """The digest that was first published for a command, 64 hex digits; None when no outcome of it
    has landed.
    """
    rows = read(lake, DECISIONS, columns=["digest"], filters=[("command_offset", "=", offset)])
    return str(rows["digest"][0].as_py()) if rows.num_rows else None


def _write_whole(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
