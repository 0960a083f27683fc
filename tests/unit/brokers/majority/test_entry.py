"""Entries: their checksums, what is chained to what, when two are one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from brokers.majority.entry import (
    BEGIN,
    BODY_BYTES_MAX,
    EMPTY,
    ENTRY_BYTES_MAX,
    Entry,
    Place,
    body_crc,
    body_fits,
    chain_crc,
    chain_fits,
    link_of,
    same,
    sealed,
)

FIRST = sealed(BEGIN, Entry(0, 3, 0, b"first"))
SECOND = sealed(link_of(FIRST), Entry(1, 3, 53, b"second"))


def test_an_entry_is_its_head_and_its_body() -> None:
    assert (FIRST.size, SECOND.size) == (53, 54)
    assert Entry(0, 0, 0, bytes(BODY_BYTES_MAX)).size == ENTRY_BYTES_MAX == 4 << 20


@pytest.mark.parametrize("body", [b"", b"a", bytes(100)])
def test_a_checksum_fits_a_java_int_and_is_never_that_of_nothing(body: bytes) -> None:
    entry = sealed(BEGIN, Entry(0, 0, 0, body))
    assert all(0 < crc < 1 << 31 for crc in (entry.body_crc, entry.chain_crc))
    assert body_fits(entry) and chain_fits(BEGIN, entry)


def test_java_makes_none_and_everything_fits_it() -> None:
    plain = Entry(1, 3, 53, b"second")
    assert body_fits(plain) and chain_fits(BEGIN, plain) and chain_fits(link_of(FIRST), plain)


def test_a_body_that_changed_does_not_fit() -> None:
    assert not body_fits(replace(FIRST, body=b"First"))


@pytest.mark.parametrize(
    "changed",
    [{"term": 4}, {"index": 2}, {"channel": 1}, {"body": b"Second", "body_crc": 0}],
    ids=lambda one: next(iter(one)),
)
def test_a_head_or_body_that_changed_breaks_the_chain(changed: dict[str, int]) -> None:
    assert not chain_fits(link_of(FIRST), replace(SECOND, **changed))


@pytest.mark.parametrize(
    "other",
    [replace(FIRST, term=2), replace(FIRST, index=5), replace(FIRST, body=b"other", body_crc=0)],
    ids=["term", "index", "body"],
)
def test_an_entry_does_not_fit_behind_another_predecessor(other: Entry) -> None:
    assert not chain_fits(link_of(other), SECOND) and not chain_fits(BEGIN, SECOND)


def test_positions_belong_to_a_replica_not_to_the_entry() -> None:
    moved = replace(SECOND, position=4096)
    assert chain_fits(link_of(FIRST), moved) and same(SECOND, moved)


def test_every_replica_makes_the_same_checksums_whoever_wrote_the_entries() -> None:
    by_java = Entry(0, 3, 0, b"first"), Entry(1, 3, 53, b"second")
    assert link_of(by_java[0]) == link_of(FIRST)
    assert sealed(link_of(by_java[0]), by_java[1]) == SECOND
    assert chain_crc(link_of(FIRST), by_java[1]) == SECOND.chain_crc


def test_behind_an_unknown_predecessor_the_leaders_chain_stays() -> None:
    assert sealed(None, SECOND) == SECOND
    assert sealed(None, Entry(1, 3, 53, b"second")) == replace(SECOND, chain_crc=0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"index": 2}),
        ({}, {"term": 4}),
        ({}, {"channel": 1}),
        ({}, {"body": b"Second"}),
        ({}, {"magic": 2}),
    ],
)
def test_two_entries_are_one_when_all_but_checksums_and_positions_agree(one, other) -> None:
    assert same(SECOND, replace(SECOND, chain_crc=0, body_crc=0))
    assert not same(replace(SECOND, **one), replace(SECOND, **other))


def test_logs_are_compared_by_term_first() -> None:
    assert EMPTY < Place(1, 9) < Place(2, 3) < Place(2, 4) and Place(2, 3) == Place(2, 3)


def test_the_checksum_of_a_view_is_that_of_its_bytes() -> None:
    assert body_crc(memoryview(b"xfirst")[1:]) == FIRST.body_crc
