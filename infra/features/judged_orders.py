"""Whether what orderly consumers were handed is what order promises (PROTOCOL 4.8): each queue in
turn, each message once, but for what was handed out again because somebody was hit between.

Pure. Refuses to know: how queues are locked and read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from infra.features.counts import Blow, Counts, Sent, before_blow


class Handed(NamedTuple):
    """A message in the hands of a consumer. `queue`: the set and its number, `at_ms`: of the wall
    clock, `by`: the broker that gave it.
    """

    queue: tuple[str, int]
    offset: int
    number: int
    at_ms: int
    by: str


def judge_orders(
    counts: Counts, sent: Mapping[int, Sent], handed: Sequence[Handed], blows: Sequence[Blow]
) -> None:
    """`handed`: in the order in which consumers got them. A message that was sent by several calls
    may stand in its queue as often.
    """
    counts.good = sum(one.is_good for one in sent.values())
    got = {one.number for one in handed}
    counts.lost = sorted(
        number for number, one in sent.items() if one.is_good and number not in got
    )
    counts.wrong += [f"nobody sent {number}" for number in sorted(got - sent.keys())]
    queues: dict[tuple[str, int], list[Handed]] = defaultdict(list)
    for one in handed:
        if one.number in sent:
            queues[one.queue].append(one)
    for found in queues.values():
        _judge_queue(counts, sent, found, blows)


def _judge_queue(
    counts: Counts, sent: Mapping[int, Sent], found: Sequence[Handed], blows: Sequence[Blow]
) -> None:
    first: dict[int, Handed] = {}
    numbers: dict[int, int] = {}
    newest = -1
    for one in found:
        if one.offset in first:
            _judge_again(counts, first[one.offset], one, blows)
            continue
        first[one.offset] = one
        counts.late_ms.append(max(0, one.at_ms - sent[one.number].begun_ms))
        numbers[one.number] = numbers.get(one.number, 0) + 1
        if numbers[one.number] > max(1, sent[one.number].calls):
            counts.wrong.append(f"{one.number} stands in its queue {numbers[one.number]} times")
        elif numbers[one.number] == 1 and one.number < newest:
            counts.wrong.append(f"{one.number} was handed out behind {newest}")
        newest = max(newest, one.number)


def _judge_again(counts: Counts, before: Handed, now: Handed, blows: Sequence[Blow]) -> None:
    if before.number != now.number:
        counts.wrong.append(f"one place had {before.number}, and then {now.number}")
        return
    gap_ms = before_blow(before.at_ms, now.at_ms, blows)
    if gap_ms is None:
        counts.unhit.append(now.number)
        counts.wrong.append(f"{now.number} was handed out twice, and nobody was hit between")
    else:
        counts.twice_ms.append(gap_ms)
