"""Metrics as Prometheus text (RULES 13).

Responsible for: the series' names, kinds, labels and meanings. Names and labels of RocketMQ's own
are those that the Prometheus exporter of its 5.3.3 controller prints, so that dashboards and alerts
go on; ours start with `regent_`.
Refuses to know: how anything was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from processors.controller.gauges import Gauges
from processors.controller.metrics import Histogram, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCOPE = "otel_scope_name"
_APPEND = "append"
Row = tuple[Sequence[str], float]


@dataclass(frozen=True, slots=True)
class Disk:
    """What the process keeps on its disk; ages in seconds, -1 when there is no snapshot."""

    used_bytes: int = 0
    snapshot_offset: int = -1
    snapshot_age_s: float = -1.0


# Name, meaning, and the field of `Metrics` that counts it since the start.
COUNTED: tuple[tuple[str, str, str], ...] = (
    (
        "regent_repeated_refusals",
        "Requests answered by a refusal that is recorded already",
        "repeated_refusals",
    ),
    (
        "regent_rate_limited",
        "Requests turned away because too many of their kind came",
        "rate_limited",
    ),
    (
        "regent_unrecorded_refusals",
        "Requests about unknown sets, refused without a record because there were too many",
        "unrecorded_refusals",
    ),
    (
        "regent_role_notices_undelivered",
        "Role notices whose broker could not be reached; it polls",
        "notices_undelivered",
    ),
    (
        "regent_role_notices_deferred",
        "Role notices that waited: too many connections were being made",
        "notices_deferred",
    ),
    (
        "regent_role_notices_dropped",
        "Role notices for which there was no room even to wait; brokers poll",
        "notices_dropped",
    ),
    (
        "regent_strange_heartbeats",
        "Brokers' heartbeats ignored: of another process than the registered one",
        "strange_heartbeats",
    ),
    (
        "regent_strange_requests",
        "Requests in a replica's name refused: without its check code, or with another one",
        "strange_requests",
    ),
    (
        "regent_strange_peer_words",
        "Controllers' heartbeats ignored: of strangers, or with offsets that cannot be",
        "strange_peer_words",
    ),
)


class _Page(Collector):
    """One scrape. Java's series carry who and where in labels; ours leave that to Prometheus' own
    instance label.
    """

    def __init__(
        self, metrics: Metrics, figures: Gauges | None, disk: Disk, who: Mapping[str, str]
    ) -> None:
        self._metrics = metrics
        self._figures = figures
        self._disk = disk
        self._who = {SCOPE: "controller", **who}

    def collect(self) -> Iterator[Metric]:
        yield from self._counted_as_java()
        yield from self._counted()
        if self._figures is not None:
            yield from self._seen_as_java(self._figures)
            yield from self._seen(self._figures)
        yield _gauge(
            "regent_snapshot_offset",
            "Last command in the newest snapshot on disk, -1 without one",
            self._disk.snapshot_offset,
        )
        yield _gauge(
            "regent_snapshot_age_seconds",
            "Age of the newest snapshot on disk, -1 without one",
            self._disk.snapshot_age_s,
        )

    # -- RocketMQ's own ----------------------------------------------------------------------------

    def _counted_as_java(self) -> Iterator[Metric]:
        counted = self._metrics
        rows: Iterable[Row] = ((key, value) for key, value in sorted(counted.requests.items()))
        yield self._counter(
            "request", "total request num", ("request_type", "request_handle_status"), rows
        )
        yield self._histogram(
            "request_latency_microseconds",
            "request latency",
            ("request_type",),
            {(name,): one for name, one in sorted(counted.request_us.items())},
        )
        appends = ("dledger_operation", "dLedger_operation_status")
        rows = (((_APPEND, status), value) for status, value in sorted(counted.appends.items()))
        yield self._counter(
            "dledger_op", "appends to the replicated log, which is Kafka", appends, rows
        )
        yield self._histogram(
            "dledger_op_latency_microseconds",
            "append until the log has acknowledged it",
            appends,
            {(_APPEND, "success"): counted.append_us} if counted.append_us.count else {},
        )
        rows = ((key, value) for key, value in sorted(counted.elections.items()))
        yield self._counter(
            "election", "total elect num", ("cluster", "broker_set", "election_result"), rows
        )
        yield self._who_gauge(
            "dledger_disk_usage_bytes",
            "what this controller keeps on its disk",
            (),
            [((), self._disk.used_bytes)],
        )

    def _seen_as_java(self, figures: Gauges) -> Iterator[Metric]:
        yield self._who_gauge(
            "role", "0 unknown, 1 candidate, 2 follower, 3 leader", (), [((), figures.role)]
        )
        yield self._who_gauge(
            "active_broker_num",
            "replicas that are alive",
            ("cluster", "broker_set"),
            sorted(figures.living.items()),
        )

    def _counter(
        self, name: str, meaning: str, labels: Sequence[str], rows: Iterable[Row]
    ) -> Metric:
        family = CounterMetricFamily(name, meaning, labels=[*self._who, *labels])
        for values, count in rows:
            family.add_metric([*self._who.values(), *values], count)
        return family

    def _who_gauge(
        self, name: str, meaning: str, labels: Sequence[str], rows: Iterable[Row]
    ) -> Metric:
        family = GaugeMetricFamily(name, meaning, labels=[*self._who, *labels])
        for values, value in rows:
            family.add_metric([*self._who.values(), *values], value)
        return family

    def _histogram(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str],
        rows: Mapping[tuple[str, ...], Histogram],
    ) -> Metric:
        family = HistogramMetricFamily(name, meaning, labels=[*self._who, *labels])
        for values, one in rows.items():
            family.add_metric([*self._who.values(), *values], one.cumulative(), one.sum)
        return family

    # -- ours --------------------------------------------------------------------------------------

    def _counted(self) -> Iterator[Metric]:
        counted = self._metrics
        applied = CounterMetricFamily(
            "regent_commands_applied", "Records of the log applied since the start", labels=["kind"]
        )
        for kind, count in sorted(counted.applied.items()):
            applied.add_metric([kind], count)
        yield applied
        refused = CounterMetricFamily(
            "regent_refusals",
            "Of these, refused: by which rule, with which response code",
            labels=["refusal", "code"],
        )
        for (refusal, code), count in sorted(counted.refused.items()):
            refused.add_metric([refusal, str(code)], count)
        yield refused
        for name, meaning, attribute in COUNTED:
            yield CounterMetricFamily(name, meaning, getattr(counted, attribute))
        yield CounterMetricFamily(
            "regent_fold_seconds", "Time spent deciding and applying records", counted.fold_ns / 1e9
        )

    def _seen(self, figures: Gauges) -> Iterator[Metric]:
        yield _gauge(
            "regent_term", "Term of the leadership this controller has applied", figures.term
        )
        yield _gauge(
            "regent_rules_version", "Rules that decisions are judged by", figures.rules_version
        )
        yield _gauge(
            "regent_leader_known",
            "1 when this controller leads or hears one that does",
            int(figures.leader_known),
        )
        yield _gauge("regent_applied_offset", "Last command applied here", figures.applied_offset)
        behind = max(0, figures.end_offset - 1 - figures.applied_offset)
        yield _gauge(
            "regent_log_lag_records",
            "Commands known to be in the log and not applied here yet",
            behind,
        )
        yield _gauge(
            "regent_published_offset",
            "Last command whose outcome is known to be published",
            figures.published_offset,
        )
        yield _gauge(
            "regent_pending_commands",
            "Commands handed to the log and not applied yet",
            figures.pending,
        )
        yield _gauge("regent_broker_sets", "Broker sets known", figures.sets)
        yield _gauge(
            "regent_broker_sets_without_master",
            "Of these, without a master",
            figures.sets_without_master,
        )
        yield _gauge(
            "regent_broker_sets_at_risk",
            "Of these, with a master that may lack acknowledged messages",
            figures.sets_at_risk,
        )
        waiting = "Of these, in which nobody can be elected without a person's decision or deed"
        yield _gauge("regent_broker_sets_operator_needed", waiting, figures.sets_operator_needed)
        yield _gauge(
            "regent_unclaimed_ids",
            "Broker ids given out and never registered",
            figures.unclaimed_ids,
        )
        yield _gauge(
            "regent_heartbeat_silence_max_seconds",
            "Longest silence of a replica that counts as alive",
            figures.silence_max_ms / 1000,
        )


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value)


def render(metrics: Metrics, figures: Gauges | None, disk: Disk, who: Mapping[str, str]) -> bytes:
    """The page. `figures` None: the process is still starting. `who`: labels of every series of
    Java's.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(metrics, figures, disk, who))
    return generate_latest(registry)
