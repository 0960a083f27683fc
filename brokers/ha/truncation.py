"""Where two logs stop being the same log.

Responsible for: the one offset up to which a slave may keep its bytes (broker-wire-and-storage.md
2.6).
Refuses to know: files, links, alignment of records. The place where data is lost if it is wrong, so
it is one pure function with a dumb byte-level search beside it in the tests.
"""

from __future__ import annotations

from brokers.ha.epochs import OFFSET_MAX, EpochHistory


def begins_later(local: EpochHistory, master: EpochHistory) -> bool:
    """Whether the master's history, cut off at the front with deleted files, begins with an epoch
    that is newer than all that is known here. It forgot older epochs only with all of their bytes,
    so none of the bytes here are in its log any more.
    """
    return bool(local) and bool(master) and local.newest_epoch < master.entries[0].epoch


def consistent_offset(
    local: EpochHistory, local_end: int, master: EpochHistory, master_end: int
) -> int | None:
    """Offset below which the local log equals the master's; None when only an operator can tell.

    Ends are physical offsets (exclusive). The newest epoch that both histories begin at the same
    offset decides: both were written by that one master, so they agree up to the shorter end of it.
    - A local log without history proves nothing about its bytes: 0 (copy everything again).
      Java keeps such bytes and may mix two logs; ours does not.
    - No common epoch, but both histories begin at one offset: they differ from their first byte on.
      Java gives up for ever here; with superseded empty epochs (design S13) this is an ordinary
      case.
    """
    if not local:
        return 0
    if not master:
        return None
    open_end = master_end if master_end >= master.newest_start else OFFSET_MAX
    for entry in reversed(local.entries):
        if master.entry(entry.epoch) == entry:
            ends = local.end_of(entry.epoch, local_end), master.end_of(entry.epoch, open_end)
            return min(*ends, local_end)
    first = local.entries[0].start_offset
    return min(first, local_end) if first == master.entries[0].start_offset else None
