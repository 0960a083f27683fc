"""This machine: Python and its libraries, Java, open files, disks. Refuses to know the network."""

from __future__ import annotations

import re
import resource
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from infra.doctor.findings import FAIL, OK, WARN, Finding
from infra.jars import java
from infra.problems import Problem

PYTHON_MIN = (3, 11)
LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
OPEN_FILES_MIN, OPEN_FILES_GOOD = 1_024, 8_192
"""A broker keeps some 512 for files, and one socket per client."""
FREE_BYTES_MIN, FREE_BYTES_GOOD = 1 << 30, 5 << 30
NAMED_MAX = 5


def python() -> Finding:
    text = f"Python {sys.version.split()[0]}"
    if sys.version_info < PYTHON_MIN:
        return Finding("python", FAIL, text, "Use 3.11 or newer.")
    return Finding("python", OK, text)


def libraries(lock: Path = LOCK, installed: Mapping[str, str] | None = None) -> Finding:
    """Installed versions against the locked list."""
    if not lock.exists():
        return Finding(
            "libraries",
            WARN,
            f"no {lock.name} beside this installation, so versions are not compared",
        )
    pinned = dict(
        re.findall(
            r"^([A-Za-z0-9."
            r"_-]+)==(\S+)",
            lock.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    found = (
        {_plain(one.name): one.version for one in metadata.distributions()}
        if installed is None
        else installed
    )
    missing = sorted(name for name in pinned if _plain(name) not in found)
    other = sorted(
        (f"{name} {found[_plain(name)]} instead of {version}")
        for name, version in pinned.items()
        if _plain(name) in found and found[_plain(name)] != version
    )
    if missing:
        return Finding("libraries", FAIL, f"not installed: {_some(missing)}", "Run 'make setup'.")
    if other:
        return Finding(
            "libraries",
            WARN,
            _some(other),
            "Run 'make setup': only the locked versions are tested together.",
        )
    return Finding("libraries", OK, f"{len(pinned)} packages as locked")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _some(words: list[str]) -> str:
    more = f" and {len(words) - NAMED_MAX} more" if len(words) > NAMED_MAX else ""
    return f"{', '.join(words[:NAMED_MAX])}{more}"


def java_found(needed: bool) -> Finding:
    """`needed`: this machine runs Kafka or Spark itself."""
    try:
        return Finding("java", OK, str(java.find_java()))
    except Problem as problem:
        return Finding(
            "java",
            FAIL if needed else WARN,
            f"{problem.what}{'' if needed else '; needed only for Kafka and Spark here'}",
            problem.way_out,
        )


def open_files(limit: int | None = None) -> Finding:
    """The limit that processes started from here take: they raise the soft one to the hard one."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    text = f"{'any number of' if soft == resource.RLIM_INFINITY else soft} open files per process"
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_GOOD:
        return Finding("open files", OK, text)
    way_out = f"Raise it to {OPEN_FILES_GOOD} or more: 'ulimit -n', LimitNOFILE of a systemd unit."
    return Finding("open files", WARN if soft >= OPEN_FILES_MIN else FAIL, text, way_out)


def disks(folders: Iterable[Path]) -> list[Finding]:
    """Space where data is kept, each file system once."""
    seen: dict[int, Finding] = {}
    for folder in folders:
        place = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
        seen.setdefault(place.stat().st_dev, disk(folder, shutil.disk_usage(place).free))
    return list(seen.values())


def disk(folder: Path, free: int) -> Finding:
    """The verdict on that much free space."""
    text = f"{free / (1 << 30):.1f} GiB free for {folder}"
    if free >= FREE_BYTES_GOOD:
        return Finding("disk", OK, text)
    return Finding(
        "disk",
        WARN if free >= FREE_BYTES_MIN else FAIL,
        text,
        "Make room: a full disk stops brokers and Kafka.",
    )
