"""What a row gets from the run: where to work, how to speak, which clusters there are.

Refuses to know the rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import detection
from tests.bench.cluster import BenchCluster
from tests.bench.figure import Figure

BARE_RECOVERIES = 5


@dataclass
class Bench:
    """One run. Clusters are started when first asked for and stay until `stop`."""

    work: Path
    minutes: float = 60.0
    """How long a row looks that has to see what grows with time."""
    share: float = 1.0
    """Of the blows of a row that strikes many times."""
    began: float = field(default_factory=time.monotonic)
    _bare: list[float] = field(default_factory=list)
    _clusters: dict[str, BenchCluster] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        """A progress line."""
        print(f"[{self.seconds:6.1f} s] {text}", file=sys.stderr, flush=True)

    def times(self, count: int) -> int:
        """How often to strike where `count` is asked for: fewer when time presses, never fewer than
        two.
        """
        return max(2, round(count * self.share))

    def folder(self, name: str) -> Path:
        """A fresh folder of that name."""
        path = self.work / name
        path.mkdir(parents=True)
        return path

    def cluster(self, name: str, *flags: str) -> BenchCluster:
        """The running cluster of that name. Others are stopped first: they would share the
        processors.
        """
        for other in list(self._clusters):
            if other != name:
                self.drop(other)
        if name not in self._clusters:
            self.say(f"starting a cluster: {' '.join(flags)}")
            one = BenchCluster(self.work / f"cluster-{name}", self.say)
            self._clusters[name] = one
            one.up(*flags)
        return self._clusters[name]

    def plain_cluster(self) -> BenchCluster:
        """One Kafka node, two controllers, three replicas, no tables."""
        return self.cluster(
            "plain", "--replicas", "3", "--controllers", "2", "--kafka-nodes", "1", "--no-land"
        )

    def broker_cluster(self) -> BenchCluster:
        """One Kafka node and one controller, for rows that bring brokers of their own."""
        return self.cluster(
            "brokers", "--replicas", "0", "--controllers", "1", "--kafka-nodes", "1", "--no-land"
        )

    def bare_recoveries(self) -> list[float]:
        """Recoveries of a client whose server is killed and who knows another one, in s; measured
        once a run.
        """
        if not self._bare:
            self._bare = detection.bare_recoveries(BARE_RECOVERIES)
        return self._bare

    def drop(self, name: str) -> None:
        """Stop a cluster, if it is there."""
        one = self._clusters.pop(name, None)
        if one is not None:
            one.down()

    def quiet(self) -> None:
        """Stop all clusters: what follows is measured on a machine that does nothing else."""
        for name in list(self._clusters):
            self.drop(name)


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the benchmark: a name for `--only`, what it is in one line, and how it is
    measured.
    """

    name: str
    meaning: str
    measure: Callable[[Bench], list[Figure]]
    required: bool = False
    long: bool = False
    """Takes many minutes: only in `make bench-long`, or by name."""
