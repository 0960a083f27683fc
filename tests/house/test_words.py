"""Words that do not belong into the project, each with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import modules, text, text_files

# file or folder names that say nothing
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base", "impl"}
BANNED_TEXT = {
    r"\bFIXME\b|\bXXX\b(?!X)": "fix it, or open an issue",
    r"\bTODO\b": "do it, or open an issue",
    r"(?<![\w./$~-])/(?:home|root|work|Users)/": "a path of one machine; take it as an argument",
    r"/tmp/(?!bash|regent)\w": "a path of one machine; use tmp_path",
}
# What a name of a module ends in when nobody knew what it is.
BANNED_ENDINGS = ("_desk", "_beside", "_words", "_work", "_utils", "_helpers", "_misc")
# reference texts in RocketMQ's own words
FREE = {"tests/house/test_words.py"}
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_names_say_what_is_inside(path: Path) -> None:
    assert not {part.removesuffix(".py") for part in path.parts} & BANNED_NAMES
    assert not path.stem.endswith(BANNED_ENDINGS)


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_logger_has_a_name_that_does_not_move_with_the_file(path: Path) -> None:
    """Operators type them."""
    named = re.findall(r"^\w+ = logging\.getLogger\((.*)\)$", text(path), re.MULTILINE)
    assert all(name.startswith('"regent.') for name in named), f"{path}: {named}"


@pytest.mark.parametrize("pattern", BANNED_TEXT, ids=BANNED_TEXT.values())
def test_texts_hold_no_banned_words(pattern: str) -> None:
    found = []
    for path in text_files():
        if str(path) in FREE or path.suffix in (".lock", ".json"):
            continue
        try:
            written = text(path).replace(SCHEDULE, "")
        except UnicodeDecodeError:
            continue
        found += [
            (f"{path}:{written[: m.start()].count(chr(10)) + 1} {m.group()}")
            for m in re.finditer(pattern, written)
        ]
    assert not found, f"{found}: {BANNED_TEXT[pattern]}"


@pytest.mark.parametrize(
    "path", modules("schemas", "events", "processors", "brokers", "lakehouse"), ids=str
)
def test_only_the_command_line_prints(path: Path) -> None:
    assert not re.search(r"^\s*print\(", text(path), re.MULTILINE), (
        "log it: stdout belongs to the command line"
    )
