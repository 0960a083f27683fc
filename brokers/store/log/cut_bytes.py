"""What a start cuts off a log, kept beside it: nobody serves these bytes, a person may want to look
at them.

Responsible for: a bounded number of files of bounded size, named by where they stood. Refuses to
know: why they were cut.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from brokers.store.log import segments

FOLDER_NAME = "cutAtStart"
# Bytes kept of one cut, from its begin, and of all cuts, the newest first.
BYTES_MAX = 64 << 20
FILES_MAX = 8
_PIECE_BYTES = 1 << 20

_log = logging.getLogger("regent.store.log")


def keep(root: Path, read: Callable[[int, int], bytes], first: int, last: int) -> Path | None:
    """Copies [first, last) of a log, as far as it may and can be read, to a file of the folder
    under `root`. None when the disk refuses: a start goes on without. `read`: as of `LogWalk`.
    """
    folder = root / FOLDER_NAME
    try:
        folder.mkdir(exist_ok=True)
        number = max((_number(path) for path in folder.iterdir()), default=0) + 1
        path = folder / f"{segments.file_name(first)}-{number}"
        with path.open("xb") as file:
            at, end = first, min(last, first + BYTES_MAX)
            while at < end and (data := read(at, min(_PIECE_BYTES, end - at))):
                file.write(data)
                at += len(data)
            file.flush()
            os.fsync(file.fileno())
        for old in sorted(folder.iterdir(), key=_number)[:-FILES_MAX]:
            old.unlink()
    except OSError as error:
        _log.error(
            "%d bytes that are cut behind %d cannot be kept in %s: %s",
            last - first,
            first,
            folder,
            error,
        )
        return None
    _log.warning(
        "%d bytes behind the log's end %d are cut; %d of them are kept in %s",
        last - first,
        first,
        at - first,
        path,
    )
    return path


def _number(path: Path) -> int:
    number = path.name.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else 0
