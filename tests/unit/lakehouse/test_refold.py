import pyarrow as pa
from msgspec.structs import replace

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
    assert "its issuer had another digest" in (rows[before].problem or "")


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
    assert batch.column("problem").to_pylist()[1] == "a ClusterFormed, no outcome"


def test_long_histories_leave_in_many_batches() -> None:
    values = [(i, b"x") for i in range(ROWS_PER_ARROW_BATCH + 1)]
    assert [b.num_rows for b in publish_batches([arrow(values)])] == [ROWS_PER_ARROW_BATCH, 1]
