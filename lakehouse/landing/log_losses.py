"""What the log no longer has and never landed: which of it may be noted as lost, and which stops
landing.

Broker events may be lost. Commands and outcomes are kept for ever: a gap in them is noted only
where an operator has named that very gap.
Responsible for the rule and its words. Refuses to write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from events.topics import COMMANDS_TOPIC, KEPT_FOR_EVER
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.tables.high_water import HighWater, Partition
from lakehouse.tables.losses import Loss, Losses
from lakehouse.tables.specs import ACCEPTED, RETENTION

FLAG = "--accept-loss"
_GAP = re.compile(r"([A-Za-z0-9._-]+)/(\d{1,9}):(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A stretch of a partition that is not in the log; offsets are both included."""

    topic: str
    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}:{self.first}-{self.last}"


def gap_of(text: str) -> Gap:
    """`regent.commands/0:50-99` as a gap. Raises ValueError."""
    found = _GAP.fullmatch(text)
    if found is None or int(found[3]) > int(found[4]):
        raise ValueError(
            f"{text!r} names no gap: write TOPIC/PARTITION:FROM-TO, both offsets included, for "
            f"example {COMMANDS_TOPIC}/0:50-99"
        )
    return Gap(found[1], *map(int, found.groups()[1:]))


def to_note(
    begins: Mapping[Partition, int],
    landed: HighWater,
    noted: Losses,
    accepted: Collection[Gap],
    now_ms: int,
) -> list[Loss]:
    """The losses that are not noted yet: what lies behind the last landed record and before the
    first one that the log still holds (`begins`).

    Raises `LandingGap` for a gap that nobody may note, `LakehouseError` for an accepted one that is
    not there.
    """
    gaps = list(_gaps(begins, landed, noted))
    refused = [one for one in gaps if one.topic in KEPT_FOR_EVER and one not in accepted]
    there = {Gap(*one.place, one.from_offset, one.to_offset) for one in noted.noted}
    strange = sorted({*accepted} - {*gaps} - there)
    if refused:
        other = f"; {FLAG} {', '.join(map(str, strange))} is another gap" if strange else ""
        raise LandingGap("; ".join(map(_sentence, refused)) + other)
    if strange:
        raise LakehouseError(
            f"{FLAG} {', '.join(map(str, strange))}: the log has no such gap, and nothing was "
            "noted: start without the flag, a gap is then named as it is"
        )
    return [
        Loss(
            one.topic,
            one.partition,
            one.first,
            one.last,
            ACCEPTED if one.topic in KEPT_FOR_EVER else RETENTION,
            now_ms,
        )
        for one in gaps
    ]


def _gaps(begins: Mapping[Partition, int], landed: HighWater, noted: Losses) -> Iterator[Gap]:
    for place, begin in sorted(begins.items()):
        for first, last in noted.left_of(place, landed.of(place) + 1, begin - 1):
            yield Gap(*place, first, last)


def _sentence(gap: Gap) -> str:
    after = (
        f"gold, answers and proofs end before command {gap.first}"
        if gap.topic == COMMANDS_TOPIC
        else "what was published of their commands stays unknown"
    )
    return (
        f"{gap.topic}-{gap.partition}: records {gap.first} to {gap.last} have not landed and the "
        "log no longer has them: make the topic anew from what landed ('regent controller rebuild "
        f"--from-delta TABLES'), or go on without them ('regent land … {FLAG} {gap}'): then {after}"
    )
