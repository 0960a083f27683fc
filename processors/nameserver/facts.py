"""What a name server tells history of sets whose slaves may act for their master: who is there, who
has the smallest id, who stands in the routes (PROTOCOL 4.20).

Responsible for: the facts that follow from what happened to the table, in order. Refuses to know:
sockets, clocks (times are arguments, ms of a steady clock), who takes the facts.

Sets of another kind are left out: what becomes of them, controllers say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from processors.nameserver.departures import Why
from processors.nameserver.effects import Effect, MembersSeen, MinIdChanged
from processors.nameserver.records import MASTER_ID, LiveBroker

OTHERWISE = "it registered otherwise"
Departed = Iterable[tuple[LiveBroker, Why]]


@dataclass(frozen=True, slots=True)
class Fact:
    """One broker event without its header: `kind`, and its own fields."""

    cluster_name: str
    broker_name: str
    kind: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Route:
    broker_id: int
    address: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class _Gone:
    """Why a broker left, and for how long it had not been heard then."""

    why: str
    silent_ms: int


_ELSEWHERE = _Gone(OTHERWISE, 0)


class SetFacts:
    """`name_server`: its address. It remembers the sets that are there, each as it was told
    last.
    """

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server
        self._seen: dict[str, MembersSeen] = {}
        self._routes: dict[str, _Route] = {}

    def after(
        self,
        effects: Iterable[Effect],
        left: Departed,
        now_ms: int,
        *,
        shows_acting: bool,
        notifies: bool,
    ) -> list[Fact]:
        """What these changes come to. `left`: brokers that left with them, and why. `shows_acting`:
        routes show acting masters; `notifies`: members are sent notices.
        """
        facts: list[Fact] = []
        gone = {
            (one.broker_name, one.broker_id, one.address): _Gone(
                why.value, max(0, now_ms - one.last_heard_ms)
            )
            for one, why in left
        }
        for effect in effects:
            if isinstance(effect, MinIdChanged):
                facts += self._min_id(effect, notifies)
            else:
                facts += self._members(effect, gone)
                facts += self._route(effect, now_ms, shows_acting)
        return facts

    def shown(self, now_ms: int, *, shows_acting: bool) -> list[Fact]:
        """Whether acting masters are shown may have changed."""
        if not shows_acting and not self._routes:
            return []
        return [
            fact
            for seen in list(self._seen.values())
            for fact in self._route(seen, now_ms, shows_acting)
        ]

    def _members(self, seen: MembersSeen, gone: Mapping[tuple[str, int, str], _Gone]) -> list[Fact]:
        before = self._seen.get(seen.broker_name)
        if before is None and not seen.acting_master:
            return []
        if seen.members and seen.acting_master:
            self._seen[seen.broker_name] = seen
        else:
            self._seen.pop(seen.broker_name, None)
        was = {} if before is None else before.members
        left = [one for one, address in sorted(was.items()) if seen.members.get(one) != address]
        departed = [gone.get((seen.broker_name, one, was[one]), _ELSEWHERE) for one in left]
        fields = {
            "name_server": self._name_server,
            "acting_master": seen.acting_master,
            "broker_ids": tuple(sorted(seen.members)),
            "addresses": tuple(seen.members[one] for one in sorted(seen.members)),
            "left_ids": tuple(left),
            "left_why": tuple(one.why for one in departed),
            "left_silent_ms": tuple(one.silent_ms for one in departed),
        }
        return [Fact(seen.cluster_name, seen.broker_name, "MemberGroupSeen", fields)]

    def _min_id(self, changed: MinIdChanged, notifies: bool) -> list[Fact]:
        if changed.broker_name not in self._seen:
            return []
        fields = {
            "name_server": self._name_server,
            "min_broker_id": changed.min_id,
            "min_address": changed.min_address,
            "offline_address": changed.offline_address or "",
            "told": len(changed.receivers) if notifies else 0,
        }
        return [Fact(changed.cluster_name, changed.broker_name, "NameServerMinIdChanged", fields)]

    def _route(self, seen: MembersSeen, now_ms: int, shows_acting: bool) -> list[Fact]:
        acts = bool(seen.members) and seen.acting_master and MASTER_ID not in seen.members
        wanted = (min(seen.members), seen.members[min(seen.members)]) if acts else None
        if not shows_acting:
            wanted = None
        given = self._routes.get(seen.broker_name)
        if (given and (given.broker_id, given.address)) == wanted:
            return []
        facts: list[Fact] = []
        if given is not None:
            del self._routes[seen.broker_name]
            fields = {
                "name_server": self._name_server,
                "acting_broker_id": given.broker_id,
                "acting_address": given.address,
                "reason": _why_withdrawn(seen, shows_acting),
                "given_for_ms": max(0, now_ms - given.since_ms),
            }
            facts.append(Fact(seen.cluster_name, seen.broker_name, "ActingRouteWithdrawn", fields))
        if wanted is not None:
            self._routes[seen.broker_name] = _Route(*wanted, now_ms)
            fields = {
                "name_server": self._name_server,
                "acting_broker_id": wanted[0],
                "acting_address": wanted[1],
            }
            facts.append(Fact(seen.cluster_name, seen.broker_name, "ActingRouteGiven", fields))
        return facts


def _why_withdrawn(seen: MembersSeen, shows_acting: bool) -> str:
    if not seen.members:
        return "nobody of the set is left"
    if MASTER_ID in seen.members:
        return "a master registered"
    if not seen.acting_master:
        return "the set wants no slave in the place of its master"
    if not shows_acting:
        return "this name server shows none any more (supportActingMaster)"
    return f"broker {min(seen.members)} has the smallest id now"
