"""How far the command log of a cluster has landed: `python -m lakehouse.tables.landed_end TABLES
CLUSTER` prints the last offset, or -1.

A program of its own, so that a controller asks it with a limit of time and loads nothing of the
lakehouse. Refuses to know what is concluded from the answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables.delta import high_water
from lakehouse.tables.lake import open_lake
from lakehouse.tables.specs import BRONZE

PARTITION = 0


def landed_offset(tables: str, cluster_id: str) -> int:
    """The newest command that has landed, -1 when none has. Raises LakehouseError for tables that
    cannot be read.
    """
    try:
        return high_water(open_lake(tables, cluster_id), BRONZE).of((COMMANDS_TOPIC, PARTITION))
    except NotLanded:
        return -1


def main(words: Sequence[str]) -> int:
    """0 with the offset on standard output; 1 with the reason on standard error."""
    try:
        sys.stdout.write(f"{landed_offset(words[0], words[1])}\n")
    except LakehouseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # Threads of the library that reads the tables may still end: an orderly exit then aborts, with
    # the answer given (apache/arrow#34314).
    os._exit(code)
