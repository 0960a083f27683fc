"""Which world finds a planted bug: the one that is known to, before all others.

`known_seeds.txt` names for each bug the world that shows it in the least time, so that `make test`
plays one world for a bug and not twenty. Where that world finds nothing any more, the others are
played in their order.

REGENT_EXAMPLES=all (`make test-long`): nothing is known, and a bug has to be found within its
worlds from the first one. REGENT_KNOWN_SEEDS=write: up to WORLDS_COMPARED worlds of each bug are
timed, and the file is written anew; do so when a change of the worlds made the known ones useless.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.examples import SHARE

FILE = Path(__file__).with_name("known_seeds.txt")
WRITE = os.environ.get("REGENT_KNOWN_SEEDS") == "write"
WORLDS_COMPARED = 6

Broken = Callable[[int], str | None]
"""(seed) -> what that world shows to be broken, or None."""


def first_found(bug: str, seeds: Sequence[int], broken: Broken) -> tuple[int, str] | None:
    """(seed, what is broken) of the first world that finds `bug`; None: none of `seeds` does.

    `bug`: its name in the file, with the family's in front of it: family/name.
    """
    if WRITE:
        return _compared(bug, seeds, broken)
    known = None if SHARE == 1 else _read().get(bug)
    first = [known] if known is not None else []
    for seed in [*first, *(one for one in seeds if one != known)]:
        if (why := broken(seed)) is not None:
            return seed, why
    return None


def _compared(bug: str, seeds: Sequence[int], broken: Broken) -> tuple[int, str] | None:
    """The quickest of those that find it; it is written down."""
    found: list[tuple[float, int, str]] = []
    for number, seed in enumerate(seeds):
        if number >= WORLDS_COMPARED and found:
            break
        begun = time.process_time()
        if (why := broken(seed)) is not None:
            found.append((time.process_time() - begun, seed, why))
    if not found:
        return None
    _, seed, why = min(found)
    known = {**_read(), bug: seed}
    FILE.write_text("".join(f"{known[one]}\t{one}\n" for one in sorted(known)))
    return seed, why


def _read() -> dict[str, int]:
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    return {bug: int(seed) for seed, bug in (line.split("\t", 1) for line in lines)}
