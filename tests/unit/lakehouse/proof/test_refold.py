"""Commands folded once more: the digests of the controllers come out, whatever the ranges, and
trouble is told at its offset.
"""

import zlib

import pyarrow as pa
import pytest
from msgspec import msgpack
from msgspec.structs import replace

from events.codec import decode, encode
from events.commands import ClusterFormed
from events.outcomes import Outcome
from lakehouse.proof.entries import BEGIN, COMMAND, ENTRY_COLUMNS, SAID
from lakehouse.proof.kept_state import packed, snapshot_of
from lakehouse.proof.refold import TOLD_SCHEMA, RangeFolded, RangeTold, prove_batches
from processors.fold.folder import Folder
from tests.support.control_history import seen, with_master
from tests.support.proof_rig import Entry, proven_in

PAST = with_master(1, 2, 3)
PAST.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
LAST = len(PAST.records) - 1
ALL = 1_000
"""A range that holds all of it."""


def commands(records: list[bytes] = PAST.records, start: int = 0) -> list[Entry]:
    return [
        (start, offset, COMMAND, -1, value)
        for offset, value in enumerate(records)
        if offset >= start
    ]


def said(records: list[bytes] = PAST.records, start: int = 0, publisher: str = "n0") -> list[Entry]:
    folder, found = Folder(), []
    for offset, value in enumerate(records):
        outcome = replace(folder.apply(offset, value).outcome, publisher=publisher)
        found.append((start, offset, SAID, offset, encode(outcome)))
    return [entry for entry in found if entry[1] >= start]


def otherwise(entry: Entry, **fields: object) -> Entry:
    """An outcome that says something else."""
    outcome = decode(entry[4] or b"")
    assert isinstance(outcome, Outcome)
    return (*entry[:4], encode(replace(outcome, **fields)))


def folded(entries: list[Entry], size: int = ALL) -> list[RangeFolded]:
    """The same, however the entries come."""
    found = proven_in(entries, size)
    for at_once in (1, 3, 7):
        assert proven_in(entries, size, at_once) == found
    return found


def told(entries: list[Entry], size: int = ALL) -> list[RangeTold]:
    return [one.told for one in folded(entries, size)]


def begin(start: int, state: bytes | None) -> Entry:
    return (start, start - 1, BEGIN, -1, packed(state or b"", b"{}"))


def test_folding_once_more_gives_the_digests_of_the_controllers() -> None:
    [one] = told(commands() + said())
    assert (one.first, one.last, one.proven, one.compared, one.unsaid) == (
        0,
        LAST,
        LAST,
        LAST + 1,
        0,
    )
    assert (one.digest, one.publishers, one.problems, one.first_mismatch) == (
        PAST.folder.digest.hex(),
        ("n0",),
        (),
        None,
    )


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranges_fold_to_the_same_and_each_begins_where_the_one_before_ended(size: int) -> None:
    ranges = told(commands() + said(), size)
    assert [one.first for one in ranges] == list(range(0, LAST + 1, size))
    assert (
        all(one.is_sound for one in ranges[:-1]) and ranges[-1].digest == PAST.folder.digest.hex()
    )
    assert [one.before for one in ranges[1:]] == [one.after for one in ranges[:-1]]


@pytest.mark.parametrize("size", [2, 5])
def test_a_kept_state_goes_on_as_if_the_fold_had_never_stopped(size: int) -> None:
    whole = folded(commands() + said(), size)
    for number, one in enumerate(whole[:-1], 1):
        start = number * size
        rest = folded([begin(start, one.state), *commands(start=start), *said(start=start)], size)
        assert rest[0].told.begun and rest[0].told.before
        rest[0].told.begun = ""
        assert rest == whole[number:], one.told.first


def test_a_kept_state_that_cannot_be_read_begins_nothing() -> None:
    for state in (
        b"",
        zlib.compress(b"x"),
        zlib.compress(msgpack.encode((b"regent-snapshot 2\nx\ny", b"{}"))),
        packed(b"x", b"{}"),
    ):
        entry: Entry = (4, 3, BEGIN, -1, state)
        assert (
            told([entry, *commands(start=4), *said(start=4)], 4) == []
            or not told([entry, *commands(start=4)], 4)[0].before
        )


def test_a_state_as_an_earlier_release_kept_it_begins_the_same() -> None:
    """It compressed snapshot and invariants as one."""
    whole = folded(commands() + said(), 4)
    snapshot = zlib.decompress(whole[0].state or b"")
    entry: Entry = (4, 3, BEGIN, -1, zlib.compress(msgpack.encode((snapshot, b"{}"))))
    [first, *_] = told([entry, *commands(start=4), *said(start=4)], 4)
    assert (first.before, first.after) == (whole[0].told.after, whole[1].told.after)


def test_the_state_of_another_offset_begins_nothing() -> None:
    state = folded(commands() + said(), 2)[0].state
    found = told([begin(4, state), *commands(start=4)], 2)
    assert found and all((one.before, one.after, one.commands) == ("", "", 0) for one in found)


def test_what_was_published_for_the_state_that_a_run_begins_with_is_compared() -> None:
    state = folded(commands() + said(), 4)[0].state
    before = (4, *said()[3][1:])
    rest = [*commands(start=4), *said(start=4)]
    assert told([begin(4, state), before, *rest], 4)[0].first_mismatch is None
    other = otherwise(before, digest=bytes(32))
    assert told([begin(4, state), other, *rest], 4)[0].first_mismatch == 3


def test_batches_may_be_cut_anywhere() -> None:
    rows = sorted(commands() + said(), key=lambda entry: entry[:3])
    types = [pa.int64(), pa.int64(), pa.int32(), pa.int64(), pa.binary()]

    def batch(piece: list[Entry]) -> pa.RecordBatch:
        columns = [
            pa.array(column, kind)
            for column, kind in zip(zip(*piece, strict=True), types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(ENTRY_COLUMNS))

    whole = list(prove_batches([batch(rows)], 4))
    cut = list(prove_batches([batch(rows[:5]), batch(rows[5:6]), batch(rows[6:])], 4))
    assert whole == cut and whole[0].schema == TOLD_SCHEMA


def test_after_a_hole_nothing_is_folded_and_the_range_has_no_end() -> None:
    [one] = told([*commands()[:3], *commands()[5:], *said()])
    assert (one.last, one.proven, one.after) == (2, 2, "")
    ranges = told([*commands()[:3], *commands()[5:], *said()], 4)
    assert [(one.first, one.last, one.after, one.commands) for one in ranges] == [
        (0, 2, "", 3),
        (4, 3, "", 0),
    ]


def test_a_record_that_landed_twice_is_told_and_folded_once() -> None:
    [one] = told([*commands(), commands()[2], (0, 3, COMMAND, -1, b"other"), *said()])
    assert dict(one.problems) == {2: "landed twice", 3: "landed twice, with other bytes"}
    assert one.digest == PAST.folder.digest.hex() and not one.is_sound


def test_an_issuer_with_another_digest_is_told() -> None:
    """So a flipped byte is seen even where no outcome has been published yet."""
    past = with_master(1)
    before = len(past.records)
    past.claim(past.folder.state.term)
    first = decode(past.records[0])
    assert isinstance(first, ClusterFormed)
    other = replace(first, envelope=replace(first.envelope, cause="another"))
    [one] = told(commands([encode(other), *past.records[1:]]))
    assert dict(one.problems)[before] == f"its issuer had another digest after offset {before - 1}"


def test_rules_of_a_newer_release_are_told_and_not_guessed() -> None:
    newer = encode(replace(decode(PAST.records[0]), rules_version=99))
    [one] = told(commands([newer, *PAST.records[1:]]))
    assert [offset for offset, _ in one.problems] == [0] and "99" in one.problems[0][1]
    assert one.commands == 0


def test_garbage_is_refused_as_the_controllers_refused_it() -> None:
    records = [*PAST.records, b"garbage", b""]
    [one] = told(commands(records) + said(records))
    assert (one.unreadable, one.proven) == (2, len(records) - 1)


def test_what_was_not_published_is_counted_as_such() -> None:
    [one] = told(commands() + said()[:-2])
    assert (one.proven, one.unsaid, one.unsaid_after) == (LAST - 2, 2, 2)
    [one] = told([*commands(), *said()[:3], *said()[5:]])
    assert (one.proven, one.unsaid, one.unsaid_after) == (LAST, 2, 0)


def test_of_two_publishers_both_are_named_and_neither_may_differ() -> None:
    [one] = told([*commands(), *said(), *said(publisher="n1")])
    assert (one.publishers, one.compared, one.first_mismatch) == (("n0", "n1"), LAST + 1, None)
    lie = otherwise(said()[4], code=77, publisher="n1")
    [one] = told([*commands(), *said(), lie])
    assert (one.first_mismatch, one.mismatches, one.proven) == (4, 1, 3)


def test_what_cannot_be_read_was_not_published_and_is_told_with_its_own_offset() -> None:
    entries = said()
    cut = (*entries[4][:4], (entries[4][4] or b"")[:-1])
    for rest in (commands(), [*commands()[:4], *commands()[5:]]):
        [one] = told([*rest, *entries[:4], cut, *entries[5:]])
        [(place, why)] = one.unread
        assert (place, one.unread_pieces) == (4, (0,)) and why.startswith("unreadable: ")
    [one] = told([*commands(), *entries[:4], cut, *entries[5:]])
    assert (one.unsaid, one.compared, one.first_mismatch) == (1, LAST, None)


def test_an_outcome_that_is_written_otherwise_says_the_same() -> None:
    """As fastavro reads it: a map in two blocks."""
    entry = otherwise(said()[4], phases={"applied": 5})
    value = entry[4] or b""
    block = b"\x02\x0eapplied\x0a"
    assert value.endswith(block + b"\x00")
    other = (
        value[: -len(block) - 1] + b"\x01" + bytes((2 * (len(block) - 1),)) + block[1:] + b"\x00"
    )
    assert decode(other) == decode(value)
    [one] = told([*commands(), *said()[:4], (*entry[:4], other), *said()[5:]])
    assert (one.first_mismatch, one.unread, one.compared) == (None, (), LAST + 1)


@pytest.mark.parametrize(
    ("state", "mismatch"), [("as folded", None), ("not told", None), ("another", LAST - 1)]
)
def test_the_state_is_compared_with_its_published_digest(
    state: str, mismatch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)
    entries = said()
    for at, entry in enumerate(entries):
        if state == "not told":
            entries[at] = otherwise(entry, state_digest=b"")
        elif state == "another" and at >= LAST - 1:
            entries[at] = otherwise(entry, state_digest=bytes(32))
    [one] = told(commands() + entries)
    assert one.first_mismatch == mismatch and one.digest is not None


def test_a_kept_state_with_another_digest_than_was_published_is_not_begun_with() -> None:
    """Its history is right, and it is not what that history gives."""
    folder = Folder()
    for offset, value in enumerate(PAST.records[:5]):
        folder.apply(offset, value)
    behind = [begin(5, snapshot_of(folder)[1]), *commands(start=5), *said(start=5)]
    for digest, is_begun in ((folder.state_digest(), True), (bytes(32), False), (b"", True)):
        proof = (5, *otherwise(said()[4], state_digest=digest)[1:])
        [one] = told([*behind, proof])
        assert (bool(one.begun), one.first_mismatch) == (is_begun, None)
