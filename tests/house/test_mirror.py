"""Tests stand where the code stands: a reader finds one from the other.

A test module of a folder may cover a family of modules; each module is imported by one of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import PACKAGES, ROOT, imports, modules
from unmirrored import TESTED_ELSEWHERE, TESTS_OF_TOOLS

UNIT = ROOT / "tests/unit"


@cache
def beside(folder: Path) -> tuple[Path, ...]:
    """The test modules of a source folder."""
    return tuple(path.relative_to(ROOT) for path in sorted((UNIT / folder).glob("test_*.py")))


@cache
def named(path: Path) -> frozenset[str]:
    """What a test module imports, or names in a text: what it patches or runs."""
    texts = (
        node.value
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return frozenset({*imports(path), *texts})


def covers(test: Path, dotted: str) -> bool:
    return any(
        name == dotted or name.startswith(f"{dotted}.") or f"{dotted} import" in name
        for name in named(test)
    )


def uncovered() -> Iterator[str]:
    for path in modules():
        dotted = ".".join(path.with_suffix("").parts)
        own = ROOT / "tests/unit" / path.parent / f"test_{path.name}"
        if not own.exists() and not any(covers(test, dotted) for test in beside(path.parent)):
            yield str(path)


def test_every_module_is_tested_in_the_folder_that_mirrors_its_own() -> None:
    missing = set(uncovered()) - set(TESTED_ELSEWHERE)
    assert not missing, f"no test module of its folder imports {sorted(missing)}"


def test_every_unit_test_stands_in_the_mirror_of_a_folder() -> None:
    folders = {UNIT / "schemas", *(UNIT / path.parent for path in modules())}
    strangers = {
        str(path.relative_to(UNIT).parts[0])
        for path in UNIT.rglob("test_*.py")
        if path.parent not in folders
    }
    assert strangers == set(TESTS_OF_TOOLS)
    assert not strangers & set(PACKAGES)


def test_exceptions_are_needed_and_point_to_something() -> None:
    needless = set(TESTED_ELSEWHERE) - set(uncovered())
    assert not needless, f"remove the exceptions {sorted(needless)}"
    gone = {test for test in TESTED_ELSEWHERE.values() if not (ROOT / test).exists()}
    assert not gone
