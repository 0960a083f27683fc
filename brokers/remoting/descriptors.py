"""How many files and connections this process may have open.

Responsible for: taking what the system grants, and leaving enough of it for what is no connection.
Refuses to know: who connects, what is opened.
"""

from __future__ import annotations

import resource

# For everything that is no connection: queue files, log files, index files, tables, links, threads'
# wakeups.
KEPT_FOR_FILES = 512
CONNECTIONS_MIN = 64


def raise_open_files() -> int:
    """The soft limit goes up to the hard one, as the JVM does it; returns the limit that holds from
    now on.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connections_within(wanted: int, open_files: int | None = None) -> int:
    """At most `wanted`, so that `open_files` (default: this process's limit) leave
    KEPT_FOR_FILES.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if open_files is None else open_files
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(CONNECTIONS_MIN, limit - KEPT_FOR_FILES))
