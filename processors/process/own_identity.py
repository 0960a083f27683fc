"""What a controller process knows of itself before anything else: its release, and ids nobody else
will make.

Responsible for these two. Refuses to know: what they are written into.
"""

from __future__ import annotations

import os
from collections.abc import Iterator


def random_ids() -> Iterator[bytes]:
    """Command ids: 16 random bytes each."""
    while True:
        yield os.urandom(16)


def release() -> str:
    """The version written into a claim."""
    from importlib import metadata

    try:
        return metadata.version("regent")
    except metadata.PackageNotFoundError:
        return "source"
