"""Ranges prove what one fold of everything proves: whatever was tampered with is told at its first
offset, by a first proof, by one that knows the bytes of an earlier one, and by one that folds all
of it from kept states.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from events.changes import SettingsChanged
from events.codec import decode, encode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.kept_state import packed, snapshot_of, unpacked
from lakehouse.proof.plan import Asked, Landed, Piece, Said, Skip, passed_over
from lakehouse.proof.work import outcomes_of
from tests.support.control_history import History, seen, with_master
from tests.support.examples import some
from tests.support.landed_log import outcome_records
from tests.support.proof_rig import Log, ProofRig, first_told

SIZE = 4


def past() -> History:
    found = with_master(1, 2, 3)
    found.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    for _ in range(3):
        found.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    return found


PAST = past()
LOG: Log = list(enumerate(PAST.records))
OUTCOMES: Log = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]
LAST = len(LOG) - 1


def proven(size: int = SIZE) -> ProofRig:
    """A lake whose history has been proven once."""
    rig = ProofRig(size)
    assert rig.run(LOG, OUTCOMES).exit_code == 0
    return rig


def everything(asked: Asked | None = None) -> Asked:
    return Asked(0, LAST, everything=True) if asked is None else asked


def flipped(at: int) -> Log:
    value = bytearray(PAST.records[at])
    value[-1] ^= 1
    return [*LOG[:at], (at, bytes(value)), *LOG[at + 1 :]]


def renumbered(values: list[bytes]) -> Log:
    return list(enumerate(values))


TAMPERED = {
    "changed byte": flipped,
    ("changed first byte"): lambda at: [
        *LOG[:at],
        (at, b"\x00" + PAST.records[at][1:]),
        *LOG[at + 1 :],
    ],
    "missing record": lambda at: [*LOG[:at], *LOG[at + 1 :]],
    ("missing record, the rest moved up"): lambda at: renumbered(
        [*PAST.records[:at], *PAST.records[at + 1 :]]
    ),
    ("inserted record, the rest moved down"): lambda at: renumbered(
        [*PAST.records[:at], b"inserted", *PAST.records[at:]]
    ),
    ("inserted copy of an earlier record"): lambda at: renumbered(
        [*PAST.records[:at], PAST.records[at - 1], *PAST.records[at:]]
    ),
    "inserted beside the record": lambda at: [*LOG[: at + 1], (at, b"inserted"), *LOG[at + 1 :]],
    "inserted before the record, same offset": lambda at: [*LOG[:at], (at, b"inserted"), *LOG[at:]],
    "reordered pair": lambda at: renumbered(
        [*PAST.records[:at], PAST.records[at + 1], PAST.records[at], *PAST.records[at + 2 :]]
    ),
    "another's value": lambda at: [*LOG[:at], (at, PAST.records[at - 1]), *LOG[at + 1 :]],
    "value gone": lambda at: [*LOG[:at], (at, None), *LOG[at + 1 :]],
}
# Repeats of one refusal differ in their command ids only, and they do differ.
PLACES = range(1, LAST)


@pytest.mark.parametrize("at", some(PLACES))
@pytest.mark.parametrize("kind", TAMPERED)
def test_what_was_tampered_with_is_told_at_its_first_offset(kind: str, at: int) -> None:
    tampered = TAMPERED[kind](at)
    asked = Asked(0, max(offset for offset, _ in tampered), everything=True)
    assert first_told(ProofRig(1_000).run(tampered, OUTCOMES)) == at, "in one go"
    assert first_told(ProofRig(SIZE).run(tampered, OUTCOMES)) == at, "a first proof in ranges"
    assert first_told(proven().run(tampered, OUTCOMES)) == at, "after it was proven"
    found = proven().run(tampered, OUTCOMES, asked)
    assert (first_told(found), found.exit_code) == (at, 1), "everything again, from kept states"
    assert found.verified_up_to < at or kind.startswith("inserted b")


@pytest.mark.parametrize("at", [0, LAST])
@pytest.mark.parametrize(
    "kind", ["changed byte", "changed first byte", "inserted beside the record", "value gone"]
)
def test_also_in_the_first_and_in_the_last_record(kind: str, at: int) -> None:
    assert first_told(ProofRig(SIZE).run(TAMPERED[kind](at), OUTCOMES)) == at
    assert first_told(proven().run(TAMPERED[kind](at), OUTCOMES)) == at


LIES = {
    "accepted": lambda told: replace(told, accepted=not told.accepted),
    "refusal": lambda told: replace(told, refusal="STALE_TERM"),
    "code": lambda told: replace(told, code=told.code + 1),
    "cause": lambda told: replace(told, cause="another"),
    "labels": lambda told: replace(told, labels=("AT_RISK",)),
    "no changes": lambda told: replace(
        told, changes=told.changes[1:] if told.changes else (SettingsChanged({"a": "b"}),)
    ),
    "digest": lambda told: replace(told, digest=bytes(32)),
    "term": lambda told: replace(told, term=told.term + 1),
}


@pytest.mark.parametrize("at", some(range(len(LOG))))
@pytest.mark.parametrize("lie", LIES)
def test_an_outcome_that_the_fold_does_not_give_is_told_at_its_command(lie: str, at: int) -> None:
    told = encode(LIES[lie](decode(OUTCOMES[at][1] or b"")))
    for rig in (ProofRig(SIZE), proven()):
        assert first_told(rig.run(LOG, [*OUTCOMES[:at], (at, told), *OUTCOMES[at + 1 :]])) == at, (
            "in its place"
        )
    for rig in (ProofRig(SIZE), proven()):
        assert first_told(rig.run(LOG, [*OUTCOMES, (len(OUTCOMES), told)])) == at, (
            "as a late repeat"
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_history_that_nobody_touched_is_proven_to_its_end(size: int) -> None:
    for outcomes in (OUTCOMES, OUTCOMES[3:]):
        found = ProofRig(size).run(LOG, outcomes)
        assert (found.exit_code, found.verified_up_to, found.digest) == (
            0,
            LAST,
            PAST.folder.digest.hex(),
        )
        assert first_told(found) is None


def test_what_was_proven_and_is_the_same_is_not_folded_again() -> None:
    rig = proven()
    last = LAST // SIZE
    found = rig.run(LOG, OUTCOMES)
    assert rig.folded == ((last,) if (LAST + 1) % SIZE else ())
    assert (found.exit_code, found.verified_up_to, found.same_as_proven) == (0, LAST, last * SIZE)
    assert found.commands + found.same_as_proven == len(LOG)


def test_what_came_later_is_folded_from_the_state_that_was_kept() -> None:
    rig = ProofRig(SIZE)
    assert rig.run(LOG[:6], OUTCOMES[:6]).verified_up_to == 5
    found = rig.run(LOG, OUTCOMES)
    assert rig.folded == tuple(range(1, LAST // SIZE + 1))
    assert (found.exit_code, found.verified_up_to, found.digest) == (
        0,
        LAST,
        PAST.folder.digest.hex(),
    )


def test_everything_again_folds_each_range_beside_the_others() -> None:
    rig = proven()
    found = rig.run(LOG, OUTCOMES, everything())
    assert rig.folded == tuple(range(LAST // SIZE + 1))
    assert (found.exit_code, found.verified_up_to, found.commands, found.ranges) == (
        0,
        LAST,
        len(LOG),
        len(rig.folded),
    )


def other_state(rig: ProofRig, number: int, **changes: object) -> bytes:
    """The kept state with something else in it, and the right digest."""
    kept = unpacked(rig.states[number])
    assert kept is not None
    folder = kept.folder
    folder.state = folder.state.with_set(replace(folder.state.sets["broker-a"], **changes))
    return packed(snapshot_of(folder)[1], kept.carried)


@pytest.mark.parametrize("asked", [None, Asked(0, LAST, everything=True)])
def test_a_kept_state_of_another_history_is_found_and_folded_anew(asked: Asked | None) -> None:
    rig, right = proven(), proven()
    number = LAST // SIZE - 1
    rig.states[number] = other_state(rig, number, next_broker_id=77)
    found = rig.run(LOG, OUTCOMES, asked)
    assert (found.exit_code, found.verified_up_to) == (0, LAST)
    assert number in rig.folded or not (LAST + 1) % SIZE
    if number in rig.folded:
        assert rig.states[number] == right.states[number]


def test_a_kept_state_that_is_gone_is_made_again() -> None:
    rig = proven()
    rig.states.clear()
    assert rig.run(LOG, OUTCOMES, everything()).verified_up_to == LAST
    assert rig.states == proven().states


def test_a_part_begins_at_the_kept_state_below_it() -> None:
    rig = proven()
    found = rig.run(LOG, OUTCOMES, Asked(SIZE + 1, 2 * SIZE + 1, everything=True))
    assert (rig.folded, found.from_offset) == ((1, 2), SIZE)
    assert (found.exit_code, found.verified_up_to, found.commands) == (0, 2 * SIZE + 1, SIZE + 2)
    assert "below offset 4 were proven earlier" in found.text()


def test_a_part_of_what_was_never_proven_begins_at_the_beginning() -> None:
    rig = ProofRig(SIZE)
    found = rig.run(LOG, OUTCOMES, Asked(SIZE + 1, 2 * SIZE + 1, everything=True))
    assert (found.from_offset, found.verified_up_to) == (0, 2 * SIZE + 1)


def test_the_state_that_a_part_begins_with_must_be_the_published_one() -> None:
    rig = proven()
    told = decode(OUTCOMES[SIZE - 1][1] or b"")
    lie = [
        *OUTCOMES[: SIZE - 1],
        (SIZE - 1, encode(replace(told, digest=bytes(32)))),
        *OUTCOMES[SIZE:],
    ]
    found = rig.run(LOG, lie, Asked(SIZE + 1, LAST, everything=True))
    assert (found.exit_code, found.first_mismatch) == (1, SIZE - 1)


def test_nothing_is_kept_of_what_was_not_proven() -> None:
    rig = ProofRig(SIZE)
    rig.run(flipped(SIZE + 1), OUTCOMES)
    assert {n for topic, n in rig.kept if topic == COMMANDS_TOPIC} == {0} == set(rig.states)
    rig = ProofRig(SIZE)
    rig.run(LOG, OUTCOMES[: SIZE + 2])
    assert {n for topic, n in rig.kept if topic == COMMANDS_TOPIC} == {0}


@pytest.mark.parametrize(
    ("about", "skipped"),
    [
        ([0, 1, 2, 3, 4, 5, 6], []),
        ([0, 1, 2, 1, 2, 3, 4], []),
        ([5, 6, 7, 8, 9], []),
        ([0, 1, 3, 4], [(2, 1, 3)]),
        ([0, 2, 1, 3], [(1, 0, 2)]),
        ([0, 1, 2, 4, 5], [(3, 2, 4)]),
        ([0, 1, 2, 3, 0, 4, 5], []),
        ([0, 1, 2, 3, 0, 5], [(5, 3, 5)]),
    ],
)
def test_outcomes_that_pass_a_command_over_are_told_whatever_piece_they_are_in(
    about: list[int], skipped: list[tuple[int, int, int]]
) -> None:
    for size in (3, 100):
        rows = pa.table(
            {
                "log_offset": pa.array(range(len(about)), pa.int64()),
                "offset": pa.array(about, pa.int64()),
                "problem": pa.nulls(len(about), pa.string()),
            }
        )
        landed = Landed(size, {}, {}, -(-len(about) // size))
        assert passed_over(landed, outcomes_of(rows, size).said) == skipped


def test_what_kept_pieces_of_outcomes_reach_counts_for_those_behind_them() -> None:
    kept = {(OUTCOMES_TOPIC, 0): Piece(OUTCOMES_TOPIC, 0, "n", lowest=0, highest=2)}
    landed = Landed(3, {}, kept, 2)
    after = {1: Said(3, 4, frozenset({1}), 0, (Skip(3, -1, 3),))}
    assert passed_over(landed, after) == []
    after = {1: Said(4, 4, frozenset({1}), 0, (Skip(3, -1, 4),))}
    assert passed_over(landed, after) == [(3, 2, 4)]
