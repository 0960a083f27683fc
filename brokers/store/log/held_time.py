"""How long this broker has held each file of its log: the clock that retention goes by.

Responsible for: what age a file has, from how long the broker ran. Refuses to know: clocks, files,
which files go.

Store times are some master's wall clock, and the wall clock here is another: either may jump by
years, for a moment or for good. What neither can change is how long this broker ran with a file in
its store. So a file's age is that, over all runs; time in which the broker did not run is not
counted. A file goes later than a sound wall clock would have it, never sooner; a replica that
copied its log just now holds all of it for the whole reserved time, as RocketMQ does, which goes by
the times of files (3.4). An idle log gets older like any other. The table of cases is in
tests/unit/brokers/store/log/test_held_time.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from brokers.store.log.retention import FILES_PER_ROUND, LogFile

HELD_TIME_FILE = "heldTime.json"


class Begun(NamedTuple):
    """`store_ms`: store time of a file's first message, which tells it from another file of the
    same name; `at_ms`: on the held clock, when the broker first saw that message in it.
    """

    store_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class HeldTime:
    """`ran_ms`: how long the broker ran with this store, over all runs; `begun`: by the start of
    each file.
    """

    ran_ms: int = 0
    begun: Mapping[int, Begun] = field(default_factory=dict)

    def after(
        self, more_ms: int, starts: Sequence[int], store_ms_at: Callable[[int], int | None]
    ) -> HeldTime:
        """`more_ms` later by a clock that only grows, with files at `starts`, ascending;
        `store_ms_at`: of their first messages.
        """
        ran_ms, begun = self.ran_ms + max(more_ms, 0), dict[int, Begun]()
        for number, start in enumerate(starts):
            known = self.begun.get(start)
            if known is None or number <= FILES_PER_ROUND:
                store_ms = store_ms_at(start)
                if store_ms is None:
                    continue
                if known is None or known.store_ms != store_ms:
                    known = Begun(store_ms, ran_ms)
            begun[start] = known
        return HeldTime(ran_ms, begun)

    def oldest(self, starts: Sequence[int]) -> list[LogFile]:
        """The files of a round, on the held clock."""
        known = ((start, self.begun.get(start)) for start in starts[: FILES_PER_ROUND + 1])
        return [LogFile(start, None if begun is None else begun.at_ms) for start, begun in known]

    def document(self) -> dict[str, object]:
        """As JSON."""
        return {
            "ranMs": self.ran_ms,
            "files": {str(start): list(begun) for start, begun in self.begun.items()},
        }


def held_time_of(document: object) -> HeldTime:
    """What `document` gave. ValueError, in one line, when it is none."""
    match document:
        case {"ranMs": int(ran_ms), "files": dict(files)} if ran_ms >= 0:
            return HeldTime(
                ran_ms, {_start(name): _begun(value, ran_ms) for name, value in files.items()}
            )
    raise ValueError("not the held time of a log")


def _start(name: object) -> int:
    if not isinstance(name, str) or not name.isdecimal():
        raise ValueError("a file of the log has no start")
    return int(name)


def _begun(value: object, ran_ms: int) -> Begun:
    match value:
        case [int(store_ms), int(at_ms)] if 0 <= at_ms <= ran_ms:
            return Begun(store_ms, at_ms)
    raise ValueError("a file of the log began at no time")
