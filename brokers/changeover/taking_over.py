"""What the first master behind a changeover takes over before it leads (PROTOCOL 7.8).

Nobody leads a set from the moment on when its master gives up until the first election behind it.
Where that takes long, for the master died meanwhile, slaves with fixed ids act for it: they deliver
what is due, and consumers commit there. Who led then by the places of before would do all of it
once more. A release that was cut off leaves such slaves, too.

Responsible for: whether a mastership is the first one, what another replica is asked for, how long
it is waited for. Refuses to know: how one is asked, which places are taken
(`brokers/acting/reverse_sync`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from brokers.changeover.giving_up import Standing
from brokers.changeover.order import Kind, Order, Record

BRIEF_MS = 1_000
"""For one that most likely did nothing: writes wait meanwhile, and clients try for 3 s."""
WAIT_MS = 60_000
"""For one that may have acted, as a master with a fixed id waits for a member (7.3)."""


class Wanted(Enum):
    """What another replica is asked for."""

    NOTHING = "it did nothing since the master gave up"
    PLACES = "its places"
    HELD_PLACES = "to deliver nothing more, then its places"


def is_first(record: Record | None, epochs: Iterable[tuple[int, int]], log_end: int) -> bool:
    """Whether a master leads first behind the adoption of a set whose slaves acted. `epochs`:
    pairs of epoch and start of its log, its own mastership among them. A byte above the adoption's
    label was written by a master that had taken everything over.
    """
    if record is None or not record.acts or record.order.kind is not Kind.CONTROLLERS:
        return False
    return all(start >= log_end for epoch, start in epochs if epoch > record.order.epoch)


def wanted(seen: Standing, *, gave_up: bool = False) -> Wanted:
    """By what the replica says of itself. Slaves that do not act deliver nothing, and leave offsets
    to their master. `gave_up`: it was the master of before, whose tables all others have.
    """
    if seen.kind is Kind.FIXED:
        return Wanted.HELD_PLACES if seen.acts else Wanted.NOTHING
    return Wanted.NOTHING if seen.in_order or gave_up else Wanted.PLACES


def patience_ms(address: str, record: Record | None, cut_off: Iterable[Order]) -> int:
    """For how long a replica is waited for that does not answer. `cut_off`: the orders of a release
    that its master did not end. Who gave up has nothing that the others lack: they copied its
    tables while it held.
    """
    if any(one.address == address for one in cut_off):
        return WAIT_MS
    nobody_acted = record is None or record.in_order or address == record.order.leader
    return BRIEF_MS if nobody_acted else WAIT_MS
