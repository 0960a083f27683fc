"""The process that makes queue entries for a broker which copies a long log: the child's side.

Responsible for: reading the bytes it is pointed to, answering with their entries; ending with its
broker, or when it was not asked for a while. Refuses to know: queues, the store, what is done with
the entries.

A question is QUESTION and the descriptor of the log's file; an answer is its length and the pickled
EntryRuns, or None when the bytes cannot be read. The first answer, of length 0, says that the
process is ready. Its arguments are the broker's delay levels in ms, none: RocketMQ's.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING

from brokers.store.log.delay_levels import use_delay_levels

if TYPE_CHECKING:
    from brokers.store.queues.entry_runs import EntryRuns

# Log offset of the first byte, where it lies in the file, how many bytes.
QUESTION = struct.Struct(">qqq")
LENGTH = struct.Struct(">I")
# Read and looked at in steps that fit a processor's cache.
STEP_BYTES = 1 << 20
# A broker that copies nothing need not hold the memory; it starts another one.
IDLE_S = 30.0


def entries_of(fileno: int, start: int, position: int, count: int) -> EntryRuns:
    """Of the complete messages among `count` bytes of a file, from its `position`, which is `start`
    in the log. OSError.
    """
    # arrays are loaded once the broker has its process
    from brokers.store.queues.entry_runs import EntryRuns, entry_runs

    made = EntryRuns(start, [], 0)
    buffer = bytearray(min(count, STEP_BYTES))
    while (left := start + count - made.end) > 0:
        got = os.preadv(fileno, [memoryview(buffer)[:left]], position + made.end - start)
        step = entry_runs(memoryview(buffer)[:got], made.end)
        if step.end == made.end:
            break
        made = EntryRuns(step.end, made.runs + step.runs, step.store_ms)
    return made


def serve(link: socket.socket, idle_s: float = IDLE_S) -> None:
    """Until the other end is closed, or silent for `idle_s`; closes this one."""
    with open(os.devnull, "rb") as nothing:
        entries_of(nothing.fileno(), 0, 0, 1)  # loads what it takes
    with link, contextlib.suppress(TimeoutError, ConnectionError):
        link.settimeout(idle_s)
        link.sendall(LENGTH.pack(0))
        while _answer(link):
            pass


def _answer(link: socket.socket) -> bool:
    """One question; False when there are no more."""
    question, files, _, _ = socket.recv_fds(link, QUESTION.size, 1)
    if len(question) < QUESTION.size or not files:
        return False
    try:
        made = entries_of(files[0], *QUESTION.unpack(question))
    except OSError:
        made = None
    finally:
        os.close(files[0])
    answer = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    link.sendall(LENGTH.pack(len(answer)) + answer)
    return True


if __name__ == "__main__":
    # Ctrl-C is for the broker, whose end is this one's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.argv[1:]:
        use_delay_levels(tuple(map(int, sys.argv[1:])))
    serve(socket.socket(fileno=sys.stdin.fileno()))
