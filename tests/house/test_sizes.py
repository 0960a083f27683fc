"""Rooms one can find: folders, modules and functions stay small. None is cut up for it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from source_tree import ROOT, function_nodes, imports, modules, nodes, offenders, text, tree

# To be aimed at: 300 and 30. What is cut up to meet a number is harder to read than what is a
# little long.
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 24
SMALL_LINES = 40
# A module of few lines that one other imports belongs into that one, but for a reason.
SMALL_FOR_A_REASON = {
    "brokers/replica/alter_codes.py": "which answers are definite is a rule of its own (S3)",
    "brokers/service/metadata/kept_requests.py": "a service, as its neighbours",
    "brokers/service/role/turns.py": "the one place that asks before work goes on",
    "brokers/store/trimming.py": "what the simulation's store calls, too",
    "infra/cli/light_start.py": "the one place that keeps a library from being loaded",
    "lakehouse/answers/picture_png.py": "the one place that knows the library and its font",
}


def dispatches(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it ends in a `match` of which every arm is one statement: that may be long."""
    last = function.body[-1]
    return isinstance(last, ast.Match) and all(len(case.body) == 1 for case in last.cases)


def test_a_module_is_no_longer_than_allowed() -> None:
    lines = {path: text(path).count("\n") for path in modules()}
    too_long = {str(path): n for path, n in lines.items() if n > MODULE_LINES_MAX}
    assert not too_long, "split it by meaning"


def test_a_function_is_no_longer_than_allowed() -> None:
    def too_long(path: Path) -> dict[str, int]:
        return {
            node.name: lines
            for node in function_nodes(path)
            if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
            and not dispatches(node)
        }

    assert not offenders(modules(), too_long)


def test_a_module_says_what_it_is_for() -> None:
    assert not [str(path) for path in modules() if not ast.get_docstring(tree(path))]


def test_a_folder_holds_no_more_modules_than_one_overlooks() -> None:
    counts = Counter(str(path.parent) for path in modules())
    too_full = {folder: n for folder, n in counts.items() if n > FOLDER_MODULES_MAX}
    assert not too_full


def test_a_folder_says_what_it_is_for() -> None:
    silent = [
        folder
        for folder in sorted({path.parent for path in modules()})
        if not ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text("utf-8")))
    ]
    assert not silent


def test_a_small_module_with_one_user_has_a_reason() -> None:
    names = {".".join(path.with_suffix("").parts): path for path in modules()}
    users: Counter[Path] = Counter()
    for path in modules():
        of_ours = {name if name in names else name.rpartition(".")[0] for name in imports(path)}
        users.update(names[name] for name in of_ours if name in names)
    small = {
        str(path)
        for path in names.values()
        if text(path).count("\n") < SMALL_LINES and users[path] == 1
    }
    assert small == set(SMALL_FOR_A_REASON), (
        f"put it where it is used: {small - set(SMALL_FOR_A_REASON)}; "
        f"no reason needed: {set(SMALL_FOR_A_REASON) - small}"
    )


def test_attributes_are_not_packed_into_one_assignment() -> None:
    def packed(path: Path) -> list[int]:
        return [
            node.lineno
            for node in nodes(path)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(node.targets[0].elts) > 2
            and all(isinstance(one, ast.Attribute) for one in node.targets[0].elts)
            and not any(isinstance(one, ast.Attribute) for one in ast.walk(node.value))
        ]

    assert not offenders(modules(), packed), "a line each"
