"""The guide to the lake, answered: each command of LAKE.md on the history that it is written about.

Responsible for running what stands there and for putting the answers in. `python -m
tests.support.lake_guide` writes the page anew after an answer has changed. Refuses to know what is
asked.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path

from infra.cli import main
from infra.cluster.data_folder import DataFolder
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated

GUIDE = Path(__file__).resolve().parents[2] / "LAKE.md"
COMMANDS, SEED, PAUSE_MS = 60, 21, 120_000
BLOCK = re.compile(r"^```(console|python|sql|text|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MORE = "..."
"""Stands for lines of an answer that are left out, at its beginning."""


def make_lake(here: Path) -> Path:
    """The history of the guide: one set, an hour, seven failovers; in a data folder as `regent up`
    makes it below `here`.
    """
    folder = DataFolder(here / ".regent")
    folder.create("the guide", {}, "")
    land_generated(folder.tables, generate(COMMANDS, 1, seed=SEED, pause_ms=PAUSE_MS))
    return here


def answered(text: str, here: Path) -> str:
    """The page with the answers of now, as somebody gets them who stands in `here`; files that it
    speaks of are written there.
    """
    said: list[str] = []

    def block(found: re.Match[str]) -> str:
        kind, body = found.groups()
        if kind == "toml":
            name = body.removeprefix("# ").partition("\n")[0]
            (here / name).write_text(body, encoding="utf-8")
        elif kind == "console":
            body = "".join(
                _asked(one) for one in re.split(r"^(?=\$ )", body, flags=re.MULTILINE) if one
            )
        elif kind == "python" and body.startswith("import "):
            said.append(_printed(body))
        elif kind == "sql":
            said.append(_said("sql", body))
        elif kind == "text" and said:
            body = said.pop()
        return f"```{kind}\n{body}```"

    before = Path.cwd()
    os.chdir(here)
    try:
        return BLOCK.sub(block, text)
    finally:
        os.chdir(before)


def _asked(one: str) -> str:
    """A command with its answer; as many lines as stand there when it begins with `MORE`."""
    command, _, answer = one.partition("\n")
    lines = _said(*shlex.split(command.removeprefix("$ "))[1:]).rstrip("\n").split("\n")
    shown = answer.rstrip("\n").split("\n")
    if shown[0] == MORE:
        lines = [MORE, *lines[1 - len(shown) :]]
    return "\n".join([command, *lines, ""])


def _said(*words: str) -> str:
    """What a command says, without spaces at the ends of lines."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main.main(list(words))
    assert code == 0, f"{words} ends with {code}"
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(GUIDE), "exec"), {})
    return out.getvalue()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        text = answered(GUIDE.read_text(encoding="utf-8"), make_lake(place))
        GUIDE.write_text(text, encoding="utf-8")
