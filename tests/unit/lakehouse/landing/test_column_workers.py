from __future__ import annotations

import signal
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakehouse.landing import batches, column_workers
from lakehouse.landing.column_workers import ColumnWorkers, together
from lakehouse.landing.silver_columns import ALL, Typed, typed_batch
from tests.support.control_history import with_master
from tests.support.landed_log import batch_of, command_records, outcome_records

RECORDS = [*with_master(1, 2, 3).records, b"garbage"]
BATCH = batches.in_log_order(
    batch_of([*command_records(RECORDS), *outcome_records(RECORDS), ("t", 0, 0, None)])
)


def require_same(made: Typed, wanted: Typed) -> None:
    assert made.left == wanted.left
    assert made.tables.keys() == wanted.tables.keys()
    for name, table in wanted.tables.items():
        assert made.tables[name].equals(table), name


@pytest.mark.parametrize("size", [1, 4, 5, 100])
def test_parts_together_are_the_whole(size: int) -> None:
    starts = range(0, BATCH.num_rows, size)
    made = [typed_batch(BATCH.slice(start, size)) for start in starts]
    require_same(together(starts, made), typed_batch(BATCH))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ColumnWorkers]:
    monkeypatch.setattr(column_workers, "ALONE_RECORDS", 3)
    found = ColumnWorkers(2)
    yield found
    found.close()


@pytest.mark.processes
def test_processes_make_the_same_columns_also_when_one_was_killed(
    workers: ColumnWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = typed_batch(BATCH)
    require_same(workers.typed(BATCH, ALL), wanted)
    processes = list(workers._free)
    assert len(processes) == 2
    require_same(
        workers.typed(BATCH, ["silver/decisions"]), typed_batch(BATCH, ["silver/decisions"])
    )
    for process in processes:
        process.kill()
        process.wait()
    require_same(workers.typed(BATCH, ALL), wanted)
    assert "made without their process" in caplog.text
    require_same(workers.typed(BATCH, ALL), wanted)
    workers.close()
    require_same(workers.typed(BATCH, ALL), wanted)
    assert all(process.poll() is not None for process in (*processes, *workers._free))


@pytest.mark.processes
def test_a_process_that_stands_still_is_ended_and_its_records_are_made_all_the_same(
    workers: ColumnWorkers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = typed_batch(BATCH)
    require_same(workers.typed(BATCH, ALL), wanted)
    processes = list(workers._free)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(column_workers, "ANSWER_WAIT_S", 0.2)
    require_same(workers.typed(BATCH, ALL), wanted)
    assert "silent for" in caplog.text
    assert all(process.poll() is not None for process in processes)


def test_few_records_and_a_single_core_need_no_process(workers: ColumnWorkers) -> None:
    few: pa.Table = BATCH.slice(0, 3)
    require_same(workers.typed(few, ALL), typed_batch(few))
    require_same(ColumnWorkers(1).typed(BATCH, ALL), typed_batch(BATCH))
    assert workers._free == []
