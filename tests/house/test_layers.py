"""Who may import whom, said by folder: low folders know nothing of high ones."""

from __future__ import annotations

from pathlib import Path

from source_tree import imports, modules, offenders

# Of one package, low to high: a folder may import those that stand above it here; those of one line
# do not know each other.
LEVELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "schemas": (("schemas",),),
    "events": (("events",),),
    "processors": (
        ("processors/fold",),
        ("processors/liveness", "processors/settings"),
        ("processors/wire", "processors/log"),
        ("processors/controller",),
        ("processors/process",),
        ("processors/nameserver",),
    ),
    "brokers": (
        ("brokers/remoting", "brokers", "brokers/majority", "brokers/changeover"),
        ("brokers/store/files",),
        ("brokers/store/log",),
        ("brokers/store/index",),
        ("brokers/store/queues",),
        ("brokers/store/recovery",),
        ("brokers/store",),
        ("brokers/majority/store",),
        ("brokers/ha",),
        ("brokers/replica",),
        ("brokers/replica/fixed",),
        ("brokers/majority/wire",),
        ("brokers/majority/quorum",),
        ("brokers/majority/messages",),
        ("brokers/service/tables", "brokers/service/role", "brokers/service/filters"),
        ("brokers/service/statistics",),
        ("brokers/service/clients",),
        ("brokers/service/sending",),
        ("brokers/acting",),
        ("brokers/service/escape",),
        (
            "brokers/service/reading",
            "brokers/service/metadata",
            "brokers/service/delivery",
            "brokers/service/transactions",
            "brokers/service/inspection",
            "brokers/service/timers",
        ),
        ("brokers/service/popping",),
        ("brokers/service",),
        ("brokers/membership", "brokers/configuration", "brokers/pages", "brokers/reporting"),
        ("brokers/process/acting", "brokers/process/changeover", "brokers/process/majority"),
        ("brokers/process",),
    ),
    "lakehouse": (
        ("lakehouse",),
        ("lakehouse/tables",),
        ("lakehouse/gold", "lakehouse/invariants"),
        ("lakehouse/proof", "lakehouse/sql"),
        ("lakehouse/answers/acting", "lakehouse/answers/majority"),
        ("lakehouse/answers", "lakehouse/care", "lakehouse/catalogue"),
        ("lakehouse/landing",),
        ("lakehouse/layers",),
    ),
    "infra": (
        ("infra",),
        ("infra/jars", "infra/processes", "infra/workload"),
        ("infra/features",),
        ("infra/kafka",),
        ("infra/cluster",),
        ("infra/controllers",),
        ("infra/migration",),
        ("infra/changeover",),
        ("infra/cli",),
        ("infra/cli/lake", "infra/cli/controller"),
        ("infra/doctor", "infra/demo"),
    ),
}
REPLICATION = frozenset(
    {
        "brokers",
        "brokers/store",
        "brokers/store/log",
        "brokers/store/index",
        "brokers/store/queues",
        "brokers/store/recovery",
        "brokers/ha",
        "brokers/replica",
        "brokers/replica/fixed",
    }
)
# Within its package a folder may know less than what lies below it.
NOT_FOR = {
    "processors/log": ("processors/liveness",),
    # A log has no role, and replication no clients.
    "brokers/ha": ("brokers", "brokers/store", "brokers/store/queues", "brokers/store/recovery"),
    # What members say, and what follows from it: of all that lies below, only the errors of a disk.
    "brokers/majority/wire": REPLICATION | {"brokers/store/files"},
    "brokers/majority/quorum": REPLICATION | {"brokers/remoting", "brokers/majority/store"},
    "brokers/replica": ("brokers", "brokers/store/queues", "brokers/store/recovery"),
    "brokers/majority/store": (
        "brokers",
        "brokers/remoting",
        "brokers/store",
        "brokers/store/index",
        "brokers/store/queues",
        "brokers/store/recovery",
    ),
    "brokers/majority/messages": ("brokers", "brokers/remoting", "brokers/ha"),
    "brokers/membership": ("brokers/store", "brokers/store/queues", "brokers/store/recovery"),
}
# Of other packages. A controller speaks RocketMQ's protocol: its codec lives with the brokers. The
# lakehouse folds with the controllers' own rules, so that none is written twice.
BEYOND: dict[str, tuple[str, ...]] = {
    "schemas": (),
    "events": ("schemas",),
    "processors": ("schemas", "events", "brokers/remoting"),
    "brokers": (),
    "brokers/configuration": ("events",),
    "brokers/pages": ("events",),
    "brokers/reporting": ("events",),
    "brokers/process/majority": ("events",),
    "brokers/process": ("schemas", "events"),
    "lakehouse": ("schemas", "events", "processors/fold", "processors/liveness"),
    "infra": ("schemas", "events", "processors", "brokers", "lakehouse"),
}
# A program's beginning stands at the root of its package and knows what it begins.
ENTRIES = (Path("infra/__main__.py"),)
FOLDERS = {folder for levels in LEVELS.values() for level in levels for folder in level}


def folder_of(name: str) -> str:
    """The longest folder that a dotted name lies in; '' for what is not ours."""
    parts = name.split(".")
    known = ("/".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((folder for folder in known if folder in FOLDERS or folder in LEVELS), "")


def height(folder: str) -> int:
    levels = LEVELS[folder.split("/")[0]]
    return next(n for n, level in enumerate(levels) if folder in level)


def may_know(own: str, other: str) -> bool:
    package = own.split("/")[0]
    if other.split("/")[0] != package:
        known = BEYOND.get(own, BEYOND[package])
        return any(other == one or other.startswith(f"{one}/") for one in known)
    if other in NOT_FOR.get(own, ()):
        return False
    return other == own or height(other) < height(own)


def test_a_module_imports_only_from_folders_below_its_own() -> None:
    def wrong(path: Path) -> list[str]:
        own = str(path.parent)
        return [n for n in imports(path) if (other := folder_of(n)) and not may_know(own, other)]

    assert not offenders((path for path in modules() if path not in ENTRIES), wrong)


def test_every_folder_has_its_place() -> None:
    found = {str(path.parent) for path in modules()}
    assert not found - FOLDERS and FOLDERS - found == {"schemas"}


def test_no_module_imports_tests_or_uses_relative_imports() -> None:
    def wrong(path: Path) -> list[str]:
        return [name for name in imports(path) if name.split(".")[0] in ("tests", "")]

    assert not offenders(modules(), wrong)
