"""The landing job's metrics for Prometheus.

Responsible for the series' names and meanings, and for the port. Refuses to know how anything was
counted: the numbers are those of the job's status, apart from the batches, which are counted as
they end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakehouse.errors import LakehouseError
from lakehouse.landing.status import LandingStatus

MS_PER_S = 1000
BATCH_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class LandingMetrics:
    """Counts batches, and shows the status at each scrape."""

    def __init__(self, status: Callable[[], LandingStatus]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._rows = Counter(
            "regent_landing_rows", "Rows appended to tables", ["query"], registry=self.registry
        )
        self._seconds = Histogram(
            "regent_landing_batch_seconds",
            "Time that a batch took: its rows made and appended",
            ["query"],
            buckets=BATCH_SECONDS,
            registry=self.registry,
        )
        self.registry.register(_Seen(status))

    def batch_done(self, which: str, rows: int, taken_ms: int) -> None:
        """A batch of a query is in the tables: `landed` is that of bronze and decisions, `detailed`
        that of the others.
        """
        self._rows.labels(which).inc(rows)
        self._seconds.labels(which).observe(taken_ms / MS_PER_S)


class _Seen(Collector):
    """The status as gauges."""

    def __init__(self, status: Callable[[], LandingStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield GaugeMetricFamily(
            "regent_landing_ready",
            "1 when what was there at its start has landed",
            int(status.ready),
        )
        yield GaugeMetricFamily(
            "regent_landing_failed",
            "1 when the job has stopped with an error",
            int(status.error is not None),
        )
        records = GaugeMetricFamily(
            "regent_landing_lag_records",
            "Records of the log that have not landed in bronze",
            labels=["partition"],
        )
        seconds = GaugeMetricFamily(
            "regent_landing_lag_seconds",
            "For how long the oldest of them has been in the log",
            labels=["partition"],
        )
        for name, count in sorted(status.lag_records.items()):
            records.add_metric([name], count)
        for name, age_ms in sorted(status.lag_ms.items()):
            seconds.add_metric([name], age_ms / MS_PER_S)
        yield from (records, seconds)
        for which, meaning in (
            ("landed", "bronze and decisions"),
            ("detailed", "the other silver tables"),
        ):
            offsets = GaugeMetricFamily(
                f"regent_landing_{which}_offset",
                f"Next offset to land in {meaning}",
                labels=["partition"],
            )
            for name, offset in sorted(getattr(status, which).items()):
                offsets.add_metric([name], offset)
            yield offsets
        lost = GaugeMetricFamily(
            "regent_lake_lost_records",
            "Records that were gone from the log before they landed, and are noted",
            labels=["partition"],
        )
        for name, count in sorted(status.lost_records.items()):
            lost.add_metric([name], count)
        yield lost
        if status.alarms is not None:
            yield GaugeMetricFamily(
                "regent_lake_alarms",
                "Alarms that stand: missing records and broken invariants",
                status.alarms,
            )
        yield GaugeMetricFamily(
            "regent_landing_troubles",
            "Activities beside landing (gold, check, care, watch) whose last round failed",
            len(status.troubles),
        )


def serve(listen: str, metrics: LandingMetrics) -> tuple[str, Callable[[], Any]]:
    """Answer scrapes at `listen` (host:port, port 0: any); where it is, and how to stop.

    Raises `LakehouseError` when the address cannot be bound.
    """
    host, _, port = listen.rpartition(":")
    try:
        server, thread = start_http_server(
            int(port), addr=host or "127.0.0.1", registry=metrics.registry
        )
    except (OSError, ValueError, OverflowError) as error:
        raise LakehouseError(f"metrics_listen {listen} cannot be bound: {error}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return f"{host or '127.0.0.1'}:{server.server_port}", stop


SIGHTINGS_MAX = 10_000
"""Per partition; beyond that every other one is forgotten, the oldest never."""


@dataclass(frozen=True, slots=True)
class Lag:
    """By `topic-partition`: records that have not landed, and for how many ms the oldest of them
    has been there.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    age_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_records(self) -> int:
        """The sum of all partitions."""
        return sum(self.records.values())

    @property
    def longest_ms(self) -> int:
        """The oldest of all."""
        return max(self.age_ms.values(), default=0)


class LagWatch:
    """Sightings of the log's ends that have not landed yet.

    Invariants: per partition, times and ends of the sightings kept ascend strictly.
    """

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[int, int]]] = {}

    def note(self, now_ms: int, ends: Mapping[str, int], landed: Mapping[str, int]) -> Lag:
        """The log ends at `ends`, `landed` are the next offsets to land: how far behind is that?"""
        records, ages = {}, {}
        for name, end in ends.items():
            seen = self._seen.setdefault(name, deque())
            at = landed.get(name, 0)
            if not seen or end > seen[-1][1]:
                seen.append((now_ms, end))
            while seen and seen[0][1] <= at:
                seen.popleft()
            if len(seen) > SIGHTINGS_MAX:
                self._seen[name] = deque(one for i, one in enumerate(seen) if i % 2 == 0)
            records[name] = max(0, end - at)
            ages[name] = max(0, now_ms - seen[0][0]) if seen and records[name] else 0
        return Lag(records, ages)
