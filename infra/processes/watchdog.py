"""The last one to leave: kills every process group it knows of once the supervisor is gone, however
it went.

Reads `+GROUP` and `-GROUP` lines from stdin, which only the supervisor holds open; end of input
means it died. Linux's death signal reaches direct children only; this reaches what they started
(Spark's JVM) on any system.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable


def groups_left(lines: Iterable[str]) -> set[int]:
    """The groups still registered at the end of input; anything malformed is skipped."""
    groups: set[int] = set()
    for line in lines:
        word = line.strip()
        if word[1:].isdigit() and int(word[1:]) > 1:
            (groups.add if word[0] == "+" else groups.discard)(int(word[1:]))
    return groups


def main() -> int:
    """`python -m infra.processes.watchdog`: started by the supervisor with a pipe as stdin."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for group in groups_left(sys.stdin):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main())
