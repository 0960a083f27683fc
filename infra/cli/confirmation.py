"""Ask before something is done that cannot be taken back. Refuses to know what that is."""

from __future__ import annotations

import sys

from infra.problems import EXIT_USAGE, Problem


def require(what: str, agreed: bool) -> None:
    """Return when the person agrees (`agreed`: by a flag already); Problem when not, or when there
    is nobody to ask.
    """
    if agreed:
        return
    if not sys.stdin.isatty():
        raise Problem(
            f"{what}: that needs a yes",
            "Add --yes when there is no terminal to ask at.",
            EXIT_USAGE,
        )
    print(f"{what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Problem("nothing was changed", "")
