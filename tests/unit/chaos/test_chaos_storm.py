"""A storm: the same seed strikes the same, what lasts is taken back, and nothing lasts longer than
the storm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.chaos.brokers_storm import Storm


class PlayedStage:
    """Writes down what a storm does to it; time does not pass."""

    def __init__(self, home: Path) -> None:
        self.home, self.network, self.brokers = home, self, ["one", "two", "three"]
        self.told: list[tuple[Any, ...]] = []
        self.lasting = 0

    def kill(self, *names: str) -> None:
        self.told.append(("kill", *names))

    @contextmanager
    def _last(self, *what: Any) -> Iterator[None]:
        self.told.append(what)
        self.lasting += 1
        yield
        self.lasting -= 1

    def paused(self, *names: str) -> Any:
        return self._last("pause", *names)

    def cut(self, ones: Sequence[str], others: Sequence[str]) -> Any:
        return self._last("one way", *ones, *others)

    def apart(self, ones: Sequence[str], others: Sequence[str]) -> Any:
        return self._last("cut", *ones, *others)

    def wait_for(self, seconds: float) -> None:
        assert seconds >= 0


def struck(home: Path, seed: int) -> PlayedStage:
    home.mkdir()
    stage = PlayedStage(home)
    Storm(cast(Any, stage), seed).blow(0.2)
    return stage


def test_a_seed_repeats_a_storm_and_nothing_outlasts_it(tmp_path: Path) -> None:
    first, again, other = (
        struck(tmp_path / "a", 7),
        struck(tmp_path / "b", 7),
        struck(tmp_path / "c", 8),
    )
    assert first.told[:10] == again.told[:10] != other.told[:10]
    assert {one[0] for one in first.told} == {"kill", "pause", "cut", "one way"}
    assert first.lasting == again.lasting == 0
    assert (tmp_path / "a" / "storm.log").read_text().count("\n") == len(first.told)
