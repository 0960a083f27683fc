"""What must behave the same in a controller, in a test, in Spark and in the simulation touches no
clock, socket or file.

A module of these packages is pure unless it is listed as a shell: a new module is pure by default.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import ROOT, imports, modules, nodes

FORBIDDEN = {
    "aiokafka",
    "asyncio",
    "concurrent",
    "confluent_kafka",
    "faust",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "pyspark",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
# modules that may touch the world, by what they are for
SHELLS: dict[str, tuple[str, ...]] = {
    "processes and their parts": (
        "processors/controller_process.py",
        "processors/controller_log.py",
        "processors/faust_worker.py",
        "processors/effect_runner.py",
        "processors/fact_reporter.py",
        "processors/log_watch.py",
        "processors/start_fold.py",
        "events/last_resort.py",
        "processors/landed_tables.py",
        "processors/log_levels.py",
        "processors/namesrv_process.py",
        "processors/peers.py",
        "processors/outcome_publisher.py",
        "brokers/broker_process.py",
        "brokers/hand_over_work.py",
        "brokers/index_upkeep.py",
        "brokers/local_replica.py",
        "brokers/membership.py",
        "brokers/predecessor.py",
        "brokers/retention_task.py",
        "brokers/role_notices.py",
        "brokers/role_switch.py",
        "brokers/scrubber.py",
        "brokers/send_parts.py",
        "brokers/store_care.py",
        "brokers/upkeep.py",
        "brokers/replica/driver.py",
        "brokers/replica/hooks.py",
        "lakehouse/landing_job.py",
        "lakehouse/landing_beside.py",
        "lakehouse/activity.py",
        "lakehouse/lander.py",
        "lakehouse/catalogue.py",
    ),
    "Kafka": (
        "events/producer.py",
        "processors/log_reader.py",
        "processors/topic_check.py",
        "processors/topic_identity.py",
        "brokers/event_reporter.py",
        "lakehouse/log_probe.py",
    ),
    "Spark and Delta": (
        "lakehouse/session.py",
        "lakehouse/verify.py",
        "lakehouse/maintain.py",
        "lakehouse/lake.py",
        "lakehouse/lake_check.py",
        "lakehouse/lake_snapshot.py",
        "lakehouse/gold_merge_spark.py",
        "lakehouse/sql_spark.py",
        "lakehouse/gold_job.py",
        "lakehouse/aggregates.py",
        "lakehouse/aggregates_job.py",
    ),
    "sockets": (
        "processors/snapshot_fetch.py",
        "brokers/remoting/calls.py",
        "brokers/remoting/client.py",
        "brokers/remoting/connection.py",
        "brokers/remoting/known_hosts.py",
        "brokers/remoting/outbox.py",
        "brokers/remoting/server.py",
        "brokers/remoting/silence.py",
        "brokers/ha/transport.py",
        "brokers/controller_client.py",
        "brokers/namesrv_client.py",
        "brokers/ha_lookup.py",
        "brokers/ha_announce.py",
    ),
    "files": (
        "lakehouse/late_schemas.py",
        "processors/snapshots.py",
        "processors/snapshot_route.py",
        "processors/start_notes.py",
        "processors/whole_file.py",
        "processors/own_identity.py",
        "processors/folder_lock.py",
        "brokers/boot.py",
        "brokers/held_position.py",
        "brokers/identity_file.py",
        "brokers/ha/epoch_file.py",
        "brokers/log/checkpoint.py",
        "brokers/log/cold_query.py",
        "brokers/log/commit_log.py",
        "brokers/log/consume_queue.py",
        "brokers/log/consume_queues.py",
        "brokers/log/cut_bytes.py",
        "brokers/log/disk.py",
        "brokers/log/dispatch.py",
        "brokers/log/json_files.py",
        "brokers/log/disk_space.py",
        "brokers/log/entry_process.py",
        "brokers/log/entry_worker.py",
        "brokers/log/group_commit.py",
        "brokers/log/log_folder.py",
        "brokers/log/index.py",
        "brokers/log/index_file.py",
        "brokers/log/next_file.py",
        "brokers/log/open_files.py",
        "brokers/log/patch.py",
        "brokers/log/queue_ends.py",
        "brokers/log/queue_follower.py",
        "brokers/log/segment_files.py",
        "brokers/log/side_reader.py",
        "brokers/log/store.py",
        "brokers/log/trimming.py",
        "brokers/service/table_files.py",
        "brokers/service/table_writer.py",
        "brokers/service/kept_files.py",
        "lakehouse/status.py",
        "lakehouse/writer_lock.py",
        "lakehouse/commit_lock.py",
    ),
    "the HTTP port": ("processors/http_front.py", "processors/controller_pages.py"),
    "configuration from files": (
        "events/config_file.py",
        "processors/config.py",
        "processors/namesrv_config.py",
        "brokers/config.py",
        "lakehouse/config.py",
    ),
    "service to clients, in the broker's loop": (
        "brokers/service/client_requests.py",
        "brokers/service/client_service.py",
        "brokers/service/clock.py",
        "brokers/service/cold_reads.py",
        "brokers/service/forward.py",
        "brokers/service/metadata_sync.py",
        "brokers/service/queue_end_copy.py",
        "brokers/service/role_view.py",
        "brokers/service/held_by_members.py",
        "brokers/service/joiner_tables.py",
        "brokers/service/repair.py",
        "brokers/service/send.py",
        "brokers/service/topic_changes.py",
    ),
}
# never a shell, whatever happens: the contract that fold and simulation rest on
NEVER = (
    "processors/state.py",
    "processors/rules.py",
    "processors/decide.py",
    "processors/decide_import.py",
    "processors/evolve.py",
    "processors/elect.py",
    "processors/fold.py",
    "processors/canonical.py",
    "processors/core.py",
    "processors/liveness.py",
    "processors/triggers.py",
    "processors/leadership.py",
    "processors/gateway.py",
    "processors/effects.py",
    "processors/routes.py",
    "events/commands.py",
    "events/changes.py",
    "events/outcomes.py",
    "events/codec.py",
    "brokers/remoting/codec.py",
    "brokers/remoting/command.py",
    "brokers/remoting/fastjson.py",
    "brokers/log/records.py",
    "brokers/log/properties.py",
    "brokers/log/segments.py",
    "brokers/log/scan.py",
    "brokers/ha/frames.py",
    "brokers/ha/epochs.py",
    "brokers/ha/truncation.py",
    "brokers/ha/master_link.py",
    "brokers/ha/slave_link.py",
    "brokers/ha/sync_set.py",
    "brokers/replica/core.py",
    "brokers/replica/effects.py",
    "brokers/registration.py",
)
LISTED = {path for paths in SHELLS.values() for path in paths}
PURE = [
    path
    for path in modules("events", "processors", "brokers", "lakehouse")
    if str(path) not in LISTED
]


@pytest.mark.parametrize("path", PURE, ids=str)
def test_a_pure_module_imports_nothing_that_touches_the_world(path: Path) -> None:
    wrong = sorted({name.split(".")[0] for name in imports(path)} & FORBIDDEN)
    assert not wrong, (
        f"{path} imports {wrong}: pass the value in, or list the module as a shell with its reason"
    )


@pytest.mark.parametrize("path", PURE, ids=str)
def test_a_pure_module_asks_no_clock(path: Path) -> None:
    asked = [
        node.attr
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("now", "utcnow", "today", "uuid1", "uuid4")
    ]
    assert not asked, f"{path} uses {asked}"


def test_the_modules_that_fold_and_simulation_rest_on_are_never_shells() -> None:
    assert not LISTED & set(NEVER)
    assert not [path for path in NEVER if not (ROOT / path).exists()]


def test_the_list_of_shells_names_only_modules_that_need_it() -> None:
    stale = [path for path in sorted(LISTED) if not (ROOT / path).exists()]
    clean = [
        path
        for path in sorted(LISTED - set(stale))
        if not {name.split(".")[0] for name in imports(Path(path))} & FORBIDDEN
    ]
    assert not stale and not clean, f"gone: {stale}; pure by now: {clean}"
