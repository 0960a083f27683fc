"""A broker's metrics as Prometheus text (OPERATING, Metrics).

Responsible for: the series' names, kinds, labels and meanings. Names and labels of RocketMQ's own
are those that its 5.3.3 brokers print, so that dashboards and alerts go on; ours start with
`regent_`.
Refuses to know: how anything was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from brokers.pages.figures import Figures, Lag, is_system

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PROTOCOL = "remoting"
MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
# Ordinal of V4_0_0_SNAPSHOT; each minor version has ten patches, each with a snapshot.
FIRST_REGULAR, PER_PATCH, PER_MINOR, PER_MAJOR = 212, 2, 20, 200
Row = tuple[Sequence[str], float]
Sums = tuple[Sequence[str], int, int]


def version_name(ordinal: int) -> str:
    """RocketMQ's name of a version, as its metrics write it: `v5_3_3`."""
    if ordinal < FIRST_REGULAR:
        return f"v3_{ordinal}"
    at = ordinal - FIRST_REGULAR
    major, minor = 4 + at // PER_MAJOR, at % PER_MAJOR // PER_MINOR
    name = f"v{major}_{minor}_{at % PER_MINOR // PER_PATCH}"
    return name if at % PER_PATCH else f"{name}_snapshot"


class _Page(Collector):
    """One scrape. `who`: labels of every series of RocketMQ's."""

    def __init__(self, seen: Figures, who: Mapping[str, str]) -> None:
        self._seen = seen
        self._who = {"otel_scope_name": "broker-meter", **who}

    def collect(self) -> Iterator[Metric]:
        yield from self._of_broker()
        yield from self._of_messages()
        yield from self._of_connections()
        yield from self._of_groups()
        yield from self._of_transactions()
        yield from self._of_timer()
        yield from self._ours()

    # -- RocketMQ's own ----------------------------------------------------------------------------

    def _of_broker(self) -> Iterator[Metric]:
        seen = self._seen
        yield self._gauge(
            "rocketmq_processor_watermark",
            "requests that wait",
            ("processor",),
            (((name,), count) for name, count in seen.waiting.items()),
        )
        for name, meaning, value in (
            ("rocketmq_broker_permission", "read 4, write 2", seen.permission),
            ("rocketmq_topic_number", "topics", seen.topics),
            ("rocketmq_consumer_group_number", "consumer groups", seen.groups),
        ):
            yield self._gauge(name, meaning, (), [((), value)])
        stored = ("storage_type", "storage_medium")
        for name, meaning, value in (
            ("rocketmq_storage_size_bytes", "bytes of the log", seen.stored_bytes),
            (
                "rocketmq_storage_flush_behind_bytes",
                "of these, not on the disk",
                seen.flush_behind_bytes,
            ),
            (
                "rocketmq_storage_dispatch_behind_bytes",
                "of these, confirmed and not in their queues",
                seen.dispatch_behind_bytes,
            ),
            (
                "rocketmq_storage_message_reserve_time_milliseconds",
                "age of the oldest message",
                seen.reserve_ms,
            ),
        ):
            yield self._gauge(name, meaning, stored, [(("local", "disk"), value)])

    def _of_messages(self) -> Iterator[Metric]:
        stored, given = self._seen.stored, self._seen.given
        into = ("topic", "message_type", "is_system")
        out = ("topic", "consumer_group", "is_system", "is_retry")
        by_kind: list[Sums] = [
            ((*key, _flag(is_system(key[0]))), m, size) for key, m, size in stored
        ]
        by_group: list[Sums] = [((*key, *_flags(*key)), m, size) for key, m, size in given]
        for name, what, labels, rows in (
            ("rocketmq_{}_in", "of producers", into, by_kind),
            ("rocketmq_{}_out", "given to consumers", out, by_group),
        ):
            counts = ((values, float(messages)) for values, messages, _ in rows)
            yield self._counter(name.format("messages"), f"messages {what}", labels, counts)
            sizes = ((values, float(size)) for values, _, size in rows)
            yield self._counter(name.format("throughput"), f"bytes {what}", labels, sizes)
        dead = (
            ((group, topic, _flag(is_system(topic, group))), float(count))
            for (topic, group), count in self._seen.dead_letters.items()
        )
        yield self._counter(
            "rocketmq_send_to_dlq_messages",
            "messages that became dead letters",
            ("consumer_group", "topic", "is_system"),
            dead,
        )

    def _of_connections(self) -> Iterator[Metric]:
        yield self._gauge(
            "rocketmq_producer_connections",
            "connections of producers",
            ("language", "version", "protocol_type"),
            (
                ((language, version_name(version), PROTOCOL), count)
                for (language, version), count in self._seen.producers.items()
            ),
        )
        yield self._gauge(
            "rocketmq_consumer_connections",
            "connections of consumers",
            (
                *("consumer_group", "language", "version", "consume_mode"),
                *("protocol_type", "is_system"),
            ),
            (
                (
                    (
                        *(group, language, version_name(version), MODES.get(mode, mode)),
                        *(PROTOCOL, _flag(is_system("", group))),
                    ),
                    count,
                )
                for (group, language, version, mode), count in self._seen.consumers.items()
            ),
        )

    def _of_groups(self) -> Iterator[Metric]:
        labels = ("consumer_group", "topic", "is_retry", "is_system")

        def rows(value: str) -> Iterator[Row]:
            for one in self._seen.lags:
                of_system = _flag(is_system(one.topic, one.group))
                yield (one.group, one.topic, _flag(one.is_retry), of_system), _of_lag(one)[value]

        for name, meaning, value in (
            ("rocketmq_consumer_lag_messages", "messages behind the stored place", "behind"),
            ("rocketmq_consumer_inflight_messages", "of these, given", "inflight"),
            ("rocketmq_consumer_ready_messages", "of these, not given", "ready"),
            (
                "rocketmq_consumer_lag_latency_milliseconds",
                "age of the oldest message behind the stored place",
                "behind_ms",
            ),
            (
                "rocketmq_consumer_queueing_latency_milliseconds",
                "age of the oldest message that was not given",
                "queueing_ms",
            ),
        ):
            yield self._gauge(name, meaning, labels, rows(value))

    def _of_transactions(self) -> Iterator[Metric]:
        yield self._gauge(
            "rocketmq_half_messages",
            "halves from the first undecided one on",
            (),
            [((), self._seen.halves)],
        )
        for name, commit in (
            ("rocketmq_commit_messages", True),
            ("rocketmq_rollback_messages", False),
        ):
            rows = (
                ((topic,), float(count))
                for (topic, committed), count in self._seen.ended.items()
                if committed is commit
            )
            meaning = "halves that were committed" if commit else "halves that were rolled back"
            yield self._counter(name, meaning, ("topic",), rows)

    def _of_timer(self) -> Iterator[Metric]:
        seen = self._seen
        for name, meaning, value in (
            ("rocketmq_timer_enqueue_lag", "messages not in the wheel yet", seen.timer_behind),
            ("rocketmq_timer_dequeue_lag", "messages in the wheel", seen.timer_waiting),
            (
                "rocketmq_timer_dequeue_latency_milliseconds",
                "how late the wheel is",
                seen.timer_late_ms,
            ),
        ):
            yield self._gauge(name, meaning, (), [((), value)])
        yield self._gauge(
            "rocketmq_timing_messages",
            "messages that wait for their time",
            ("topic",),
            (((topic,), count) for topic, count in sorted(seen.timing.items())),
        )
        for name, meaning, value in (
            ("rocketmq_timer_enqueue", "messages that went into the wheel", seen.timer_counted[0]),
            ("rocketmq_timer_dequeue", "messages that came out of it", seen.timer_counted[1]),
        ):
            yield self._counter(name, meaning, (), [((), value)])

    # -- ours --------------------------------------------------------------------------------------

    def _ours(self) -> Iterator[Metric]:
        seen, status = self._seen, self._seen.status
        role = GaugeMetricFamily("regent_broker_role", "1: its role now", labels=["role"])
        for one in ("MASTER", "SLAVE", "FENCED"):
            role.add_metric([one], int(status.role == one))
        yield role
        for name, meaning, value in (
            ("ready", "1 when it is registered and serves or passes on", int(status.ready)),
            ("master_epoch", "Master epoch that it knows", status.master_epoch),
            ("sync_state_set_size", "Members of the SyncStateSet", len(status.sync_state_set)),
            ("log_min_offset", "Where its log begins", status.log_min),
            ("log_end_offset", "Where its log ends", status.log_end),
            ("confirm_offset", "Up to where consumers may read", status.confirm_offset),
            ("dispatched_offset", "Up to where messages are in queues", status.dispatched_offset),
            ("writes_refused", "1 while it takes no send", int(status.write_refusal is not None)),
            (
                "store_refuses",
                "1 while its disk takes no bytes",
                int(status.store_refusal is not None),
            ),
            ("damaged_records", "Damaged messages known now", status.records_damaged),
            ("append_slowest_milliseconds", "The slowest append since the start", seen.slowest_ms),
            ("append_p99_milliseconds", "99 of a hundred appends took less", seen.p99_ms),
            ("lags_left_out", "Groups of topics of which no lag is told", seen.lags_left_out),
        ):
            yield GaugeMetricFamily(f"regent_broker_{name}", meaning, value)
        for name, meaning, value in (
            ("forwarded_requests", "Requests passed on to a master", status.forwarded),
            ("repaired_records", "Damaged messages fetched from a member", status.records_repaired),
            ("reported_events", "Events handed to the log's producer", status.events_reported),
            ("dropped_events", "Events that found no room", status.events_dropped),
            ("failed_sends", "Sends that did not get into the log", seen.failed),
        ):
            yield CounterMetricFamily(f"regent_broker_{name}", meaning, value)
        yield from self._escape()

    def _escape(self) -> Iterator[Metric]:
        """Of a slave that acts."""
        seen = self._seen
        for name, meaning, label, counts in (
            ("escaped_messages", "Messages put to another set", "kind", seen.escaped),
            ("escape_puts", "Answers to such puts", "result", seen.escape_puts),
        ):
            family = CounterMetricFamily(f"regent_broker_{name}", meaning, labels=[label])
            for key, count in sorted(counts.items()):
                family.add_metric([key], count)
            yield family
        waits = GaugeMetricFamily(
            "regent_broker_escape_waiting", "Messages due that nobody took yet", labels=["reason"]
        )
        for reason, count in sorted(seen.escape_waits.items()):
            waits.add_metric([reason], count)
        yield waits

    # -- rows --------------------------------------------------------------------------------------

    def _gauge(self, name: str, meaning: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
        family = GaugeMetricFamily(name, meaning, labels=[*self._who, *labels])
        for values, value in rows:
            family.add_metric([*self._who.values(), *map(_clean, values)], value)
        return family

    def _counter(
        self, name: str, meaning: str, labels: Sequence[str], rows: Iterable[Row]
    ) -> Metric:
        family = CounterMetricFamily(name, meaning, labels=[*self._who, *labels])
        for values, value in rows:
            family.add_metric([*self._who.values(), *map(_clean, values)], value)
        return family


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _flags(topic: str, group: str) -> tuple[str, str]:
    return _flag(is_system(topic, group)), _flag(topic.startswith("%RETRY%"))


def _of_lag(one: Lag) -> Mapping[str, int]:
    return {
        "behind": one.behind,
        "inflight": one.inflight,
        "ready": one.behind - one.inflight,
        "behind_ms": one.behind_ms,
        "queueing_ms": one.queueing_ms,
    }


def _clean(text: str) -> str:
    """Names that a client sent may hold what is no text."""
    return text.encode("utf-8", "replace").decode("utf-8", "replace")


def render(seen: Figures, who: Mapping[str, str]) -> bytes:
    """The page; on any thread. `who`: labels of RocketMQ's series."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(seen, who))
    return generate_latest(registry)
