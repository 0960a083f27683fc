"""This machine: Python and its libraries, Java, open files, disks. Refuses to know the network."""

from __future__ import annotations

import re
import resource
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from brokers.store.files.disk_space import used_ratio
from infra.doctor.findings import Finding, fail, warn, well
from infra.jars import java
from infra.problems import Problem

PYTHON_MIN = (3, 11)
LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
OPEN_FILES_MIN, OPEN_FILES_GOOD = 1_024, 8_192
"""A broker keeps some 512 for files, and one socket per client."""
FREE_BYTES_MIN, FREE_BYTES_GOOD = 1 << 30, 5 << 30
WHOLE_PERCENT = 100
NEAR_PERCENT = 3
"""A broker's limit is told beforehand."""
SETUP = "make setup"
NAMED_MAX = 5


def python() -> Finding:
    text = f"Python {sys.version.split()[0]}"
    if sys.version_info < PYTHON_MIN:
        return fail("python", text, "Use 3.11 or newer.", "make setup PYTHON=python3.11")
    return well("python", text)


def libraries(lock: Path = LOCK, installed: Mapping[str, str] | None = None) -> Finding:
    """Installed versions against the locked list."""
    area = "libraries"
    if not lock.exists():
        return well(area, f"no {lock.name} beside this installation, so versions are not compared")
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
        return fail(area, f"not installed: {_some(missing)}", "Install what is locked.", SETUP)
    if other:
        return warn(area, _some(other), "Only the locked versions are tested together.", SETUP)
    return well(area, f"{len(pinned)} packages as locked")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _some(words: list[str]) -> str:
    more = f" and {len(words) - NAMED_MAX} more" if len(words) > NAMED_MAX else ""
    return f"{', '.join(words[:NAMED_MAX])}{more}"


def java_found(needed: bool) -> Finding:
    """`needed`: this machine runs Kafka or Spark itself."""
    try:
        return well("java", str(java.find_java()))
    except Problem as problem:
        if needed:
            return fail("java", problem.what, problem.way_out, SETUP)
        text = f"{problem.what}; needed only for Kafka and Spark here"
        return warn("java", text, problem.way_out, SETUP)


def open_files(limit: int | None = None) -> Finding:
    """The limit that processes started from here take: they raise the soft one to the hard one."""
    area = "open files"
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    text = f"{'any number of' if soft == resource.RLIM_INFINITY else soft} open files per process"
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_GOOD:
        return well(area, text)
    way_out = "Raise the limit of this shell, for good with LimitNOFILE of a systemd unit."
    command = f"sudo prlimit --pid $$ --nofile={OPEN_FILES_GOOD}:{OPEN_FILES_GOOD}"
    return (warn if soft >= OPEN_FILES_MIN else fail)(area, text, way_out, command)


def disks(folders: Iterable[Path], limits: Mapping[Path, int] | None = None) -> list[Finding]:
    """Space where data is kept, each file system once. `limits`: the share of its disk in percent
    from which a broker's folder takes no message.
    """
    seen: dict[int, Finding] = {}
    findings: list[Finding] = []
    for folder in folders:
        place = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
        seen.setdefault(place.stat().st_dev, disk(folder, shutil.disk_usage(place).free))
        if folder in (limits or {}):
            findings += near_limit(folder, 100 * used_ratio(place), (limits or {})[folder])
    return [*seen.values(), *findings]


def disk(folder: Path, free: int) -> Finding:
    """The verdict on that much free space."""
    text = f"{free / (1 << 30):.1f} GiB free for {folder}"
    if free >= FREE_BYTES_GOOD:
        return well("disk", text)
    way_out = "Make room: a full disk stops brokers and Kafka. What takes it:"
    return (warn if free >= FREE_BYTES_MIN else fail)("disk", text, way_out, biggest(folder))


def near_limit(folder: Path, used_percent: float, full_percent: int) -> list[Finding]:
    """What a broker's own limit says; nothing while there is room below it."""
    if full_percent >= WHOLE_PERCENT or used_percent < full_percent - NEAR_PERCENT:
        return []
    text = f"{used_percent:.1f} % of the disk of {folder} is used"
    way_out = "Make room, or raise disk_full_percent. What takes it:"
    if used_percent > full_percent:
        text += f": its broker refuses sends above disk_full_percent, which is {full_percent}"
        return [fail("disk", text, way_out, biggest(folder))]
    text += f"; above disk_full_percent, which is {full_percent}, its broker refuses sends"
    return [warn("disk", text, way_out, biggest(folder))]


def biggest(folder: Path) -> str:
    """What takes the room there."""
    return f"du -xh -d 2 {shlex.quote(str(folder))} | sort -h | tail"
