"""What a process holds of the machine's memory, as the kernel counts it.

Refuses to know what the process does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Resident:
    """MiB: `own` is its alone (heap, stacks, buffers); `all` has what it maps of files as well,
    which the kernel takes back at will.
    """

    own: float
    all: float


def resident(pid: int) -> Resident:
    """Now. OSError when the process is gone."""
    return parse(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))


def parse(status: str) -> Resident:
    """From the text of /proc/PID/status. ValueError without the fields."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    try:
        own, whole = (int(fields[name].split()[0]) / KIB_PER_MIB for name in ("RssAnon", "VmRSS"))
    except KeyError as error:
        raise ValueError(f"no {error} in the status") from None
    return Resident(own, whole)


def slope_per_hour(samples: list[tuple[float, float]]) -> float:
    """Least squares through (seconds, MiB): MiB an hour. ValueError with fewer than two moments."""
    if len({at for at, _ in samples}) < 2:
        raise ValueError("a slope needs two moments")
    mean_at = sum(at for at, _ in samples) / len(samples)
    mean = sum(value for _, value in samples) / len(samples)
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return sum((at - mean_at) * (value - mean) for at, value in samples) / spread * 3600
