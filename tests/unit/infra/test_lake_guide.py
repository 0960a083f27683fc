"""LAKE.md says what the commands say: each one is run on the history that the page is written
about.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from infra.cli.lake.verbs import SUBVERBS
from infra.cli.main import VERBS
from tests.support.lake_guide import GUIDE, answered, make_lake

TEXT = GUIDE.read_text(encoding="utf-8")


def test_every_answer_of_the_guide_is_what_the_command_says(tmp_path: Path) -> None:
    now = answered(TEXT, make_lake(tmp_path))
    differs = "\n".join(
        difflib.unified_diff(TEXT.split("\n"), now.split("\n"), "LAKE.md", "said", lineterm="", n=1)
    )
    assert not differs, f"python -m tests.support.lake_guide writes it anew:\n{differs}"


def test_it_asks_ten_questions_and_names_only_what_there_is() -> None:
    assert re.findall(r"^## (\d+)\. ", TEXT, re.MULTILINE) == [
        str(number) for number in range(1, 11)
    ]
    assert set(re.findall(r"\bregent ([a-z-]+)", TEXT)) <= set(VERBS)
    assert set(re.findall(r"\bregent lake ([a-z-]+)", TEXT)) <= set(SUBVERBS)
