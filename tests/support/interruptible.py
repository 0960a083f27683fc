"""How a run that starts processes is told to end: once, and then it ends what it has started.

Refuses to know what that is.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM)


def interruptible() -> None:
    """Ctrl-C, or to be asked to end, is a KeyboardInterrupt once, also in the background of a
    script, for which a shell has Ctrl-C ignored; no second one stops what ends everything that was
    started.
    """

    def interrupt(number: int, frame: object) -> None:
        uninterruptible()
        raise KeyboardInterrupt

    for one in ENDING:
        signal.signal(one, interrupt)


def uninterruptible() -> None:
    """From here on everything ends, whoever else asks for it."""
    for one in ENDING:
        signal.signal(one, lambda number, frame: None)  # not SIG_IGN: that one is inherited


@contextmanager
def held_back() -> Iterator[None]:
    """Who is told to end in here hears it at the end: by then what was started in here is known to
    whoever ends it.
    """
    told: list[int] = []
    before = {one: signal.signal(one, lambda number, frame: told.append(number)) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        if told:
            signal.raise_signal(told[0])
