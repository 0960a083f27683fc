"""The project's files as the house tests look at them: modules, their imports, their functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "events", "processors", "brokers", "lakehouse", "infra")


def modules(*packages: str) -> list[Path]:
    """Source modules, relative to the root, __init__ files left out."""
    found = [
        path.relative_to(ROOT) for package in packages or PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [path for path in found if path.name != "__init__.py"]


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of what a module imports, anywhere in it; `from a import b` gives a.b."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f".{alias.name}" for alias in node.names)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function with its number of lines."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def text_files() -> list[Path]:
    """Every file of the project that a person wrote, relative to the root."""
    skipped = {".git", ".venv", ".hypothesis", ".pytest_cache", "__pycache__", ".regent", "build"}
    endings = {".py", ".md", ".toml", ".lock", ".in", ".avsc", ".json", ".java", ".xml", ".sh", ""}
    found = []
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT)
        if path.is_file() and path.suffix in endings and not skipped & set(relative.parts) and ".egg-info" not in str(relative):
            found.append(relative)
    return found
