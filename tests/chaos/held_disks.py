"""Brokers whose disks can be made to hang: they are started with a library that holds back what
they ask of the files of their store (hold_disk.c), for as long as a control file is there.

Refuses to know: who is hit, when, and what should come of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infra.problems import Problem
from tests.chaos.hits import NotPossible
from tests.support.preloaded import build

SOURCE = Path(__file__).with_name("hold_disk.c")
FLUSH, ALL = "flush", "all"
"""Only fsync and fdatasync hang, or whatever changes a file."""


class HeldDisks:
    """`stores`: the store folders of the brokers by name. Without a C compiler `missing` says so,
    and no disk can be held.
    """

    def __init__(self, home: Path, stores: Mapping[str, Path]) -> None:
        self._home, self._stores = home / "disks", stores
        self._home.mkdir()
        self._library: Path | None = None
        self.missing = ""
        try:
            self._library = build(SOURCE, self._home)
        except Problem as problem:
            self.missing = problem.what

    def prefix(self, name: str) -> list[str]:
        """Words before the command of a broker."""
        if self._library is None:
            return []
        said = {
            "LD_PRELOAD": self._library,
            "REGENT_HOLD": self._home / name,
            "REGENT_HELD_BELOW": self._stores[name],
        }
        return ["env", *(f"{key}={value}" for key, value in said.items())]

    @contextmanager
    def hangs(self, name: str, what: str) -> Iterator[None]:
        """Its disk answers nothing of that kind during the block. NotPossible."""
        if self.missing:
            raise NotPossible(self.missing)
        control = self._home / f"{name}.{what}"
        control.touch()
        try:
            yield
        finally:
            control.unlink()
