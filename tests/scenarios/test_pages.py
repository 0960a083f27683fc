"""Each page says what comes of its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from processors.fold.refusals import Refusal
from tests.scenarios.pages import BadPage, pages, rewritten

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_says_what_comes_of_its_commands(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert rewritten(text) == text, "python -m tests.scenarios.pages --rewrite writes it anew"


def test_every_refusal_stands_on_a_page() -> None:
    said = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    refused = set(re.findall(r"refused: (\w+)", said))
    assert {refusal.name for refusal in Refusal} - refused == set()


def test_a_page_begins_with_what_it_shows_and_is_no_longer_than_a_page() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert re.match(r"[A-Z].*\.\n\n", text), path.name
        assert text.count("\n") <= 90, path.name


@pytest.mark.parametrize(
    "line", ["> elct 1", "> id", "> elect among x", "> alter 1,2 by 1 and 3", "> bytes zz"]
)
def test_a_line_that_is_no_command_is_named(line: str) -> None:
    with pytest.raises(BadPage, match=re.escape(line)):
        rewritten(f"A page.\n\n> cluster\n{line}\n")
