import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse.answers.state_at import state_at, state_text
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold.progress import read_progress, write_progress
from lakehouse.proof import kept as proof_store
from lakehouse.tables.lake import Lake
from tests.support.control_history import History, seen, with_master
from tests.support.landed_log import (
    BEGAN_MS,
    append_to_bronze,
    command_records,
    land,
    outcome_records,
)
from tests.support.made_gold import bring_up, job_of
from tests.support.proof_rig import ProofRig


@pytest.fixture
def past() -> History:
    past = with_master(1, 2, 3)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    past.append(b"garbage")
    return past


def test_the_end_of_history_is_what_the_fold_has(past: History, lake: Lake) -> None:
    land(lake, command_records(past.records))
    model = state_at(lake)
    assert (model["offset"], model["digest"]) == (past.folder.offset, past.folder.digest.hex())
    assert model["sets"][0]["master_broker_id"] == 2
    json.dumps(model)
    assert "master 2 in epoch 2, set {2,3}" in state_text(model)


def test_what_members_showed_to_hold_is_in_it_as_plain_values(lake: Lake) -> None:
    past = with_master(1, 2, 3)
    past.elect(
        -1,
        seen(1, alive=False),
        seen(2, epoch=1, offset=2_700),
        seen(3, epoch=1, offset=2_600),
        master_epoch=1,
    )
    land(lake, command_records(past.records))
    model = state_at(lake)
    shown = {
        one["broker_id"]: (one["epoch"], one["end_offset"]) for one in model["sets"][0]["positions"]
    }
    assert shown[2] == (1, 2_700) and shown[3] == (1, 2_600)
    json.dumps(model)


def test_any_offset_can_be_asked_for(past: History, lake: Lake) -> None:
    land(lake, command_records(past.records))
    before = len(past.records) - 3
    model = state_at(lake, offset=before)
    assert (model["offset"], model["sets"][0]["master_broker_id"]) == (before, 1)


def test_any_time_can_be_asked_for(past: History, lake: Lake) -> None:
    """The log took record n n seconds after the beginning."""
    land(lake, command_records(past.records))
    assert state_at(lake, at_ms=BEGAN_MS + 2_999)["offset"] == 2
    assert state_at(lake, at_ms=BEGAN_MS + 3_000)["offset"] == 3
    with pytest.raises(NotLanded, match="no command had been taken"):
        state_at(lake, at_ms=BEGAN_MS - 1)


def test_what_has_not_landed_is_said_so(past: History, lake: Lake) -> None:
    land(lake, command_records(past.records)[:4])
    with pytest.raises(NotLanded, match="command 9 has not landed: last 3"):
        state_at(lake, offset=9)


def test_a_hole_is_named_and_not_jumped(past: History, lake: Lake) -> None:
    records = command_records(past.records)
    land(lake, records[:4])
    append_to_bronze(lake, records[6:])
    with pytest.raises(LakehouseError, match="offset 6.*expected 4"):
        state_at(lake)


def test_it_goes_on_from_the_newest_state_that_a_proof_kept(
    past: History, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a proof's rows laid beside the records: a range of four, proven up to offset 7."""
    monkeypatch.setattr(proof_store.newest_state, "__defaults__", (4,))
    land(lake, command_records(past.records))
    rig = ProofRig(4)
    rig.run(
        [(n, value) for n, value in enumerate(past.records)],
        [(n, value) for *_, n, value in outcome_records(past.records)],
    )
    ranges = [piece for piece in rig.kept.values() if piece.after]
    proof_store.keep(lake, 4, ranges, rig.states, datetime(2026, 1, 1, tzinfo=UTC))
    for offset, first in ((3, 0), (4, 4), (7, 4), (8, 8), (past.folder.offset, 8)):
        model = state_at(lake, offset=offset)
        assert (model["offset"], model["folded_from"]) == (offset, first)
    assert model["digest"] == past.folder.digest.hex()
    assert "folded from command 8 on" in state_text(model)
    # One that is not what was proven is passed over.
    other = datetime(2026, 1, 2, tzinfo=UTC)
    proof_store.keep(
        lake, 4, [piece for piece in ranges if piece.number == 1], {1: rig.states[0]}, other
    )
    model = state_at(lake)
    assert (model["folded_from"], model["digest"]) == (4, past.folder.digest.hex())


def test_it_goes_on_from_the_state_that_the_gold_job_kept(past: History, lake: Lake) -> None:
    records, outcomes = command_records(past.records), outcome_records(past.records)
    land(lake, records[:6] + outcomes[:6])
    bring_up(job_of(lake))
    at_once = state_at(lake)
    assert (at_once["offset"], at_once["folded_from"], at_once["at_ms"]) == (5, 6, BEGAN_MS + 5_000)
    land(lake, records[6:] + outcomes[6:])
    for offset, first in ((4, 0), (5, 6), (6, 6), (past.folder.offset, 6)):
        model = state_at(lake, offset=offset)
        assert (model["offset"], model["folded_from"], model["at_ms"]) == (
            offset,
            first,
            BEGAN_MS + offset * 1_000,
        )
    assert model["digest"] == past.folder.digest.hex()
    assert "folded from command 6 on" in state_text(model)


def test_a_kept_state_that_cannot_be_read_is_passed_over(past: History, lake: Lake) -> None:
    land(lake, command_records(past.records) + outcome_records(past.records))
    bring_up(job_of(lake))
    kept = read_progress(lake)
    assert kept is not None and state_at(lake)["folded_from"] == len(past.records)
    write_progress(lake, replace(kept, snapshot=kept.snapshot[:-1]))
    model = state_at(lake)
    assert (model["folded_from"], model["digest"]) == (0, past.folder.digest.hex())
