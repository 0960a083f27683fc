"""
Snapshots of the fold as files: a shorter start, never the truth (design D4, S12).

Responsible for: writing them whole or not at all, keeping the newest few, finding one that is good
and old enough. Refuses to know: their format (`snapshot_codec`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.log.whole_file import replace_whole

_log = logging.getLogger(__name__)

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
        told in one line.
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
