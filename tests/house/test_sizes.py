"""Modules and functions stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import functions, modules, text, tree

# To be aimed at: 300 and 30. What is cut up to meet a number is harder to read than what is a
# little long.
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_is_no_longer_than_allowed(path: Path) -> None:
    lines = text(path).count("\n")
    assert lines <= MODULE_LINES_MAX, f"{path} has {lines} lines: split it by meaning"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_function_is_no_longer_than_allowed(path: Path) -> None:
    too_long = {name: lines for name, lines in functions(path) if lines > FUNCTION_LINES_MAX}
    assert not too_long, f"{path}: {too_long}"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path)), f"{path} has no docstring"
