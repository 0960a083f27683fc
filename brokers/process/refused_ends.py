"""Ends of slaves' logs that a master without controllers refused, kept beside its log (PROTOCOL
2.12).

Responsible for: the file `refusedEnds` in the store's root. Refuses to know: what is refused, and
why.

A slave of RocketMQ's tries again every 5 s with the end that it has. Behind a restart this log may
have grown past that end, and nothing in the stream would say that it is another history's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from brokers.store.files.durable import replace_file

REFUSED_NAME = "refusedEnds"
REFUSED_BYTES_MAX = 65_536
OFFSET_MAX = 2**63 - 1

Ends = Sequence[tuple[str, int]]

_log = logging.getLogger("regent.broker.replica")


def keep_refused(store_dir: Path, ends: Ends) -> None:
    """Durable when it returns; where the disk refuses it is said, and they are known until the
    process ends.
    """
    try:
        replace_file(store_dir / REFUSED_NAME, json.dumps(ends).encode("ascii"))
    except OSError as error:
        _log.error("which ends of slaves' logs were refused cannot be kept: %s", error)


def read_refused(store_dir: Path) -> tuple[tuple[str, int], ...]:
    """As last kept; nothing when the file is missing, or makes no sense."""
    path = store_dir / REFUSED_NAME
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(REFUSED_BYTES_MAX))
        ends = tuple((host, offset) for host, offset in found)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        _log.error("%s is left out: %s", path, error)
        return ()
    return tuple(one for one in ends if _is_end(*one))


def _is_end(host: object, offset: object) -> bool:
    return isinstance(host, str) and type(offset) is int and 0 <= offset <= OFFSET_MAX
