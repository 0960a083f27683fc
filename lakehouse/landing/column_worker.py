"""Makes columns of records for a landing job, beside it: `python -m
lakehouse.landing.column_worker`.

Each question on standard input is answered on standard output, until the input ends; it ends with
the job, however that ends.
Responsible for the form of questions and answers. Refuses to know whose they are.
"""

from __future__ import annotations

import pickle
import signal
import struct
import sys
from collections.abc import Collection
from typing import IO

import pyarrow as pa

from lakehouse.landing.silver_columns import Typed, typed_batch

LENGTH = struct.Struct(">Q")
"""Before each question and each answer: how many bytes it has."""
COLUMNS = ("topic", "value")


def question(batch: pa.Table, wanted: Collection[str]) -> bytes:
    """The bytes that ask for the columns of these records."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.select(COLUMNS).schema) as stream:
        stream.write_table(batch.select(COLUMNS))
    return pickle.dumps((sink.getvalue().to_pybytes(), tuple(wanted)))


def answer_of(data: bytes) -> Typed:
    """What a worker of ours has answered."""
    tables, left = pickle.loads(data)
    return Typed(tables, left)


def send(out: IO[bytes], data: bytes) -> None:
    """Raises OSError when nobody reads."""
    out.write(LENGTH.pack(len(data)))
    out.write(data)
    out.flush()


def receive(source: IO[bytes]) -> bytes | None:
    """The next question or answer; None when it ended."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (count,) = LENGTH.unpack(head)
    data = source.read(count)
    return data if len(data) == count else None


def main() -> None:
    """Answer until nobody asks any more."""
    # What ends the whole group of processes ends the job, and that ends this.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    pa.set_cpu_count(1)
    while (asked := receive(sys.stdin.buffer)) is not None:
        records, wanted = pickle.loads(asked)
        made = typed_batch(pa.ipc.open_stream(records).read_all(), wanted)
        try:
            send(sys.stdout.buffer, pickle.dumps(tuple(made), protocol=5))
        except BrokenPipeError:  # The job was killed.
            return


if __name__ == "__main__":
    main()
