"""A file that is replaced whole or not at all (design S12). Refuses to know what is in it."""

import os
from pathlib import Path


def replace_whole(path: Path, data: bytes) -> None:
    """Write beside it, sync, rename, sync of the folder: after a crash the file holds the old or
    the new bytes.
    """
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
