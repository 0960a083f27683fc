"""Each source module has its test module, and the reverse: so that a reader finds the one from the
other.
"""

from __future__ import annotations

from pathlib import Path

from source_tree import PACKAGES, ROOT, modules
from unmirrored import TESTED_ELSEWHERE, TESTS_WITHOUT_MODULE


def test_of(path: Path) -> Path:
    return Path("tests/unit") / path.parent / f"test_{path.name}"


test_of.__test__ = False  # type: ignore[attr-defined]


def test_every_source_module_has_its_test_module() -> None:
    missing = [
        str(path)
        for path in modules()
        if not (ROOT / test_of(path)).exists() and str(path) not in TESTED_ELSEWHERE
    ]
    assert not missing, f"no test module for {missing}"


def test_every_unit_test_module_has_its_source_module() -> None:
    orphans = []
    for path in sorted((ROOT / "tests/unit").rglob("test_*.py")):
        inside = path.relative_to(ROOT / "tests/unit")
        source = inside.with_name(inside.name.removeprefix("test_"))
        package = inside.parts[0] in PACKAGES and inside.name == f"test_{inside.parent.name}.py"
        if not (ROOT / source).exists() and not package and str(inside) not in TESTS_WITHOUT_MODULE:
            orphans.append(str(inside))
    assert not orphans, f"no source module for {orphans}"


def test_exceptions_are_needed_and_point_to_something() -> None:
    for path, reason in TESTED_ELSEWHERE.items():
        assert (ROOT / path).exists(), f"{path} is gone: remove its exception"
        assert not (ROOT / test_of(Path(path))).exists(), (
            f"{path} has its test module: remove its exception"
        )
        assert (ROOT / reason).exists(), (
            f"{path} is said to be tested by {reason}, which is not there"
        )
