"""RocketMQ's names and labels of a broker's metrics (check list 96)."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brokers.pages.series import render, version_name
from tests.unit.brokers.pages.seen import figures_of

NAMES = """
rocketmq_processor_watermark rocketmq_broker_permission rocketmq_topic_number
rocketmq_consumer_group_number rocketmq_messages_in_total rocketmq_throughput_in_total
rocketmq_messages_out_total rocketmq_throughput_out_total rocketmq_producer_connections
rocketmq_consumer_connections rocketmq_consumer_lag_messages rocketmq_consumer_inflight_messages
rocketmq_consumer_ready_messages rocketmq_consumer_lag_latency_milliseconds
rocketmq_consumer_queueing_latency_milliseconds rocketmq_send_to_dlq_messages_total
rocketmq_commit_messages_total rocketmq_rollback_messages_total rocketmq_half_messages
rocketmq_storage_size_bytes rocketmq_storage_flush_behind_bytes
rocketmq_storage_dispatch_behind_bytes rocketmq_storage_message_reserve_time_milliseconds
rocketmq_timer_enqueue_lag rocketmq_timer_dequeue_lag rocketmq_timing_messages
rocketmq_timer_enqueue_total rocketmq_timer_dequeue_total
"""
LAG = "consumer_group=g topic=T is_retry=false is_system=false"
OUT = "consumer_group=g is_system=false"
GO = f"language=GO version=v4_9_4 consume_mode=push protocol_type=remoting {OUT}"
WHO = {"cluster": "c", "node_type": "broker", "node_id": "b"}


def samples() -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(figures_of(), WHO).decode()):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def test_96_every_series_has_rocketmqs_name_and_says_whose_it_is() -> None:
    found = samples()
    assert set(NAMES.split()) <= set(found)
    for name, rows in found.items():
        if name.startswith("rocketmq_"):
            assert all(labels.items() >= WHO.items() for labels, _ in rows), name
            assert {labels["otel_scope_name"] for labels, _ in rows} == {"broker-meter"}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("rocketmq_messages_in_total", "topic=T message_type=delay is_system=false", 2),
        ("rocketmq_throughput_in_total", "topic=T message_type=normal is_system=false", 300),
        ("rocketmq_messages_out_total", f"topic=T {OUT} is_retry=false", 4),
        ("rocketmq_messages_out_total", f"topic=%RETRY%g {OUT} is_retry=true", 1),
        ("rocketmq_consumer_lag_messages", LAG, 7),
        ("rocketmq_consumer_inflight_messages", LAG, 3),
        ("rocketmq_consumer_ready_messages", LAG, 4),
        ("rocketmq_consumer_lag_latency_milliseconds", LAG, 900),
        ("rocketmq_producer_connections", "language=JAVA version=v5_3_3 protocol_type=remoting", 2),
        ("rocketmq_consumer_connections", GO, 1),
        ("rocketmq_send_to_dlq_messages_total", "consumer_group=g topic=T is_system=false", 1),
        ("rocketmq_commit_messages_total", "topic=T", 5),
        ("regent_broker_escaped_messages_total", "kind=timer", 3),
        ("regent_broker_escape_puts_total", "result=stored", 3),
        ("rocketmq_rollback_messages_total", "topic=T", 6),
        ("rocketmq_broker_permission", "", 6),
        ("rocketmq_processor_watermark", "processor=send", 2),
        ("rocketmq_storage_size_bytes", "storage_type=local storage_medium=disk", 4096),
        ("rocketmq_timing_messages", "topic=T", 8),
        ("regent_broker_role", "role=MASTER", 1),
        ("regent_broker_forwarded_requests_total", "", 11),
    ],
)
def test_96_values_and_labels(name: str, labels: str, value: float) -> None:
    wanted = dict(pair.split("=") for pair in labels.split())
    own = [
        ({key: text for key, text in found.items() if key not in {*WHO, "otel_scope_name"}}, number)
        for found, number in samples()[name]
    ]
    assert (wanted, value) in own


@pytest.mark.parametrize(
    ("ordinal", "name"), [(479, "v5_3_3"), (401, "v4_9_4"), (412, "v5_0_0_snapshot"), (58, "v3_58")]
)
def test_versions_have_rocketmqs_names(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name


def test_a_name_that_is_no_text_does_not_cost_the_page() -> None:
    seen = figures_of()
    seen.stored = [(("T\udcff", "normal"), 1, 1)]
    assert b"rocketmq_messages_in_total" in render(seen, WHO)
