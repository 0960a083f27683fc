"""Which stretches of history must be folded to prove it, and what they prove together.

The command log is cut into ranges and the outcomes into pieces of the same number of records. Of
what was proven, the names of the bytes are kept, and of each range the state behind it. A range
whose bytes, and the bytes of all that was published of it, have the same names needs no folding.
All others are folded, each from the kept state before it and beside one another; a kept state
counts only when the range before it ends in that very state, in the same run or when it was kept.
So nothing that was kept is believed beyond its bytes, and with `everything` not even those.

Refuses to know Spark and Delta.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.names import NAMING
from lakehouse.proof.refold import RangeTold
from lakehouse.proof.verdict import Verdict

PROBLEMS_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of commands, or a piece of the outcomes, that was proven."""

    topic: str
    number: int
    bytes_name: str
    before: str = ""
    """Of commands: names the state of the fold before the range."""
    after: str = ""
    """Of commands: names the bytes of the state behind it that are kept
    (`kept_state.kept_name`).
    """
    digest: str = ""
    """Of commands: the published digest at its last offset."""
    lowest: int = -1
    """Of outcomes: the lowest command offset that one of them is about."""
    highest: int = -1
    """Of outcomes: the highest one."""
    naming: int = NAMING
    """How its name was made; one of another naming says nothing of the bytes now."""


class Skip(NamedTuple):
    """An outcome that passes commands over, as far as its piece tells."""

    place: int
    """Its own offset."""
    reached: int
    """The highest command that the piece speaks of before it; -1 for its first one."""
    about: int
    """The command that it is about."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a piece of the outcomes is about."""

    lowest: int
    highest: int
    ranges: frozenset[int]
    """Numbers of the ranges of commands that it speaks of."""
    problems: int
    skips: tuple[Skip, ...] = ()
    """Where one is about a command further on than all before it in the piece reach, the first
    ones.
    """


@dataclass(frozen=True, slots=True)
class Asked:
    """Which commands are to be proven: offsets, both included; `everything`: kept proofs of bytes
    do not count.
    """

    first: int
    last: int
    everything: bool = False


@dataclass(frozen=True)
class Landed:
    """What lies in bronze, what was kept of earlier proofs, and which states others left."""

    size: int
    """Records of a range, and of a piece."""
    names: Mapping[tuple[str, int], str]
    """Topic, number -> name of the bytes now, of whole pieces only."""
    kept: Mapping[tuple[str, int], Piece]
    outcome_pieces: int
    """How many pieces the outcomes have, the last one perhaps not whole."""
    left: frozenset[int] = frozenset()
    """Ranges behind which somebody left a state of the fold, without a proof: one to begin with
    while the range itself is folded beside.
    """

    def same(self, topic: str, number: int) -> bool:
        """Whether its bytes are those that were proven."""
        kept = self.kept.get((topic, number))
        return (
            kept is not None
            and kept.naming == NAMING
            and self.names.get((topic, number)) == kept.bytes_name
        )

    @property
    def unknown_pieces(self) -> frozenset[int]:
        """Pieces of the outcomes that must be read to know what they are about."""
        return frozenset(p for p in range(self.outcome_pieces) if not self.same(OUTCOMES_TOPIC, p))

    def ranges_of(self, piece: int) -> frozenset[int]:
        """Ranges that a piece was about when it was proven; none when it was not."""
        kept = self.kept.get((OUTCOMES_TOPIC, piece))
        return (
            frozenset()
            if kept is None
            else frozenset(range(kept.lowest // self.size, kept.highest // self.size + 1))
        )


def passed_over(landed: Landed, said: Mapping[int, Said]) -> list[Skip]:
    """Outcomes that are about a command although none before them is about the one before it:
    publishers go on where the topic ends. It may begin anywhere.
    """
    found: list[Skip] = []
    reached: int | None = None
    for number in range(landed.outcome_pieces):
        one = said.get(number) or landed.kept.get((OUTCOMES_TOPIC, number))
        if one is None:
            continue
        for skip in one.skips if isinstance(one, Said) else ():
            before = skip.reached if reached is None else max(reached, skip.reached)
            if before >= 0 and skip.about > before + 1:
                found.append(skip._replace(reached=before))
        reached = max(one.highest, -1 if reached is None else reached)
    return found


@dataclass(frozen=True)
class Plan:
    """What is folded: the ranges, for each the first range of its run, and the pieces of outcomes
    that are read for it.
    """

    asked: Asked
    wanted: tuple[int, ...]
    """Every range of the proof, ascending."""
    folded: tuple[int, ...]
    starts: Mapping[int, int]
    pieces: frozenset[int]
    spoken: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Range -> those of the pieces that speak of it, ascending: of the folded ranges, and of the
    one before the first.
    """

    @property
    def begins(self) -> tuple[int, ...]:
        """Ranges that are folded from a kept state."""
        return tuple(sorted({start for start in self.starts.values() if start > 0}))

    @property
    def believed(self) -> frozenset[int]:
        """Those of which the range before is not folded: what was published of that state is
        compared.
        """
        return frozenset(start for start in self.begins if start - 1 not in self.starts)

    @property
    def boundary(self) -> int | None:
        """The first range, when nothing below it is looked at: its state is compared with what was
        published.
        """
        return self.wanted[0] if self.wanted[0] > 0 else None


def plan(
    landed: Landed, asked: Asked, said: Mapping[int, Said], distrusted: Collection[int] = ()
) -> Plan:
    """What to fold. `said` tells of the pieces that are not known; the states behind `distrusted`
    ranges do not count.
    """
    size = landed.size
    proven = {n for topic, n in landed.kept if topic == COMMANDS_TOPIC} - set(distrusted)
    stated = proven | (landed.left - set(distrusted))
    first = asked.first // size
    while first > 0 and first - 1 not in proven:
        first -= 1
    wanted = tuple(range(first, asked.last // size + 1))
    spoken = {
        r
        for piece in landed.unknown_pieces
        for r in (*landed.ranges_of(piece), *(said[piece].ranges if piece in said else ()))
    }
    dirty = {
        r
        for r in wanted
        if asked.everything or r in spoken or r in distrusted or not landed.same(COMMANDS_TOPIC, r)
    }
    starts: dict[int, int] = {}
    for r in sorted(dirty):
        starts[r] = starts[r - 1] if r - 1 in starts and r - 1 not in stated else r
    # What was published of a state that is believed is held against it.
    near = dirty | {start - 1 for start in starts.values() if start > 0}
    near |= {first - 1} if first > 0 else set()
    spoken_of: dict[int, list[int]] = {}
    pieces = set()
    unknown = landed.unknown_pieces
    for p in range(landed.outcome_pieces):
        about = (said[p].ranges if p in said else ()) if p in unknown else landed.ranges_of(p)
        mine = near.intersection(about)
        if p in unknown or mine:
            pieces.add(p)
        for r in mine:
            spoken_of.setdefault(r, []).append(p)
    spoken_by = {r: tuple(found) for r, found in spoken_of.items()}
    return Plan(asked, wanted, tuple(sorted(dirty)), starts, frozenset(pieces), spoken_by)


def misbegun(landed: Landed, made: Plan, told: Mapping[int, RangeTold]) -> set[int]:
    """Ranges whose state was kept and is not the one that history gives, or cannot be read.

    Where history itself is wrong below, nothing can be said of the states above.
    """
    found: set[int] = set()
    for r in made.begins:
        before = told.get(r - 1) if r - 1 in made.starts else None
        if r - 1 in made.starts and (
            before is None or not before.after or before.first_mismatch is not None
        ):
            break
        one = told.get(r)
        if one is None:
            found.add(r - 1)
        elif before is not None:
            # Whoever kept the state: the fold below ended in it, or did not.
            found |= {r - 1} if one.before != before.after else set()
        elif one.begun != landed.kept[COMMANDS_TOPIC, r - 1].after:
            found.add(r - 1)
    return found


@dataclass
class _Chain:
    """How far the ranges hold together, from the first on."""

    verified: int = -1
    digest: str | None = None
    unsaid: int = 0
    whole: bool = True
    proven: set[int] = field(default_factory=set)


def verdict(
    landed: Landed,
    made: Plan,
    told: Mapping[int, RangeTold],
    *,
    missing: Iterable[tuple[int, int]] = (),
) -> Verdict:
    """What all of it proves."""
    chain = chained(landed, made, told)
    folded = [told[r] for r in made.folded if r in told]
    wrong = [one.first_mismatch for one in folded if one.first_mismatch is not None]
    problems = [f"offset {offset}: {text}" for one in folded for offset, text in one.problems]
    return Verdict(
        verified_up_to=chain.verified,
        digest=chain.digest,
        commands=sum(one.commands for one in folded),
        compared=sum(one.compared for one in folded),
        unproven=chain.unsaid,
        from_offset=made.wanted[0] * landed.size,
        same_as_proven=(len(made.wanted) - len(made.folded)) * landed.size,
        ranges=max(1, len(set(made.starts.values()))),
        first_mismatch=min(wrong, default=None),
        mismatches=sum(one.mismatches for one in folded),
        publishers=sorted({name for one in folded for name in one.publishers}),
        unreadable=sum(one.unreadable for one in folded),
        missing=[[first, last] for first, last in missing],
        problems=problems[:PROBLEMS_SHOWN_MAX],
    )


def chained(landed: Landed, made: Plan, told: Mapping[int, RangeTold]) -> _Chain:
    """Go along the ranges as long as each begins where the one before ended."""
    chain = _Chain()
    for r in made.wanted:
        if r not in made.starts:
            if chain.whole:
                chain.verified, chain.digest, chain.unsaid = (
                    (r + 1) * landed.size - 1,
                    landed.kept[COMMANDS_TOPIC, r].digest,
                    0,
                )
                chain.proven.add(r)
            continue
        one = told.get(r)
        if one is None:
            chain.whole = False
            continue
        if chain.whole and one.proven >= 0:
            chain.verified, chain.digest, chain.unsaid = one.proven, one.digest, one.unsaid_after
        else:
            chain.unsaid += one.unsaid
        chain.whole = chain.whole and bool(one.after) and one.first_mismatch is None
        if chain.whole and one.is_sound:
            chain.proven.add(r)
    return chain


def to_keep(
    landed: Landed,
    made: Plan,
    told: Mapping[int, RangeTold],
    said: Mapping[int, Said],
    states: Mapping[int, str],
    found: Collection[tuple[str, int]] = (),
) -> list[Piece]:
    """What was proven now and is not kept yet, or was kept otherwise; without the pieces (topic,
    number) that something was `found` wrong with. `states` names those that are kept behind ranges.
    """
    pieces: list[Piece] = []
    proven = chained(landed, made, told).proven
    for r in sorted(proven & set(made.starts)):
        one, name = told[r], landed.names.get((COMMANDS_TOPIC, r))
        if name is not None and r in states:
            pieces.append(Piece(COMMANDS_TOPIC, r, name, one.before, states[r], one.digest or ""))
    known = proven | {
        n for topic, n in landed.kept if topic == COMMANDS_TOPIC and landed.same(topic, n)
    }
    for number, what in sorted(said.items()):
        name = landed.names.get((OUTCOMES_TOPIC, number))
        if name is not None and not what.problems and what.ranges <= known:
            pieces.append(
                Piece(OUTCOMES_TOPIC, number, name, lowest=what.lowest, highest=what.highest)
            )
    return [
        piece
        for piece in pieces
        if (piece.topic, piece.number) not in found
        and landed.kept.get((piece.topic, piece.number)) != piece
    ]
