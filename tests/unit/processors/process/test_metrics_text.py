from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from processors.controller.gauges import Gauges
from processors.controller.metrics import SUCCESS, Metrics
from processors.process.metrics_text import Disk, render

JAVA = Path(__file__).resolve().parents[3] / "golden/controller/java-5.3.3-metrics.txt"
WHO = {"address": "127.0.0.1:30038", "group": "interop", "peer_id": "n0", "rack": "7", "zone": "a"}
FIGURES = Gauges(
    role=3,
    term=4,
    rules_version=2,
    leader_known=True,
    applied_offset=10,
    end_offset=13,
    published_offset=9,
    pending=2,
    living={("C", "a"): 3},
    sets=1,
    sets_without_master=0,
    sets_at_risk=0,
    sets_operator_needed=1,
    unclaimed_ids=1,
    silence_max_ms=250,
)


def counted() -> Metrics:
    """What the Java controller of the recording had counted too."""
    metrics = Metrics()
    metrics.request("CONTROLLER_ELECT_MASTER", SUCCESS, 4_000)
    metrics.append(SUCCESS, 4_000)
    metrics.elections["C", "a", "new_master_elected"] += 1
    metrics.refused["NOT_ALIVE", 2006] += 2
    metrics.fold_ns = 1_500_000
    return metrics


def page(figures: Gauges | None = FIGURES) -> str:
    return render(counted(), figures, Disk(4_096, 8, 12.5), WHO).decode()


def shape(text: str) -> tuple[dict[str, str], dict[str, set[frozenset[str]]]]:
    """Families' kinds, and of each series its set of label names."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE))
    series: dict[str, set[frozenset[str]]] = {}
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\} ", text, re.MULTILINE):
        series.setdefault(name, set()).add(frozenset(re.findall(r"(\w+)=", labels)))
    return kinds, series


def test_every_series_of_the_java_controller_is_there_with_its_labels() -> None:
    java = JAVA.read_text(encoding="utf-8")
    kinds, series = shape(java)
    our_kinds, ours = shape(page())
    for name, labels in series.items():
        if name not in ("target_info", "otel_scope_info"):
            assert ours[name] == labels, name
    # the exporter leaves units out of the TYPE line of what has one; Prometheus itself wants them
    # there
    for name, kind in kinds.items():
        if name not in ("target", "otel_scope_info"):
            assert kind in {
                our_kinds.get(f"{name}{unit}") for unit in ("", "_microseconds", "_bytes")
            }, name


def test_latencies_have_the_borders_of_the_java_controller() -> None:
    java = list(
        re.findall(
            r"^dledger_op_latency_microseconds_bucket\{."
            r'*le="([^"]+)"',
            JAVA.read_text("utf-8"),
            re.MULTILINE,
        )
    )
    ours = re.findall(
        r"^dledger_op_latency_microseconds_bucket\{."
        r'*le="([^"]+)"',
        page(),
        re.MULTILINE,
    )
    assert [float(one) for one in ours] == [float(one) for one in java] and len(ours) == 23


def values() -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(page())
        for sample in family.samples
        if not sample.labels
    }


def test_ours_are_named_regent() -> None:
    assert values() == {
        "regent_term": 4,
        "regent_rules_version": 2,
        "regent_leader_known": 1,
        "regent_applied_offset": 10,
        "regent_log_lag_records": 2,
        "regent_published_offset": 9,
        "regent_pending_commands": 2,
        "regent_broker_sets": 1,
        "regent_broker_sets_without_master": 0,
        "regent_broker_sets_at_risk": 0,
        "regent_broker_sets_operator_needed": 1,
        "regent_unclaimed_ids": 1,
        "regent_heartbeat_silence_max_seconds": 0.25,
        "regent_snapshot_offset": 8,
        "regent_snapshot_age_seconds": 12.5,
        "regent_repeated_refusals_total": 0,
        "regent_rate_limited_total": 0,
        "regent_unrecorded_refusals_total": 0,
        "regent_strange_peer_words_total": 0,
        "regent_strange_heartbeats_total": 0,
        "regent_strange_requests_total": 0,
        "regent_role_notices_undelivered_total": 0,
        "regent_role_notices_deferred_total": 0,
        "regent_role_notices_dropped_total": 0,
        "regent_fold_seconds_total": 0.0015,
    }


def test_refusals_carry_rule_and_code() -> None:
    assert 'regent_refusals_total{code="2006",refusal="NOT_ALIVE"} 2.0' in page()


def test_who_and_where_stands_on_javas_series() -> None:
    line = next(line for line in page().splitlines() if line.startswith("election_total"))
    assert line == (
        'election_total{address="127.0.0.1:30038",broker_set="a",cluster="C",'
        'election_result="new_master_elected",group="interop",otel_scope_name="controller",'
        'peer_id="n0",rack="7",zone="a"} '
        "1.0"
    )


def test_while_starting_there_are_counts_but_no_figures() -> None:
    text = page(None)
    assert "request_total" in text and "regent_term" not in text
