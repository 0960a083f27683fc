"""Whether a command line that is shown to people can be pasted: a shell reads it, and each `regent`
in it has verbs and flags that exist. Runs nothing.
"""

from __future__ import annotations

import re
import shlex
import subprocess

from infra.cli import main
from infra.problems import Problem


def why_not(line: str) -> str | None:
    """None when it can be pasted, else the reason."""
    if "\n" in line or not line.strip():
        return "it is no single line"
    done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    return next((why for part in parts(line) if (why := _unknown(part)) is not None), None)


def parts(line: str) -> list[list[str]]:
    """The commands between `&&`, `;` and `|`, as words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if re.fullmatch(r"[;&|]+", word):
            found.append([])
        else:
            found[-1].append(word)
    return found


def _unknown(words: list[str]) -> str | None:
    """What `regent` does not know in these words."""
    if words[:1] != ["regent"]:
        return None
    try:
        name, verb, rest = main._named(words[1:])
        main.parser_of(name, verb).parse_intermixed_args(rest)
    except Problem as problem:
        return problem.line()
    return None
