"""What must behave the same in a controller, in a test, in Spark and in the simulation touches no
clock, socket or file.

Purity is said by folder: a module is pure, unless its folder is one of shells, or its folder's line
names it.
"""

from __future__ import annotations

import ast
from pathlib import Path

from source_tree import imports, modules, nodes, offenders

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
# The contract that fold and simulation rest on: never a shell among them.
ALWAYS_PURE = ("processors/fold", "processors/liveness", "processors/wire", "processors/controller")
# Folders whose work is the world: Kafka, sockets, files, processes.
SHELL_FOLDERS = (
    "processors/log",
    "processors/process",
    "brokers/membership",
    "brokers/process",
    "brokers/process/acting",
    "brokers/process/changeover",
    "brokers/process/majority",
    "brokers/store/files",
    "lakehouse/landing",
)
# In those, what the simulation drives all the same.
PURE_IN_SHELL_FOLDERS = (
    "brokers/membership/controller_messages.py",
    "brokers/membership/registration.py",
)
# In folders that are pure, the modules that touch the world.
SHELLS: dict[str, tuple[str, ...]] = {
    "events": ("config_file", "http_front", "last_resort", "producer"),
    "processors/settings": ("config",),
    "processors/nameserver": (
        "config", "kept_files", "notices", "operator_requests", "process", "reporting",
    ),
    "brokers": ("clock",),
    "brokers/configuration": ("live",),
    "brokers/pages": ("broker_pages",),
    "brokers/reporting": ("event_reporter",),
    "brokers/remoting": (
        "calls", "client", "connection", "known_hosts", "outbox", "server", "silence",
        "standstill",
    ),
    "brokers/majority/store": ("entry_log", "folder", "index", "small_files"),
    "brokers/majority/messages": ("leading", "message_log", "store", "walk"),
    "brokers/store": ("queue_follower", "store"),
    "brokers/store/log": (
        "commit_log", "cut_bytes", "group_commit", "log_folder", "message_log", "next_file",
        "patch", "segment_files", "side_reader",
    ),
    "brokers/store/index": ("file", "index"),
    "brokers/store/queues": (
        "cold_query", "consume_queue", "consume_queues", "dispatch", "entry_process",
        "entry_worker", "queue_ends",
    ),
    "brokers/store/recovery": ("boot", "checkpoint"),
    "brokers/ha": ("epoch_file", "transport"),
    "brokers/replica": ("driver", "hooks", "replica_port"),
    "brokers/service": ("client_service", "made_on_the_way"),
    "brokers/service/tables": ("kept_for_java", "table_files", "table_writer"),
    "brokers/service/role": ("forward", "role_view", "turns"),
    "brokers/service/clients": ("requests",),
    "brokers/service/sending": ("own_puts", "send"),
    "brokers/service/escape": ("awaited", "bridge"),
    "brokers/service/inspection": ("client_inspection",),
    "brokers/service/delivery": ("delay_service", "send_back"),
    "brokers/service/transactions": ("checks", "end_requests", "leaving", "ledger"),
    "brokers/service/timers": (
        "deliveries", "keeping", "timer_files", "timer_log", "timer_service", "wheel",
    ),
    "brokers/service/popping": (
        "assignment_service", "collect", "others_messages", "pop_service", "revive",
    ),
    "brokers/service/reading": ("cold_reads", "repair"),
    "brokers/service/metadata": (
        "held_by_members", "joiner_tables", "queue_end_copy", "sync", "topic_changes",
    ),
    "lakehouse": ("spark_session", "troubles"),
    "lakehouse/tables": ("commit_lock", "file_locks", "lake", "landed_end", "listed_files"),
    "lakehouse/gold": ("aggregates", "aggregates_job", "job", "merge_spark"),
    "lakehouse/invariants": ("check",),
    "lakehouse/proof": (
        "as_it_was", "history_file", "in_processes", "in_spark", "verify", "witnesses", "worker",
    ),
    "lakehouse/sql": ("query_spark",),
    "lakehouse/answers": ("snapshot",),
    "lakehouse/care": ("maintain", "restate"),
    "lakehouse/layers": ("beside_kafka", "silver", "whole"),
}  # fmt: skip


def is_pure(path: Path) -> bool:
    folder = str(path.parent)
    if folder in SHELL_FOLDERS:
        return str(path) in PURE_IN_SHELL_FOLDERS
    return path.stem not in SHELLS.get(folder, ())


ALL = modules("events", "processors", "brokers", "lakehouse")
PURE = [path for path in ALL if is_pure(path)]


def touches_the_world(path: Path) -> list[str]:
    return sorted({name.split(".")[0] for name in imports(path)} & FORBIDDEN)


def test_a_pure_module_imports_nothing_that_touches_the_world() -> None:
    assert not offenders(PURE, touches_the_world), "pass the value in"


def test_a_pure_module_asks_no_clock() -> None:
    def asked(path: Path) -> list[str]:
        return [
            node.attr
            for node in nodes(path)
            if isinstance(node, ast.Attribute)
            and node.attr in ("now", "utcnow", "today", "uuid1", "uuid4")
        ]

    assert not offenders(PURE, asked)


def test_the_folders_that_fold_and_simulation_rest_on_have_no_shells() -> None:
    assert not {*SHELL_FOLDERS, *SHELLS} & {*ALWAYS_PURE}


def test_the_lists_of_shells_name_only_what_is_there_and_needs_it() -> None:
    named = {Path(folder) / f"{name}.py" for folder, names in SHELLS.items() for name in names}
    gone = sorted(str(path) for path in named if path not in ALL)
    clean = sorted(
        str(path) for path in named - set(map(Path, gone)) if not touches_the_world(path)
    )
    assert not gone and not clean, f"gone: {gone}; pure by now: {clean}"
    folders = {str(path.parent) for path in ALL}
    assert not {*SHELL_FOLDERS, *ALWAYS_PURE} - folders
    assert not [path for path in PURE_IN_SHELL_FOLDERS if Path(path) not in ALL]
