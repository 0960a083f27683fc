"""Words that do not belong into the project, each with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import modules, offenders, text, text_files

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


def test_names_say_what_is_inside() -> None:
    def silent(path: Path) -> bool:
        parts = {part.removesuffix(".py") for part in path.parts}
        return bool(parts & BANNED_NAMES) or path.stem.endswith(BANNED_ENDINGS)

    assert not offenders(modules(), silent)


def test_a_logger_has_a_name_that_does_not_move_with_the_file() -> None:
    """Operators type them."""

    def others(path: Path) -> list[str]:
        named = re.findall(r"^\w+ = logging\.getLogger\((.*)\)$", text(path), re.MULTILINE)
        return [name for name in named if not name.startswith('"regent.')]

    assert not offenders(modules(), others)


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


def test_only_the_command_line_prints() -> None:
    silent = modules("schemas", "events", "processors", "brokers", "lakehouse")
    prints = re.compile(r"^\s*print\(", re.MULTILINE)
    assert not offenders(silent, lambda path: prints.findall(text(path))), (
        "log it: stdout belongs to the command line"
    )
