import pyarrow as pa
import pytest
from msgspec.structs import replace

from events.changes import SettingsChanged
from events.codec import decode, encode
from events.commands import ClusterFormed
from lakehouse.refold import (
    FOLDED_SCHEMA,
    PUBLISHED_SCHEMA,
    ROWS_PER_ARROW_BATCH,
    fold_batches,
    publish_batches,
    refold,
)
from tests.support.control_history import seen, with_master
from tests.support.landed_log import outcome_records

PAST = with_master(1, 2, 3)
PAST.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
LOG = list(enumerate(PAST.records))


def arrow(pairs: list[tuple[int, bytes | None]]) -> pa.RecordBatch:
    offsets, values = zip(*pairs, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(offsets, pa.int64()), pa.array(values, pa.binary())], names=["offset", "value"]
    )


def test_folding_once_more_gives_the_digests_of_the_controllers() -> None:
    folded = list(refold(LOG))
    published = [decode(value or b"") for *_, value in outcome_records(PAST.records)]
    assert [f.digest for f in folded] == [outcome.digest.hex() for outcome in published]
    assert {f.problem for f in folded} == {None}


def test_batches_may_be_cut_anywhere() -> None:
    whole = list(fold_batches([arrow(LOG)]))
    cut = list(fold_batches([arrow(LOG[:3]), arrow(LOG[3:4]), arrow(LOG[4:])]))
    assert pa.Table.from_batches(whole) == pa.Table.from_batches(cut)
    assert whole[0].schema == FOLDED_SCHEMA


def test_digest_and_content_of_published_outcomes_are_comparable() -> None:
    values = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]
    [batch] = publish_batches([arrow(values)])
    [folded] = fold_batches([arrow(LOG)])
    assert batch.schema == PUBLISHED_SCHEMA
    for name in ("offset", "digest", "outcome_hash"):
        assert batch.column(name).to_pylist() == folded.column(name).to_pylist()


def test_a_hole_ends_the_fold_and_later_ones_are_told() -> None:
    rows = list(refold([*LOG[:3], *LOG[5:6], *LOG[8:9]]))
    assert [(r.offset, r.missing_from, r.digest is None) for r in rows] == [
        (0, None, False), (1, None, False), (2, None, False), (5, 3, True), (8, 6, True),
    ]  # fmt: skip


def test_a_record_that_landed_twice_is_told_and_folded_once() -> None:
    rows = list(refold([*LOG[:3], LOG[2], *LOG[3:]]))
    assert [r.offset for r in rows if r.problem] == [2]
    assert rows[-1].digest == PAST.folder.digest.hex()


def test_an_issuer_with_another_digest_is_told() -> None:
    """So a flipped byte is seen even where no outcome has been published yet."""
    past = with_master(1)
    before = len(past.records)
    past.claim(past.folder.state.term)
    first = decode(past.records[0])
    assert isinstance(first, ClusterFormed)
    other = replace(first, envelope=replace(first.envelope, cause="another"))
    rows = list(refold([(0, encode(other)), *list(enumerate(past.records))[1:]]))
    assert f"its issuer had another digest after offset {before - 1}" in (rows[before].problem or "")


def test_rules_of_a_newer_release_are_told_and_not_guessed() -> None:
    first = decode(PAST.records[0])
    newer = encode(replace(first, rules_version=99))
    rows = list(refold([(0, newer), *LOG[1:]]))
    assert len(rows) == 1
    assert "99" in (rows[0].problem or "")


def test_garbage_is_refused_as_the_controllers_refused_it() -> None:
    rows = list(refold([*LOG, (len(LOG), b"garbage"), (len(LOG) + 1, None)]))
    assert [r.refusal for r in rows[-2:]] == ["UNREADABLE", "UNREADABLE"]


def test_an_outcome_that_cannot_be_read_is_told_with_its_offset() -> None:
    [batch] = publish_batches([arrow([(4, b"x"), (5, PAST.records[0]), (6, None)])])
    assert batch.column("offset").to_pylist() == [None] * 3
    assert batch.column("log_offset").to_pylist() == [4, 5, 6]
    assert batch.column("problem").to_pylist()[1] == "unreadable: a ClusterFormed, no outcome"


def test_long_histories_leave_in_many_batches() -> None:
    values = [(i, b"x") for i in range(ROWS_PER_ARROW_BATCH + 1)]
    assert [b.num_rows for b in publish_batches([arrow(values)])] == [ROWS_PER_ARROW_BATCH, 1]


def first_told(commands: list[tuple[int, bytes | None]], outcomes: list[tuple[int, bytes | None]]) -> int | None:
    """The first offset of the command log that folding or comparing names."""
    folded = pa.Table.from_batches(fold_batches([arrow(commands)])).to_pylist()
    published = pa.Table.from_batches(publish_batches([arrow(outcomes)])).to_pylist()
    said = {row["offset"]: (row["digest"], row["outcome_hash"]) for row in published}
    told = [row["offset"] if row["missing_from"] is None else row["missing_from"] for row in folded if row["problem"] or row["missing_from"] is not None]
    differs = [
        row["offset"] for row in folded
        if row["digest"] and row["offset"] in said and said[row["offset"]] != (row["digest"], row["outcome_hash"])
    ]
    return min([*told, *differs], default=None)


def flipped(at: int) -> list[tuple[int, bytes | None]]:
    value = bytearray(PAST.records[at])
    value[-1] ^= 1
    return [*LOG[:at], (at, bytes(value)), *LOG[at + 1 :]]


def renumbered(values: list[bytes]) -> list[tuple[int, bytes | None]]:
    return list(enumerate(values))


TAMPERED = {
    "changed byte": flipped,
    "changed first byte": lambda at: [*LOG[:at], (at, b"\x00" + PAST.records[at][1:]), *LOG[at + 1 :]],
    "missing record": lambda at: [*LOG[:at], *LOG[at + 1 :]],
    "missing record, the rest moved up": lambda at: renumbered([*PAST.records[:at], *PAST.records[at + 1 :]]),
    "inserted record, the rest moved down": lambda at: renumbered([*PAST.records[:at], b"inserted", *PAST.records[at:]]),
    "inserted copy of an earlier record": lambda at: renumbered([*PAST.records[:at], PAST.records[at - 1], *PAST.records[at:]]),
    "inserted beside the record": lambda at: [*LOG[: at + 1], (at, b"inserted"), *LOG[at + 1 :]],
    "inserted before the record, same offset": lambda at: [*LOG[:at], (at, b"inserted"), *LOG[at:]],
    "reordered pair": lambda at: renumbered([*PAST.records[:at], PAST.records[at + 1], PAST.records[at], *PAST.records[at + 2 :]]),
    "another's value": lambda at: [*LOG[:at], (at, PAST.records[at - 1]), *LOG[at + 1 :]],
    "value gone": lambda at: [*LOG[:at], (at, None), *LOG[at + 1 :]],
}
OUTCOMES = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]


@pytest.mark.parametrize("at", range(1, len(LOG) - 1))
@pytest.mark.parametrize("kind", TAMPERED)
def test_what_was_tampered_with_is_told_at_its_first_offset(kind: str, at: int) -> None:
    assert first_told(TAMPERED[kind](at), OUTCOMES) == at


@pytest.mark.parametrize("at", [0, len(LOG) - 1])
@pytest.mark.parametrize("kind", ["changed byte", "changed first byte", "inserted beside the record", "value gone"])
def test_also_in_the_first_and_in_the_last_record(kind: str, at: int) -> None:
    assert first_told(TAMPERED[kind](at), OUTCOMES) == at


def test_a_history_that_nobody_touched_tells_nothing() -> None:
    assert first_told(LOG, OUTCOMES) is None
    assert first_told(LOG, OUTCOMES[3:]) is None


LIES = {
    "accepted": lambda told: replace(told, accepted=not told.accepted),
    "refusal": lambda told: replace(told, refusal="STALE_TERM"),
    "code": lambda told: replace(told, code=told.code + 1),
    "cause": lambda told: replace(told, cause="another"),
    "labels": lambda told: replace(told, labels=("AT_RISK",)),
    "no changes": lambda told: replace(told, changes=told.changes[1:] if told.changes else (SettingsChanged({"a": "b"}),)),
    "digest": lambda told: replace(told, digest=bytes(32)),
    "term": lambda told: replace(told, term=told.term + 1),
}


@pytest.mark.parametrize("at", range(len(LOG)))
@pytest.mark.parametrize("lie", LIES)
def test_an_outcome_that_the_fold_does_not_give_is_told_at_its_command(lie: str, at: int) -> None:
    told = encode(LIES[lie](decode(OUTCOMES[at][1] or b"")))
    assert first_told(LOG, [*OUTCOMES[:at], (at, told), *OUTCOMES[at + 1 :]]) == at
    assert first_told(LOG, [*OUTCOMES, (len(OUTCOMES), told)]) == at


def test_outcomes_that_never_landed_are_told() -> None:
    [batch] = publish_batches([arrow([*OUTCOMES[2:4], *OUTCOMES[5:6], *OUTCOMES[8:]])])
    assert [row for row in zip(*(batch.column(n).to_pylist() for n in ("log_offset", "problem")), strict=True) if row[1]] == [
        (5, "4 right before it never landed"), (8, "6 to 7 right before it never landed"),
    ]  # fmt: skip


def test_an_outcome_beside_another_of_the_same_offset_is_told() -> None:
    [batch] = publish_batches([arrow([*OUTCOMES[:3], (2, OUTCOMES[1][1]), *OUTCOMES[2:]])])
    assert {row for row in zip(batch.column("log_offset").to_pylist(), batch.column("problem").to_pylist(), strict=True) if row[1]} == {
        (2, "landed twice, with other bytes"),
    }  # fmt: skip
