"""What the slaves of one mastership acknowledged, and who comes back with less (design S15).

Responsible for: the highest offset each replica acknowledged to this master, which of them are in
doubt, and what is told of a loss. Refuses to know: links, the SyncStateSet, how a log is read.

A link begins with the slave's end of log (its first acknowledgement, behind its cut): Regent's and
Java's alike. A tail of another epoch is cut before that, and no byte of it was acknowledged to this
master. But a slave that starts anew also cuts a record of which it had only the first bytes, so an
offset below the bound is a doubt, and a whole record between the two is the proof.
"""

from __future__ import annotations

from brokers.replica.effects import Effect, FindRecord, ReportEvent

REPLICAS_MAX = 1_024
WHY_CONFIRMED = "below_the_confirm_offset"
WHY_ACKNOWLEDGED = "below_its_acknowledgement"


class LossWatch:
    """Offsets are physical, in bytes. Lives as long as the mastership. An acknowledgement from one
    `host` does not bind links from another host: a stranger must not make a replica look like one
    that lost data.
    """

    def __init__(self) -> None:
        self._acked: dict[tuple[int, str], int] = {}
        self.in_doubt: dict[int, tuple[int, str, str]] = {}
        """Replicas whose acknowledgements count for nothing until `settled`: below which bound, why
        it is one, and their host.
        """

    def link_ended(self, broker_id: int, acked: int | None, host: str = "") -> None:
        """The last word of its link."""
        key = (broker_id, host)
        if acked is None or (key not in self._acked and len(self._acked) >= REPLICAS_MAX):
            return
        self._acked[key] = max(acked, self._acked.get(key, 0))

    def claims(
        self, broker_id: int, offset: int, confirmed: int, log_min: int, host: str = ""
    ) -> list[Effect]:
        """The log of a slave that links ends at `offset`. `confirmed`: it held everything below as
        a member; 0: it is none. Below `log_min` no replica has to hold anything: one that fell
        behind it has emptied its log.
        """
        acked = self._acked.get((broker_id, host), 0)
        bound, why = (confirmed, WHY_CONFIRMED) if confirmed >= acked else (acked, WHY_ACKNOWLEDGED)
        self.in_doubt.pop(broker_id, None)
        if offset >= bound or bound <= log_min:
            return []
        self.in_doubt[broker_id] = (bound, why, host)
        return [FindRecord(broker_id, offset, bound)]

    def settled(self, broker_id: int, offset: int, found: bool, epoch: int) -> list[Effect]:
        """The answer to FindRecord; empty when nothing is lost. `epoch`: of the last byte below
        `offset`, -1 without one.
        """
        bound, why, host = self.in_doubt.pop(broker_id, (0, "", ""))
        if not found or offset >= bound:
            return []
        # from now on it copies anew; the next loss is reported again
        self._acked[broker_id, host] = offset
        fields = {
            "lost_broker_id": broker_id,
            "claimed_epoch": epoch,
            "claimed_offset": offset,
            "acknowledged_offset": bound,
            "why": why,
        }
        return [ReportEvent("LossNoticed", fields)]
