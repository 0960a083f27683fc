"""How a run that starts processes is told to end: once, and then it ends what it has started.

Refuses to know what that is.
"""

from __future__ import annotations

import signal

ENDING = (signal.SIGINT, signal.SIGTERM)


def interruptible() -> None:
    """Ctrl-C, or to be asked to end, is a KeyboardInterrupt once, also in the background of a script, for which a shell has Ctrl-C
    ignored; no second one stops what ends everything that was started."""

    def interrupt(number: int, frame: object) -> None:
        uninterruptible()
        raise KeyboardInterrupt

    for one in ENDING:
        signal.signal(one, interrupt)


def uninterruptible() -> None:
    """From here on everything ends, whoever else asks for it."""
    for one in ENDING:
        signal.signal(one, lambda number, frame: None)  # not SIG_IGN: that one is inherited
