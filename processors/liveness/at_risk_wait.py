"""How long elections at risk have waited for former members that do not come back (setting
atRiskWaitMs).

Responsible for since when each of them has been missing, as one leader saw it. Refuses to know how
long is long enough (the fold compares), and what time it is (`now_ms` is an argument, monotonic).
"""

from collections.abc import Sequence

from events.envelope import ReplicaEvidence
from processors.fold.candidates import assess, awaited_of, nobody_comes_back
from processors.fold.state import BrokerSet


class AtRiskWaits:
    """Of one leader: whoever leads next begins to wait anew. One entry for each set that waits."""

    def __init__(self) -> None:
        self._since: dict[str, dict[int, int]] = {}

    def waited_ms(
        self, broker_set: BrokerSet, evidence: Sequence[ReplicaEvidence], now_ms: int
    ) -> int | None:
        """Return how long the set has waited for the one that went missing last; None when it waits
        for nobody.
        """
        candidates = assess(broker_set, evidence)
        missing: list[int] = []
        if nobody_comes_back(broker_set, candidates, remembers=True):
            awaited = awaited_of(broker_set, candidates, remembers=True)
            missing = [c.broker_id for c in candidates if c.broker_id in awaited and not c.is_alive]
        if not missing:
            self.forget(broker_set.broker_name)
            return None
        before = self._since.get(broker_set.broker_name, {})
        since = self._since[broker_set.broker_name] = {i: before.get(i, now_ms) for i in missing}
        return now_ms - max(since.values())

    def forget(self, broker_name: str) -> None:
        """The set has a master, or waits for nobody."""
        self._since.pop(broker_name, None)
