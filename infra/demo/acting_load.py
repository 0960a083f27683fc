"""What is under way in the demo of sets without controllers: five applications, each with one
feature.

Refuses to know who is hit.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.features.counts import Blow, Counts
from infra.features.orders import Orders
from infra.features.pops import Pops
from infra.features.transactions import Transactions
from infra.features.use import FeatureUse
from infra.features.waiting import Delayed, Timed

RATE_PER_S = 15.0
ASKED_AFTER_MS, ASKED_EVERY_MS = 2_000, 2_000
"""Halves are asked about when they are so old, so often: soon enough for a demo."""
TOPIC = "regent-demo"


class ActingLoad:
    """All of them in one process, each in a thread of its own."""

    def __init__(self, name_servers: Sequence[str]) -> None:
        def use(kind: type[FeatureUse]) -> FeatureUse:
            return kind(name_servers, f"{TOPIC}-{kind.what}", rate=RATE_PER_S)

        self.orders = Orders(name_servers, f"{TOPIC}-{Orders.what}", rate=RATE_PER_S)
        self.waiting = (use(Delayed), use(Timed), use(Transactions), use(Pops))
        """Those of which something is due later, and leaves a set whose master is away."""

    @property
    def uses(self) -> tuple[FeatureUse, ...]:
        return self.orders, *self.waiting

    def start(self) -> None:
        for use in self.uses:
            use.start()

    def progress(self) -> dict[str, int]:
        """How much of each is acknowledged. Problem when one has ended."""
        for use in self.uses:
            use.check()
        return {use.what: use.good for use in self.uses}

    def has_grown(self, since: dict[str, int], by: int) -> bool:
        """So much more of each is acknowledged than `progress` said once."""
        return all(count >= since[what] + by for what, count in self.progress().items())

    def finish(self, blows: Sequence[Blow]) -> list[Counts]:
        """Nothing more is sent; what became of everything, once all that is to come is there."""
        for use in self.uses:
            use.stop()
        return [use.finish(_seen_by(use, blows)) for use in self.uses]

    def end(self) -> None:
        """The hard end."""
        for use in self.uses:
            use.end()


def _seen_by(use: FeatureUse, blows: Sequence[Blow]) -> list[Blow]:
    """What two brokers did at a change shows when it shows: a half that left twice is seen twice
    only when its producer has been asked.
    """
    if not isinstance(use, Transactions):
        return list(blows)
    later_ms = ASKED_AFTER_MS + 2 * ASKED_EVERY_MS
    return [one._replace(settled_ms=max(one[:3]) + later_ms) for one in blows]
