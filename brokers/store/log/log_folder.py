"""The folder of a commit log: which files it holds when it is opened.

Responsible for: refusing files that do not fit together, taking away a last one that was never
finished (PROTOCOL 3.4). Refuses to know: what the files hold.
"""

from __future__ import annotations

from pathlib import Path

from brokers.store.files.disk import last_used_byte
from brokers.store.files.errors import LogError
from brokers.store.log import segments
from brokers.store.log.segment_files import Segment


def found_segments(directory: Path, file_bytes: int) -> list[Segment]:
    """The files, ascending, none of them open. LogError when they do not make one log."""
    directory.mkdir(parents=True, exist_ok=True)
    found = sorted(
        (start, entry)
        for entry in directory.iterdir()
        if (start := segments.start_of_name(entry.name)) is not None
    )
    if found and _is_unfinished(found[-1][1], file_bytes):  # the process died while making it
        found.pop()[1].unlink()
    gap = segments.first_gap((start for start, _ in found), file_bytes)
    for _, path in found:
        size = path.stat().st_size
        if size != file_bytes:
            raise LogError(
                f"{path} has {size} bytes, files of {file_bytes} are configured: set the file size "
                "the log was written with, or start this replica with an empty data folder"
            )
    if gap is not None:
        raise LogError(
            f"{directory}: file {segments.file_name(gap)} is missing; restore it or start empty"
        )
    return [Segment(start, path) for start, path in found]


def _is_unfinished(path: Path, file_bytes: int) -> bool:
    size = path.stat().st_size
    if size >= file_bytes:
        return False
    with path.open("rb") as file:
        return last_used_byte(file.fileno(), 0, size) == 0
