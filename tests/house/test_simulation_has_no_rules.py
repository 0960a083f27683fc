"""The simulation drives the product: it imports fold, links, epochs, recovery and cores, and holds
no rule of its own.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SIMULATION = Path(__file__).resolve().parents[1] / "simulation"
FILES = sorted(SIMULATION.rglob("*.py"))

DRIVEN = {
    "processors.fold.folder": "Folder",
    "processors.controller.core": "ControllerCore",
    "brokers.replica.core": "ReplicaCore",
    "brokers.replica.store_port": "cut",
    "brokers.replica.waiters": "ConfirmWaiters",
    "brokers.membership.registration": "Registration",
    "brokers.store.recovery.boot": "judge",
    "brokers.ha.epochs": "EpochHistory",
    "brokers.ha.epoch_file": "format_epochs",
    "brokers.store.log.scan": "end_of_valid_log",
    "brokers.store.recovery.recovery": "recover",
    "brokers.store.queues.dispatch": "Dispatcher",
    "brokers.store.appender": "Appender",
    "brokers.store.queues.entries": "first_cut",
    "brokers.store.queues.repair": "cut_queues",
    "brokers.store.log.retention": "decide",
    "brokers.store.trimming": "trim",
    "brokers.store.queues.query": "get_messages",
    "brokers.service.role.forward": "Forwarder",
    "brokers.store.log.integrity": "Place",
    "brokers.store.log.group_commit": "FlushQueue",
    "brokers.replica.put_rules": "PutStatus",
    "brokers.remoting.codec": "FrameDecoder",
    "brokers.membership.controller_messages": "role_notice",
    "brokers.process.broker": "BrokerProcess",
    "brokers.acting.core": "ActingCore",
    "brokers.majority.quorum.core": "QuorumCore",
    "brokers.majority.wire.json_bodies": "decode_request",
    "brokers.acting.escape": "Escape",
    "brokers.acting.lock_quorum": "LockQuorum",
    "brokers.acting.reverse_sync": "decide",
    "processors.nameserver.routes": "RouteTable",
}
"""Product module -> something of it that the simulation must use."""

PLANTS = (
    "test_planted_bugs.py",
    "test_planted_disk_bugs.py",
    "test_planted_store_bugs.py",
    "test_planted_trust_bugs.py",
    "control/test_control_planted_bugs.py",
    "store/test_planted_bugs_around_the_log.py",
    "services/test_planted_service_bugs.py",
    "acting/test_planted_acting_bugs.py",
    "majority/test_planted_majority_bugs.py",
    "majority/test_planted_majority_scenarios.py",
    "majority/test_planted_stale_reads.py",
)


@cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SIMULATION).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in FILES
    }


@cache
def imported_names() -> set[tuple[str, str]]:
    found = set()
    for name, tree in trees().items():
        if name in PLANTS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {(node.module, alias.name) for alias in node.names}
                found |= {(f"{node.module}.{alias.name}", "*") for alias in node.names}
    return found


@pytest.mark.parametrize("module", DRIVEN)
def test_the_real_parts_are_driven(module: str) -> None:
    found = imported_names()
    assert (module, DRIVEN[module]) in found or (module, "*") in found, (
        f"the simulation does not use {module}.{DRIVEN[module]}"
    )


def test_no_part_of_the_product_is_replaced_by_a_subclass_or_an_attribute() -> None:
    """Patches are for planted bugs only."""
    for name, tree in trees().items():
        if name in PLANTS:
            continue
        product = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").split(".")[0] in ("processors", "brokers", "events")
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert not bases & product, f"{name}: {node.name} subclasses a part of the product"
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    patched = (
                        isinstance(target, ast.Attribute)
                        and isinstance(target.value, ast.Name)
                        and target.value.id in product
                    )
                    assert not patched, f"{name}:{node.lineno} patches a part of the product"


def test_checkers_only_read() -> None:
    """They call nothing that would move a node, and assign to nothing but themselves."""
    for name in CHECKERS:
        _only_reads(name)


def _only_reads(name: str) -> None:
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                root = target
                while isinstance(root, ast.Attribute | ast.Subscript):
                    root = root.value
                foreign = isinstance(target, ast.Attribute | ast.Subscript) and not (
                    isinstance(root, ast.Name) and root.id == "self"
                )
                assert not foreign, f"{name}:{node.lineno} writes to something that it watches"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in MOVING, f"{name}:{node.lineno} calls {node.func.attr}"


CHECKERS = (
    "checkers.py",
    "majority/promises.py",
    "majority/real_time.py",
    "control/promises.py",
    "control/calls.py",
    "control/hearing.py",
)
MOVING = frozenset(
    {
        "step",
        "tick",
        "start",
        "stop",
        "notice",
        "on_role_notice",
        "on_request",
        "on_applied",
        "apply",
        "link_data",
        "link_opened",
        "append_raw",
        "truncate",
        "flush",
        "send",
        "call",
        "ask",
        "beat",
        "log_grew",
    }
)


def test_the_simulation_reads_no_clock_and_no_chance_but_its_own() -> None:
    allowed = {
        "seeds.py": {"time"},
        "judged.py": {"os", "random"},
        "known_seeds.py": {"os", "time"},
        "world.py": {"random"},
        "disk.py": {"random"},
        "virtual_loop.py": {"asyncio"},
        "test_simulation.py": {"os", "subprocess"},
        "control/test_control_world.py": {"os", "subprocess"},
        "store/medium.py": {"os", "random"},
        "store/replica.py": {"asyncio", "random"},
        "store/test_store_worlds.py": {"os"},
        "services/broker.py": {"asyncio"},
        "services/calls.py": {"asyncio"},
        "services/member.py": {"asyncio"},
        "services/links.py": {"os"},
        "services/run.py": {"random"},
        "majority/test_majority_worlds.py": {"os"},
        "acting/network.py": {"random"},
        "acting/world.py": {"random"},
        "acting/test_acting_worlds.py": {"os"},
        "services/test_service_worlds.py": {"os"},
    }
    for name, tree in trees().items():
        for node in ast.walk(tree):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                outside = module.split(".")[0] in {
                    "time",
                    "random",
                    "os",
                    "socket",
                    "threading",
                    "asyncio",
                    "secrets",
                    "uuid",
                    "subprocess",
                }
                assert not outside or module in allowed.get(name, set()), (
                    f"{name}:{node.lineno} imports {module}"
                )
