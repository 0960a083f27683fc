"""A proof in several processes says what one in a single process says, and ends them."""

from __future__ import annotations

import pickle
import shutil
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.proof.in_processes import InProcesses
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import Scope, verify_beside, verify_here
from lakehouse.proof.worker import Begin, Failed, main
from lakehouse.tables import left_states
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import LEFT_STATES
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from tests.support.control_history import seen, with_master
from tests.support.landed_log import BEGAN, command_records, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.support.tampered_lake import tamper

SIZE = 4
SCOPE = Scope(range_records=SIZE)


def records() -> list[bytes]:
    past = with_master(1, 2, 3)
    for _ in range(9):
        past.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    return past.records


RECORDS = records()
LAST = len(RECORDS) - 1


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    return lake


def with_states(lake: Lake) -> Lake:
    """As a gold job leaves it."""
    job = job_of(lake, states_every=SIZE)
    bring_up(job)
    job.close()
    return lake


def nothing_kept(lake: Lake) -> None:
    for name in ("pieces", "names"):
        shutil.rmtree(Path(lake.root) / "proof" / name, ignore_errors=True)


def _flipped(row: dict[str, Any], at: int) -> dict[str, Any]:
    value = row["value"]
    return row | {"value": value[:-1] + bytes((value[-1] ^ 1,))} if row["offset"] == at else row


def said(found: Verdict) -> Verdict:
    """Without how it was done."""
    return replace(found, ranges=1)


def test_a_first_proof_folds_beside_one_another_what_the_gold_job_left_states_of(
    landed: Lake,
) -> None:
    alone = verify_here(landed, SCOPE)
    assert (alone.exit_code, alone.verified_up_to, alone.ranges) == (0, LAST, 1)
    nothing_kept(landed)
    with_states(landed)
    assert left_states.ranges(landed, SIZE) == frozenset(range((LAST + 1) // SIZE))
    for prove in (verify_here, verify_beside):
        nothing_kept(landed)
        found = prove(landed, SCOPE)
        assert found.ranges == LAST // SIZE + 1 and said(found) == said(alone)
    again = verify_here(landed, SCOPE)
    assert (again.exit_code, again.same_as_proven) == (0, (LAST + 1) // SIZE * SIZE)


def altered(lake: Lake, topic: str, at: int) -> Lake:
    tamper(lake, topic, at, lambda rows: [_flipped(row, at) for row in rows])
    return lake


@pytest.mark.parametrize("at", [1, SIZE, 2 * SIZE + 1, LAST])
@pytest.mark.parametrize("topic", [COMMANDS_TOPIC, OUTCOMES_TOPIC])
def test_what_was_altered_is_found_in_ranges_as_in_one_go(
    landed: Lake, topic: str, at: int
) -> None:
    """The states that were left are those of the history as it was."""
    found = verify_here(altered(with_states(landed), topic, at), SCOPE)
    assert found.exit_code == 1
    nothing_kept(landed)
    shutil.rmtree(landed.uri(LEFT_STATES))
    again = verify_here(landed, SCOPE)
    assert (again.exit_code, again.verified_up_to, again.first_mismatch) == (
        1,
        found.verified_up_to,
        found.first_mismatch,
    )


def test_what_was_altered_is_found_by_processes_too(landed: Lake) -> None:
    with_states(landed)
    found = verify_here(altered(landed, OUTCOMES_TOPIC, 2 * SIZE + 1), SCOPE)
    assert found.exit_code == 1
    nothing_kept(landed)
    assert said(verify_beside(landed, SCOPE)) == said(found)


def test_a_state_of_another_history_that_was_left_is_not_believed(landed: Lake) -> None:
    other = with_master(1, 2)
    for _ in range(9):
        other.alter((1, 2), seen(1), seen(2), set_epoch=0)
    folder, snapshots = Folder(), {}
    for offset, value in enumerate(other.records):
        folder.apply(offset, value)
        if (offset + 1) % SIZE == 0:
            snapshots[offset // SIZE] = snapshot_codec.dump(folder)
    ensure_tables(landed, (LEFT_STATES,))
    left_states.leave(landed, SIZE, snapshots, BEGAN)
    found = verify_here(landed, SCOPE)
    assert (found.exit_code, found.verified_up_to) == (0, LAST)
    passed_over = [one for one in found.notices if "is not the one that history gives" in one]
    assert passed_over and f"behind command {SIZE * 3 - 1} " in passed_over[0]
    found = replace(found, notices=[one for one in found.notices if one not in passed_over])
    shutil.rmtree(landed.uri(LEFT_STATES))
    nothing_kept(landed)
    assert said(verify_here(landed, SCOPE)) == said(found)


def test_a_state_that_is_none_is_not_believed(landed: Lake) -> None:
    ensure_tables(landed, (LEFT_STATES,))
    left_states.leave(landed, SIZE, {0: b"x", 1: b"", 99: b"y"}, BEGAN)
    found = verify_here(landed, SCOPE)
    assert (found.exit_code, found.verified_up_to) == (0, LAST)


def test_a_part_of_history_begins_at_a_proof_and_not_at_a_state_that_was_left(landed: Lake) -> None:
    with_states(landed)
    scope = replace(SCOPE, first=2 * SIZE + 1)
    assert verify_here(landed, scope).from_offset == 0
    verify_here(landed, SCOPE)
    assert verify_here(landed, scope).from_offset == 2 * SIZE


def test_a_process_that_is_gone_ends_the_proof_and_leaves_none(landed: Lake) -> None:
    work = InProcesses(landed, BronzeFiles(landed), Sizes(SIZE, SIZE), 2)
    work.outcomes([0, 1, 2])
    workers = list(work._all)
    assert workers
    workers[0].kill()
    workers[0].wait()
    work._free = workers[:1]
    with pytest.raises(LakehouseError, match="a process of the proof ended"):
        work._asked("said", (0,))
    work.close()
    assert all(one.poll() is not None for one in workers)


def test_what_a_task_raises_is_raised_here(landed: Lake) -> None:
    with closing(InProcesses(landed, BronzeFiles(landed), Sizes(SIZE, SIZE), 2)) as work:
        with pytest.raises(TypeError):
            work._asked("said", (None,))
        assert work._asked("said", (0,)).said[0].ranges == {0}, "it goes on"


def test_a_process_answers_task_by_task_until_nothing_more_is_asked(landed: Lake) -> None:
    asked = BytesIO()
    pickle.dump(Begin(landed, BronzeFiles(landed).files, Sizes(SIZE, SIZE)), asked)
    for task in (("said", (0,)), ("said", (None,)), ("said", (1,))):
        pickle.dump(task, asked)
    asked.seek(0)
    answers = BytesIO()
    main(asked, answers)
    answers.seek(0)
    first, failed, second = (pickle.load(answers) for _ in range(3))
    assert (first.said[0].ranges, second.said[1].ranges) == ({0}, {1})
    assert isinstance(failed, Failed) and isinstance(failed.error, TypeError)
