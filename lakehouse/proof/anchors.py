"""Anchors: what history was called, told to somebody whom the lake's writers do not reach.

Whoever can write the lake can alter all of it consistently, the names it keeps included. An anchor
is one line: the link of a partition's chain of names at an offset, of commands with the digest that
was published there. A line of every thousandth record, and now and then one of the end, is enough
to hold the lake against later.
Responsible for the line and for holding names against lines (P). Refuses to know where lines go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from lakehouse import wording
from lakehouse.proof.finding import Finding
from lakehouse.proof.names import BLOCK_RECORDS, Chain, Names
from lakehouse.tables.high_water import Partition
from lakehouse.tables.specs import BRONZE, DECISIONS

FORMAT = 1
WHAT_TO_DO = (
    "'regent verify --kafka' says what the log has there; put the files back from a copy, or land "
    "into a new folder"
)
LINES_BACK = (
    "put the lines back from a copy, or hold the lake against another place that was told them; up "
    "to the next anchor the records are held against that one"
)
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Offset = Annotated[int, Meta(ge=0, lt=2**62)]
_Partition = Annotated[int, Meta(ge=0, lt=2**31)]
_Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
"""Until the year 9999; ms since 1970-01-01 UTC."""


class Anchor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What everything in a partition up to an offset, that one included, was called."""

    cluster_id: str
    topic: str
    partition: _Partition
    offset: _Offset
    link: _Hash
    """Of the chain over what the log gave (`names.Chain`), 64 hex digits."""
    digest: _Hash | None = None
    """Of commands: the digest published at that offset, 64 hex digits."""
    at_ms: _Moment = 0
    """When it was anchored, ms since 1970-01-01 UTC."""
    anchor: int = FORMAT

    @property
    def place(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + 1

    @property
    def is_whole(self) -> bool:
        """Whether a block ends here, so that the chain goes on from it."""
        return self.end % BLOCK_RECORDS == 0

    def line(self) -> str:
        """One line of JSON, without its end."""
        return msgspec.json.encode(self).decode()


class NoAnchor(Exception):
    """A line that is none."""


def parsed(line: str) -> Anchor:
    """The anchor in a line. Raises `NoAnchor`, with the reason."""
    try:
        found = msgspec.json.decode(line, type=Anchor)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NoAnchor(str(error)) from error
    return _read(found)


def converted(row: Mapping[str, Any]) -> Anchor:
    """The anchor in a row of a table. Raises `NoAnchor`, with the reason."""
    try:
        return _read(msgspec.convert(row, Anchor))
    except msgspec.ValidationError as error:
        raise NoAnchor(str(error)) from error


def _read(found: Anchor) -> Anchor:
    if found.anchor != FORMAT:
        raise NoAnchor(f"an anchor of format {found.anchor}, this release reads {FORMAT}")
    return found


def parsed_lines(text: str) -> tuple[list[Anchor], list[str]]:
    """The anchors in lines, and in words the lines that are none; the last one may have been cut
    while it was written.
    """
    found, told = [], []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(parsed(line))
        except NoAnchor as error:
            if number < len(lines):
                told.append(f"line {number} of the anchors is none: {error}")
    return found, told


def missing(anchors: Iterable[Anchor]) -> Iterator[str]:
    """In words, ends of blocks without an anchor between two that have one: whoever tells anchors
    leaves none out.
    """
    ends: dict[Partition, set[int]] = {}
    for one in anchors:
        if one.is_whole:
            ends.setdefault(one.place, set()).add(one.end)
    for (topic, partition), own in sorted(ends.items()):
        for before, after in pairwise(sorted(own)):
            count = (after - before) // BLOCK_RECORDS - 1
            if count:
                yield (
                    f"anchors of {topic}-{partition} are missing, {count} between those of offset "
                    f"{before - 1} and {after - 1}: lines were taken away; {LINES_BACK}"
                )


def out_of_order(anchors: Iterable[Anchor]) -> Iterator[str]:
    """In words, partitions whose anchors do not stand in the order in which they are told; one that
    was told again may follow later ones. All of them are held against the lake.
    """
    last: dict[Partition, Anchor] = {}
    seen: set[tuple[Partition, int]] = set()
    told: set[Partition] = set()
    for one in anchors:
        before = last.get(one.place)
        key = (one.place, one.offset)
        if before is not None and one.offset < before.offset and key not in seen:
            told.add(one.place)
        seen.add(key)
        if before is None or one.offset > before.offset:
            last[one.place] = one
    for topic, partition in sorted(told):
        yield (
            f"anchors of {topic}-{partition} do not stand in the order in which they are told: "
            "somebody wrote their lines anew; all of them were held against the lake"
        )


def uncovered(anchors: Iterable[Anchor], ends: Mapping[Partition, int]) -> Iterator[str]:
    """In words, how much lies behind the last anchor of a partition, a block or more, or has
    none.
    """
    last: dict[Partition, Anchor] = {}
    for one in anchors:
        if one.place not in last or one.end > last[one.place].end:
            last[one.place] = one
    for place, end in sorted(ends.items()):
        newest, name = last.get(place), f"{place[0]}-{place[1]}"
        if newest is None:
            yield f"no anchor is of {name}: its records are held against nothing"
        elif end - newest.end >= BLOCK_RECORDS:
            yield (
                f"{end - newest.end} records of {name} lie behind its last anchor, which is of "
                f"{_moment(newest)} UTC: they are held against nothing"
            )


def cuts(anchors: Iterable[Anchor]) -> dict[Partition, set[int]]:
    """Where these end."""
    found: dict[Partition, set[int]] = {}
    for one in anchors:
        found.setdefault(one.place, set()).add(one.end)
    return found


def held(
    anchors: Iterable[Anchor], names: Mapping[Partition, Names], begin: Mapping[Partition, bytes]
) -> Iterator[Finding]:
    """What is not what was anchored, between the last anchor that still holds and the first that
    does not; from there on the anchors' word is taken for the chain. `begin` is where the chain of
    each partition begins, and `names` reach up to every anchor.
    """
    by_place: dict[Partition, list[Anchor]] = {}
    for one in anchors:
        by_place.setdefault(one.place, []).append(one)
    for place, own in sorted(by_place.items()):
        chain, sound = Chain(begin[place]), 0
        for one in sorted(own, key=lambda anchor: anchor.end):
            link = chain.to(one.end, names.get(place, {}))
            if link.hex() != one.link:
                first = min(sound, one.offset)
                yield _finding(one, first, one.offset, "not what was anchored")
                if one.is_whole:
                    chain = Chain(bytes.fromhex(one.link), one.end)
            sound = max(sound, one.end)


def taken_away(anchors: Iterable[Anchor], ends: Mapping[Partition, int]) -> Iterator[Finding]:
    """Partitions that end before what was anchored of them does."""
    last: dict[Partition, Anchor] = {}
    for one in anchors:
        if one.end > max(ends.get(one.place, 0), last[one.place].end if one.place in last else 0):
            last[one.place] = one
    for place, one in sorted(last.items()):
        end = ends.get(place, 0)
        said = (
            f"bronze ends at offset {end - 1}, anchored up to {one.offset}: the end was taken away"
        )
        yield _finding(one, end, one.offset, said)


def digests_held(
    anchors: Iterable[Anchor], published: Mapping[int, str], where: str = DECISIONS.name
) -> Iterator[Finding]:
    """Commands whose digest is another one than was anchored; `published` is by command offset."""
    for one in anchors:
        there = published.get(one.offset)
        if one.digest is not None and there is not None and there != one.digest:
            said = f"its digest is {there[:16]}…, anchored was {one.digest[:16]}…"
            yield _finding(one, one.offset, one.offset, said, where)


def contradicting(anchors: Iterable[Anchor]) -> Iterator[Finding]:
    """Anchors of one offset that do not say the same."""
    first: dict[tuple[str, int, int], Anchor] = {}
    for one in anchors:
        before = first.setdefault((*one.place, one.offset), one)
        if (before.link, before.digest or one.digest) != (one.link, one.digest or before.digest):
            said = f"anchored twice and not the same, before at {_moment(before)}"
            yield _finding(one, one.offset, one.offset, said)


def _finding(one: Anchor, first: int, last: int, said: str, table: str = BRONZE.name) -> Finding:
    when = f"{said} ({_moment(one)} UTC)"
    return Finding(table, one.topic, one.partition, first, last, when, WHAT_TO_DO)


def _moment(one: Anchor) -> str:
    return wording.moment(one.at_ms)
