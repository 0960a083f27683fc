"""One line on standard error when something takes longer than a person expects. Refuses to know
what is waited for.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0


@contextmanager
def told(text: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """What is done inside may be silent for `patience_s`; then `text` is said, once."""
    timer = threading.Timer(patience_s, _say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(text: str) -> None:
    try:
        print(f"regent: {text} …", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # nobody reads it
