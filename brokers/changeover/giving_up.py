"""When the master of a set may give up its place: nothing is under way, and every other replica has
every byte and every table.

Responsible for: what keeps it from that, the order in which replicas change over, whom a replica
must have heard before it does. Refuses to know: sockets, clocks, how writes are held.

Adopting: the master gives up on its own disk first. Then no process of the set leads, and the
others may become what controllers elect. Releasing: the others leave the controllers first, while
the master holds writes: as fixed slaves they lead in neither way. Then only the master can lead,
and it does so with id 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from brokers.changeover.order import Kind, Order


@dataclass(frozen=True, slots=True)
class Quiet:
    """One look at a master that holds writes. `acked`: ends that linked replicas reported, -1 for
    none yet; `others`: how many replicas there have to be; `confirmed`: below it everything is
    acknowledged; `unfinished`: sends and changes of topics that are not answered.
    """

    log_end: int
    confirmed: int
    acked: Collection[int]
    others: int
    unfinished: int

    @property
    def hindrance(self) -> str | None:
        """Why it must not give up yet; None when it may."""
        if self.unfinished:
            return f"{self.unfinished} requests are under way"
        linked = sum(end >= 0 for end in self.acked)
        if linked > self.others:
            return f"{linked} replicas are linked, the orders name {self.others} of them"
        whole = sum(end >= self.log_end for end in self.acked)
        if whole < self.others:
            return f"{whole} of {self.others} other replicas have everything"
        if self.confirmed < self.log_end:
            return f"{self.log_end - self.confirmed} bytes are not acknowledged"
        return None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a broker says of itself. `kind`: of its place now; `change`: by which changeover it came
    to it, empty for none; `holds_for`: the changeover for which it holds writes, empty for none;
    `log_end`: of its own log; `acts`: slaves of its set act for a master that is away; `in_order`:
    nobody had acted when it came to its place, as far as it knows.
    """

    kind: Kind
    serving: bool
    change: str
    holds_for: str
    log_end: int = 0
    acts: bool = False
    in_order: bool = False


def lack(log_end: int, others: Mapping[str, Standing]) -> str | None:
    """Who has less than a log that ends there, by what each says itself: a link of the default
    stream does not say whose it is. None when nobody has.
    """
    behind = [address for address, one in others.items() if one.log_end < log_end]
    return f"less than {log_end} bytes: {', '.join(behind)}" if behind else None


def leader_allows(order: Order, leader: Standing) -> str | None:
    """Why another replica must not follow its order yet, by what the leader says; None when it
    may.
    """
    if order.kind is Kind.CONTROLLERS:
        if leader.kind is Kind.CONTROLLERS and leader.change == order.change:
            return None
        return f"{order.leader} has not given up its place for this changeover"
    gone = leader.kind is Kind.FIXED and leader.change == order.change
    if gone or leader.holds_for == order.change:
        return None
    return f"{order.leader} does not hold its writes for this changeover"


def refusal(order: Order, own: Standing) -> str | None:
    """Why the order cannot be this broker's; None when it can, also where it is followed already.
    `own.serving`: it leads.
    """
    if not own.serving:
        return None
    if own.kind is not order.kind:
        return "it leads its set: only who follows changes over by an order of another"
    if own.change != order.change:
        return "it leads in that place already, by another changeover"
    return None
