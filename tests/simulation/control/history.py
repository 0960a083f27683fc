"""What a scripted replica holds: who wrote which bytes, as (epoch, end) pairs. Pure.

An epoch has one master, so epoch and offset name a byte. Refuses to know who acknowledged what.
"""

from __future__ import annotations

from typing import TypeAlias

History: TypeAlias = tuple[tuple[int, int], ...]
"""Epochs ascending, each with the offset at which its bytes end."""


def end_of(history: History) -> int:
    return history[-1][1] if history else 0


def epoch_of(history: History) -> int:
    return history[-1][0] if history else 0


def up_to(history: History, offset: int) -> History:
    """The first `offset` bytes."""
    kept: list[tuple[int, int]] = []
    begin = 0
    for epoch, end in history:
        if begin >= offset:
            break
        kept.append((epoch, min(end, offset)))
        begin = end
    return tuple(kept)


def grown(history: History, epoch: int, count: int) -> History:
    """With `count` more bytes of that epoch."""
    end = end_of(history) + count
    return (
        (*history[:-1], (epoch, end))
        if history and history[-1][0] == epoch
        else (*history, (epoch, end))
    )


def shared(one: History, other: History) -> int:
    """Up to where both hold the same bytes."""
    for (epoch, end), (other_epoch, other_end) in zip(one, other, strict=False):
        if epoch != other_epoch:
            break
        if end != other_end:
            return min(end, other_end)
    else:
        return min(end_of(one), end_of(other))
    begin = 0
    for (epoch, end), (other_epoch, _) in zip(one, other, strict=False):
        if epoch != other_epoch:
            return begin
        begin = end
    return begin
