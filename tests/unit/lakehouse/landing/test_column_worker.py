from __future__ import annotations

import io
import pickle

import pyarrow as pa
import pytest

from lakehouse.landing.column_worker import answer_of, question, receive, send
from lakehouse.landing.silver_columns import typed_batch
from tests.support.control_history import with_master
from tests.support.landed_log import batch_of, command_records

BATCH = batch_of(command_records(with_master(1, 2).records))


def test_a_question_holds_the_asked_records_alone() -> None:
    whole, part = question(BATCH, ["x"]), question(BATCH.slice(1, 1), ["x"])
    assert len(part) < len(whole)
    records, wanted = pickle.loads(part)
    assert wanted == ("x",)
    rows = pa.ipc.open_stream(records).read_all()
    assert rows.to_pylist() == BATCH.slice(1, 1).select(["topic", "value"]).to_pylist()


def test_an_answer_is_what_was_made() -> None:
    made = typed_batch(BATCH)
    assert answer_of(pickle.dumps(tuple(made))) == made


def test_what_is_sent_is_received_until_the_end() -> None:
    link = io.BytesIO()
    for data in (b"one", b"", b"three"):
        send(link, data)
    link.seek(0)
    assert [receive(link) for _ in range(4)] == [b"one", b"", b"three", None]


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_half_an_answer_is_none(count: int) -> None:
    link = io.BytesIO()
    send(link, b"one")
    assert receive(io.BytesIO(link.getvalue()[:count])) is None
