"""How a verb that works again and again hears the request to stop.

Refuses to know what it does: the verb looks at the event between two pieces of work, so that none
is cut.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set as long as this is open; afterwards they do what they
    did before.
    """
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in STOPPING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
