"""What the code cites is in the repository: rules, decisions, sections of the three pages."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import ROOT, modules, offenders, text

PAGES = {
    "RULES": ROOT / "processors/RULES.md",
    "PROTOCOL": ROOT / "brokers/PROTOCOL.md",
    "DESIGN": ROOT / "DESIGN.md",
}
# A citation may stand at the end of a line and its number at the begin of the next one.
CITED = re.compile(r"\b(RULES|PROTOCOL|DESIGN)[\s#]+(\d+(?:\.\d+)?)")
BARE_PAGE = re.compile(r"\b(RULES|PROTOCOL)\b(?!\.md)(?![\s#]+\d)(?!_)")
ROOTLESS = re.compile(r"[\w-]+\.md\b")
RULE = re.compile(r"\b([SD])(\d{1,2})\b")
INDEX_ROW = re.compile(r"^\| (S\d+) \| (.*) \| `([\w/.]+)` \|$", re.MULTILINE)


@cache
def sections(page: str) -> frozenset[str]:
    titles = re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", PAGES[page].read_text("utf-8"), re.MULTILINE)
    return frozenset(titles)


@cache
def rules() -> frozenset[str]:
    design = PAGES["DESIGN"].read_text("utf-8")
    return frozenset(re.findall(r"\*\*([SD]\d+)\.", design))


@cache
def prose(path: Path) -> str:
    """Docstrings and comments of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(text(path)).readline)
    return "\n".join(
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')))
    )


def citations(path: Path) -> Iterator[tuple[str, bool]]:
    said = prose(path)
    for page, section in CITED.findall(said):
        yield f"{page} {section}", section in sections(page)
    for kind, number in RULE.findall(said):
        yield f"{kind}{number}", f"{kind}{number}" in rules()
    for page in BARE_PAGE.findall(said):
        yield f"{page} without a section", False


def test_every_citation_leads_somewhere() -> None:
    def unresolved(path: Path) -> list[str]:
        return [name for name, is_there in citations(path) if not is_there]

    assert not offenders(modules(), unresolved)


def test_only_pages_of_this_repository_are_cited() -> None:
    known = {page.name for page in (*ROOT.glob("*.md"), *PAGES.values(), *ROOT.glob("*/*.md"))}
    assert not offenders(modules(), lambda path: set(ROOTLESS.findall(prose(path))) - known)


def test_every_rule_has_a_place_where_it_is_decided_and_a_test() -> None:
    rows = INDEX_ROW.findall(PAGES["DESIGN"].read_text("utf-8"))
    assert [name for name, _, _ in rows] == [f"S{number}" for number in range(1, 21)]
    for name, decided, test in rows:
        places = re.findall(r"`([\w/]+\.py)`((?:,? `\w+`)*)", decided)
        assert places, name
        for path, functions in places:
            source = (ROOT / path).read_text("utf-8")
            for function in re.findall(r"\w+", functions):
                assert f"def {function}(" in source, f"{name}: {path} has no {function}"
        tested = (ROOT / test).read_text("utf-8")
        assert f"test_{name.lower()}_" in tested or name in tested, f"{name}: {test}"
