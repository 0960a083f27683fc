"""The documents name what there is: every verb of the command line and of make, every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT

from infra.cli.controller.verbs import SUBVERBS
from infra.cli.main import VERBS
from tests.support.pasted import why_not

README = ROOT / "README.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
OPERATING = ROOT / "OPERATING.md"
LAKE = ROOT / "LAKE.md"
TESTING = ROOT / "tests" / "README.md"
DESIGN = ROOT / "DESIGN.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
CHOICES = ROOT / "CHOICES.md"
PAGES = (ROOT / "processors/RULES.md", ROOT / "brokers/PROTOCOL.md", ROOT / "lakehouse/TABLES.md")
DOCUMENTS = (
    README, ARCHITECTURE, OPERATING, LAKE, TESTING, DESIGN, CONTRIBUTING, CHOICES, *PAGES,
)  # fmt: skip
# A map of two pages: what is longer belongs where the thing is.
MAP_CHARS_MAX = 12_000
PARAGRAPH_CHARS_MAX = 900
CELL_CHARS_MAX = 200


@pytest.mark.parametrize("verb", VERBS)
def test_the_readme_names_every_command(verb: str) -> None:
    assert re.search(
        rf"regent (\w+ ?\| ?)*{verb}\b|\| "
        rf"?{verb}\b",
        README.read_text(encoding="utf-8"),
    )


@pytest.mark.parametrize("verb", SUBVERBS)
def test_the_operators_document_names_every_verb_for_running_controllers(verb: str) -> None:
    assert re.search(rf"regent controller {verb}\b", OPERATING.read_text(encoding="utf-8"))


def test_the_readme_names_every_verb_of_make() -> None:
    verbs = re.findall(
        r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    text = README.read_text(encoding="utf-8")
    missing = [verb for verb in verbs if verb != "help" and f"make {verb}" not in text]
    assert not missing


def test_the_documents_name_only_commands_that_exist() -> None:
    named = set()
    for path in DOCUMENTS:
        named |= set(re.findall(r"`regent ([a-z-]+)", path.read_text(encoding="utf-8")))
        named |= set(
            re.findall(
                r"^\s*(?:\$ )?regent "
                r"([a-z-]+)",
                path.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
        )
    assert named <= set(VERBS), named - set(VERBS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_code_block_has_verbs_and_flags_that_exist(path: Path) -> None:
    """A line of a table stands for its first words: what follows two spaces explains them, also
    which flags they need.
    """
    blocks = re.findall(r"```\w*\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [
        re.split(r"\s{2,}|\s+#", line.removeprefix("$ "))[0].strip()
        for line in lines
        if re.match(r"(\$ )?regent ", line)
    ]
    wrong = {
        command: why
        for command in commands
        for one in alternatives(command)
        if (why := why_not(one)) is not None and "required" not in why
    }
    assert not wrong


def alternatives(command: str) -> list[str]:
    """`a b|c` as `a b` and `a c`; what a reader fills in is filled in."""
    if any(mark in command for mark in ("…", "...", " | ")):
        return []
    words = command.split()
    at = next((n for n, w in enumerate(words) if re.fullmatch(r"[a-z]+(\|[a-z]+)+", w)), None)
    if at is None:
        return [command.replace("FILE|FOLDER", "FILE")]
    return [" ".join([*words[:at], one, *words[at + 1 :]]) for one in words[at].split("|")]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_has_a_paragraph_on_every_package(package: str) -> None:
    assert f"`{package}" in ARCHITECTURE.read_text(encoding="utf-8")


def test_the_architecture_is_a_map() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert len(text) <= MAP_CHARS_MAX
    prose, tables = [], []
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n"):
        (tables if line.startswith("|") else prose).append(line)
    assert max(map(len, prose)) <= PARAGRAPH_CHARS_MAX
    assert max(len(cell) for line in tables for cell in line.split("|")) <= CELL_CHARS_MAX


def test_the_architecture_gives_a_reason_for_every_dependency() -> None:
    wanted = re.findall(
        r"^([a-z][a-z0-9-]+)==",
        (ROOT / "requirements.in").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    text = ARCHITECTURE.read_text(encoding="utf-8").lower()
    assert not [name for name in wanted if f"`{name}" not in text]


def test_each_document_has_one_title() -> None:
    for path in DOCUMENTS:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, path


def test_what_the_documents_point_to_is_there() -> None:
    for path in DOCUMENTS:
        for name, anchor in re.findall(
            r"\]\(([\w./-]+\.md)(?:"
            r"#([\w-]+))?\)",
            path.read_text(encoding="utf-8"),
        ):
            target = path.parent / name
            assert target.is_file(), (path, name)
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert not anchor or anchor in slugs, (path, anchor)
