"""How a command ends when it did not succeed: one line on standard error, with --json also one
document on standard output.

Responsible for: streams that are closed, full or cannot write a character, and an error that nobody
foresaw.
Refuses to know: what any command does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from infra.problems import EXIT_FAILED, Problem

TRACE = "REGENT_TRACE"
"""Set it to see where an unforeseen error came from."""


def prepare_streams() -> None:
    """The three streams are there and take every character, whatever the caller left of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def tell(problem: Problem, words: Sequence[str], code: int | None = None) -> int:
    """Say it where people and machines look; the exit code is `code`, else the problem's own."""
    code = problem.exit_code if code is None else code
    if "--json" in words:
        _write(
            sys.stdout,
            json.dumps(
                {"error": problem.what, "way_out": problem.way_out, "exit_code": code}, indent=1
            ),
        )
    _write(sys.stderr, f"regent: {problem.line()}")
    return code


def is_interruption(error: BaseException | None) -> bool:
    """Ctrl-C, also when somebody's cleaning up fell over it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def unforeseen(error: Exception) -> Problem:
    """An error of the program itself: what, where, and what helps to repair it."""
    if os.environ.get(TRACE):
        traceback.print_exc()
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return Problem(
        f"unforeseen error: {type(error).__name__}: {error}{place}",
        f"Are all controllers of this release? With {TRACE}=1 the command shows where "
        "it happened; please report it.",
        EXIT_FAILED,
    )


def finish_streams() -> None:
    """What is still buffered goes out, or nowhere: nobody may be listening any more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            discard(stream)


def discard(stream: IO[str]) -> None:
    """Whatever is written from now on is dropped."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # it has no file behind it


def _write(stream: IO[str], text: str) -> None:
    try:
        print(text, file=stream, flush=True)
    except (OSError, ValueError):
        discard(stream)
