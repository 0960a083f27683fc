"""Whether what consumers popped is what pops promise (PROTOCOL 4.9): all comes, what was not
acknowledged does not come back before its time, what was acknowledged stays away.

Pure. Refuses to know how pops are asked for.

A master that dies takes along the groups' places that its members had not copied: what was popped
just before is handed out again, from the queue itself, and counts as twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.features.counts import Blow, Counts, Sent, before_blow

# An acknowledgement is in time when its answer came so long before the message may be seen again.
IN_TIME_MS = 100


@dataclass(slots=True)
class Given:
    """A message in the hands of a consumer. `is_back`: from the retry topic. `pop_ms`,
    `visible_ms`: the broker's times; `given_by`: its set. `is_asked`: an acknowledgement was sent;
    `answered_ms`: when a good answer to it came.
    """

    is_back: bool
    pop_ms: int
    visible_ms: int
    is_asked: bool = False
    answered_ms: int | None = None
    given_by: str = ""

    @property
    def is_done(self) -> bool:
        """It was acknowledged in time: it must not come back."""
        return self.answered_ms is not None and self.answered_ms < self.visible_ms - IN_TIME_MS


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A pop whose answer never came, from its call until it was given up: it may have had any
    message.
    """

    begun_ms: int
    ended_ms: int
    invisible_ms: int

    def due_ms(self, sent_ms: int) -> int | None:
        """When a message that was sent then would come back; None: it came later than this pop."""
        if self.ended_ms < sent_ms:
            return None
        return max(self.begun_ms, sent_ms) + self.invisible_ms


def judge_pops(
    counts: Counts,
    sent: Mapping[int, Sent],
    given: Mapping[int, Sequence[Given]],
    unanswered: Sequence[Unanswered],
    blows: Sequence[Blow],
) -> None:
    """A message sent by several calls may be there as often, and counts for nothing but loss. One
    whose acknowledgement got no answer in time may come back, and may stay away.
    """
    counts.good = sum(one.is_good for one in sent.values())
    for number, one in sent.items():
        times = sorted(given.get(number, ()), key=lambda each: each.pop_ms)
        if one.is_good and not any(each.is_asked for each in times):
            counts.lost.append(number)
        if one.calls > 1:
            continue
        unknown = [due for each in unanswered if (due := each.due_ms(one.begun_ms)) is not None]
        for place in range(1, len(times)):
            _judge_again(counts, number, times[: place + 1], unknown, blows)
    counts.wrong += [f"nobody sent {number}" for number in given if number not in sent]
    every = [each for times in given.values() for each in times]
    late = sum(each.is_asked and not each.is_done for each in every)
    counts.note = f"{len(every)} handed out, {late} acknowledgements without an answer in time"


def _judge_again(
    counts: Counts,
    number: int,
    times: Sequence[Given],
    unknown: Sequence[int],
    blows: Sequence[Blow],
) -> None:
    """The last one of them. `unknown`: the times of pops that may have had it, too."""
    *before, now = times
    left = [one.visible_ms for one in before if not one.is_done]
    if now.is_back and sum(one.is_back for one in times) <= len(left):
        due_ms = min(left)
        if now.pop_ms < min([due_ms, *unknown]):
            counts.early[number] = due_ms - now.pop_ms
        counts.late_ms.append(max(0, now.pop_ms - due_ms))
        return
    # what was done twice: handed out from the queue, or copied to the retry topic
    same = [one for one in before if one.is_back == now.is_back] or before
    gaps = (before_blow(one[0].pop_ms, now.pop_ms, blows) for one in (same, before))
    gap_ms = next((gap for gap in gaps if gap is not None), None)
    if gap_ms is not None:
        counts.twice_ms.append(gap_ms)
    elif not any(due_ms <= now.pop_ms for due_ms in unknown):
        counts.unhit.append(number)
        counts.wrong.append(f"{number} was acknowledged in time, comes again, nobody was hit")
