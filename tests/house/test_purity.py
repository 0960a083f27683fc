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
        "processors/process/controller.py",
        "processors/log/controller_log.py",
        "processors/log/faust_worker.py",
        "processors/process/effect_runner.py",
        "processors/log/facts.py",
        "processors/log/watch.py",
        "processors/log/start.py",
        "events/last_resort.py",
        "processors/log/landed_tables.py",
        "processors/process/log_levels.py",
        "processors/nameserver/process.py",
        "processors/process/outbound.py",
        "processors/log/outcomes.py",
        "brokers/process/broker.py",
        "brokers/process/hand_over.py",
        "brokers/process/index_upkeep.py",
        "brokers/process/replica.py",
        "brokers/membership/membership.py",
        "brokers/process/predecessor.py",
        "brokers/process/retention.py",
        "brokers/membership/role_notices.py",
        "brokers/process/role_switch.py",
        "brokers/process/scrubber.py",
        "brokers/process/send_parts.py",
        "brokers/process/store_care.py",
        "brokers/process/upkeep.py",
        "brokers/replica/driver.py",
        "brokers/replica/hooks.py",
        "lakehouse/landing/job.py",
        "lakehouse/landing/background.py",
        "lakehouse/landing/activity.py",
        "lakehouse/landing/appends.py",
        "lakehouse/landing/kinds.py",
    ),
    "Kafka": (
        "events/producer.py",
        "processors/log/reader.py",
        "processors/log/topics.py",
        "processors/log/topic_identity.py",
        "brokers/process/event_reporter.py",
        "lakehouse/landing/log_probe.py",
    ),
    "Spark and Delta": (
        "lakehouse/spark_session.py",
        "lakehouse/proof/verify.py",
        "lakehouse/care/maintain.py",
        "lakehouse/tables/lake.py",
        "lakehouse/invariants/check.py",
        "lakehouse/answers/snapshot.py",
        "lakehouse/gold/merge_spark.py",
        "lakehouse/sql/query_spark.py",
        "lakehouse/gold/job.py",
        "lakehouse/gold/aggregates.py",
        "lakehouse/gold/aggregates_job.py",
    ),
    "sockets": (
        "processors/log/snapshot_fetch.py",
        "brokers/remoting/calls.py",
        "brokers/remoting/client.py",
        "brokers/remoting/connection.py",
        "brokers/remoting/known_hosts.py",
        "brokers/remoting/outbox.py",
        "brokers/remoting/server.py",
        "brokers/remoting/silence.py",
        "brokers/ha/transport.py",
        "brokers/membership/controller_client.py",
        "brokers/membership/namesrv_client.py",
        "brokers/membership/ha_lookup.py",
        "brokers/membership/ha_announce.py",
    ),
    "files": (
        "lakehouse/landing/late_schemas.py",
        "processors/log/snapshots.py",
        "processors/process/snapshot_route.py",
        "processors/log/start_notes.py",
        "processors/log/whole_file.py",
        "processors/process/own_identity.py",
        "processors/process/data_folder.py",
        "brokers/process/boot.py",
        "brokers/process/held_position.py",
        "brokers/membership/identity_file.py",
        "brokers/ha/epoch_file.py",
        "brokers/store/recovery/checkpoint.py",
        "brokers/store/queues/cold_query.py",
        "brokers/store/log/commit_log.py",
        "brokers/store/queues/consume_queue.py",
        "brokers/store/queues/consume_queues.py",
        "brokers/store/log/cut_bytes.py",
        "brokers/store/files/disk.py",
        "brokers/store/queues/dispatch.py",
        "brokers/store/files/json_files.py",
        "brokers/store/files/disk_space.py",
        "brokers/store/queues/entry_process.py",
        "brokers/store/queues/entry_worker.py",
        "brokers/store/log/group_commit.py",
        "brokers/store/log/log_folder.py",
        "brokers/store/index/index.py",
        "brokers/store/index/file.py",
        "brokers/store/log/next_file.py",
        "brokers/store/files/open_files.py",
        "brokers/store/log/patch.py",
        "brokers/store/queues/queue_ends.py",
        "brokers/store/queue_follower.py",
        "brokers/store/log/segment_files.py",
        "brokers/store/log/side_reader.py",
        "brokers/store/store.py",
        "brokers/store/trimming.py",
        "brokers/service/tables/table_files.py",
        "brokers/service/tables/table_writer.py",
        "brokers/service/tables/kept_files.py",
        "lakehouse/landing/status.py",
        "lakehouse/landing/writer_lock.py",
        "lakehouse/tables/commit_lock.py",
    ),
    "the HTTP port": ("processors/process/http_front.py", "processors/process/pages.py"),
    "configuration from files": (
        "events/config_file.py",
        "processors/settings/config.py",
        "processors/nameserver/config.py",
        "brokers/process/config.py",
        "lakehouse/landing/config.py",
    ),
    "service to clients, in the broker's loop": (
        "brokers/service/clients/requests.py",
        "brokers/service/client_service.py",
        "brokers/clock.py",
        "brokers/service/reading/cold_reads.py",
        "brokers/service/role/forward.py",
        "brokers/service/metadata/sync.py",
        "brokers/service/metadata/queue_end_copy.py",
        "brokers/service/role/role_view.py",
        "brokers/service/metadata/held_by_members.py",
        "brokers/service/metadata/joiner_tables.py",
        "brokers/service/reading/repair.py",
        "brokers/service/sending/send.py",
        "brokers/service/metadata/topic_changes.py",
    ),
}
# never a shell, whatever happens: the contract that fold and simulation rest on
NEVER = (
    "processors/fold/state.py",
    "processors/fold/rules.py",
    "processors/fold/decide.py",
    "processors/fold/decide_import.py",
    "processors/fold/evolve.py",
    "processors/fold/elect.py",
    "processors/fold/folder.py",
    "processors/fold/canonical.py",
    "processors/controller/core.py",
    "processors/liveness/replicas.py",
    "processors/liveness/triggers.py",
    "processors/controller/leadership.py",
    "processors/wire/requests.py",
    "processors/controller/effects.py",
    "processors/nameserver/routes.py",
    "events/commands.py",
    "events/changes.py",
    "events/outcomes.py",
    "events/codec.py",
    "brokers/remoting/codec.py",
    "brokers/remoting/command.py",
    "brokers/remoting/fastjson.py",
    "brokers/store/log/records.py",
    "brokers/store/log/properties.py",
    "brokers/store/log/segments.py",
    "brokers/store/log/scan.py",
    "brokers/ha/frames.py",
    "brokers/ha/epochs.py",
    "brokers/ha/truncation.py",
    "brokers/ha/master_link.py",
    "brokers/ha/slave_link.py",
    "brokers/ha/sync_set.py",
    "brokers/replica/core.py",
    "brokers/replica/effects.py",
    "brokers/membership/registration.py",
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
