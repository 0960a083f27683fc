"""Tables of the reference as tests: one row, one id such as `5.6-row-4`.

A row says what RocketMQ's controller answers (`shipped`) and runs the same against our rules. Where
the design decides otherwise the row says what ours is and because of which decision: so a reader
sees each difference, and a difference without a reason is an error. A row of another part of the
system names the test that shows it.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNSAID = object()


class Row:
    """One row: what is done, what RocketMQ makes of it, and what we do."""

    def __init__(
        self, run: Callable[[], Any], shipped: Any, ours: Any = UNSAID, because: str = ""
    ) -> None:
        self.run, self.shipped, self.because = run, shipped, because
        self.ours = shipped if ours is UNSAID else ours
        self.differs = ours is not UNSAID

    def check(self) -> None:
        """Run it. A difference needs its reason, and a reason its difference."""
        assert self.differs == bool(self.because)
        assert not self.differs or self.ours != self.shipped
        found = self.run()
        assert found == self.ours, f"{found!r} instead of {self.ours!r}; RocketMQ: {self.shipped!r}"


class Shown:
    """A row of another part: the test of that name shows it."""

    def __init__(self, *tests: str) -> None:
        self.tests = tests

    def check(self) -> None:
        """The tests are there."""
        for path, _, name in (test.partition("::") for test in self.tests):
            assert re.search(rf"def {name}\b", (ROOT / path).read_text("utf-8")), (
                f"{path} has no {name}"
            )


class Table:
    """The rows of one section."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.rows: list[Any] = []

    def row(
        self, name: str, shipped: Any, ours: Any = UNSAID, because: str = ""
    ) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Add the decorated function as a row: its result is compared."""

        def add(run: Callable[[], Any]) -> Callable[[], Any]:
            self._add(name, Row(run, shipped, ours, because))
            return run

        return add

    def shown(self, name: str, *tests: str) -> None:
        """Add a row that other tests show, each as `path::name`."""
        self._add(name, Shown(*tests))

    def _add(self, name: str, row: Row | Shown) -> None:
        row_id = f"{self.section}-{name}"
        assert row_id not in {param.id for param in self.rows}, row_id
        self.rows.append(pytest.param(row, id=row_id))
