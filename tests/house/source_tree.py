"""The project's files as the house tests look at them: modules, their imports, their functions."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "events", "processors", "brokers", "lakehouse", "infra")


def modules(*packages: str) -> list[Path]:
    """Source modules, relative to the root, __init__ files left out."""
    found = [
        path.relative_to(ROOT)
        for package in packages or PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [path for path in found if path.name != "__init__.py"]


def offenders(paths: Iterable[Path], wrong: Callable[[Path], object]) -> dict[str, object]:
    """Each module in which `wrong` finds something, with what it found; none: the rule holds.

    A rule is one test and not one for each module: those took longer than what they looked at.
    """
    return {str(path): found for path in paths if (found := wrong(path))}


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(text(path), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the module, walked through once for all tests."""
    return tuple(ast.walk(tree(path)))


@cache
def text(path: Path) -> str:
    """A file as it stands."""
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Dotted names of what a module imports, anywhere in it; `from a import b` gives a.b."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f".{alias.name}" for alias in node.names)


def function_nodes(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of the module."""
    return [n for n in nodes(path) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@cache
def text_files() -> tuple[Path, ...]:
    """Every file of the project that a person wrote, relative to the root."""
    skipped = {
        ".git",
        ".venv",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".regent",
        "__pycache__",
        "build",
    }
    endings = {".py", ".md", ".toml", ".lock", ".in", ".avsc", ".json", ".java", ".xml", ".sh", ""}
    found = []
    for folder, folders, names in os.walk(ROOT):
        # an environment holds ten thousand files: not even looked into
        folders[:] = [
            name for name in folders if name not in skipped and not name.endswith(".egg-info")
        ]
        found += [
            Path(folder, name)
            for name in names
            if name not in skipped and Path(name).suffix in endings
        ]
    return tuple(sorted(path.relative_to(ROOT) for path in found if path.is_file()))
