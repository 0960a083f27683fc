"""Messages that are due leave a set that has no master (PROTOCOL 7.4).

Responsible for: what is on its way and how much of it may be, which is tried again and when, up to
which place of a source everything is done. Refuses to know: where messages come from, sockets, what
becomes of a place.

Nothing is given up. A message that is not taken is tried again, by and by less often, for ever; the
place of its source stays in front of it, and those behind it go on meanwhile. What a source has
done behind a message that is stuck is done twice if the process ends then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from brokers.acting import effects as fx
from brokers.acting.backoff import Backoff
from brokers.acting.counted import EscapeBatches
from brokers.acting.forms import Kind, is_fixed
from brokers.acting.outcomes import Put, is_done, put_of
from brokers.acting.targets import Route, Target, fixed_target, next_target
from brokers.store.log.records import MessageFields

# Messages of one source, and of all, that are on their way or wait to be tried again.
PER_SOURCE_MAX, IN_HAND_MAX = 64, 1_024
IN_HAND_BYTES_MAX = 64 * 1_048_576
IN_FLIGHT_MAX = 64
# Places of one source that are done behind one that is not.
UNSAFE_MAX = 8_192
ROUTES_MAX = 4_096
ROUTE_REFRESH_MS = 30_000
ROUTE_AGAIN_MS = 1_000
AVOID_MS = 5_000
SAYS_EVERY_MS = 60_000
AGAIN = Backoff(200, 60_000)

NO_ESCAPE = "remote escape is off, and no master is in this process"
NO_ROUTE = "no name server tells the route"
_ASKED = "its route is asked for"
NO_MASTER = "no other set has a master that takes the topic"
REFUSED = "other masters do not take it"


@dataclass(slots=True)
class _Item:
    source: str
    place: int
    kind: Kind
    message: MessageFields
    failures: int = 0
    due_ms: int = 0
    token: int = 0
    target: Target | None = None
    why: str = ""
    failed: str = ""  # the last time; it stays while it is on its way again
    told: Callable[[bool], None] | None = None


@dataclass(slots=True)
class _Source:
    items: dict[int, _Item] = field(default_factory=dict)
    # Done, and something in front of them is not.
    behind: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Known:
    route: Route | None = None
    told_ms: int = 0
    asked_ms: int | None = None
    is_stale: bool = False
    is_untold: bool = False


class Escape:
    """`allowed`: enableSlaveActingMaster and enableRemoteEscape are on. `has_local_master()`: a
    master is in this process. `counts`: what came of puts, since the start. `holds`: nothing is
    taken or sent any more; answers still count. `own_host`: of this broker, as it stores it; by it
    all check points and acknowledgements that leave here go to one queue, also those that its
    master had noted.
    """

    def __init__(self, *, allowed: bool, has_local_master: Callable[[], bool]) -> None:
        self._allowed = allowed
        self._has_local_master = has_local_master
        self._sources: dict[str, _Source] = {}
        self._by_token: dict[int, _Item] = {}
        self._routes: dict[str, _Known] = {}
        self._avoided: dict[str, int] = {}
        self._token = self._turn = 0
        self._bytes = self._number = 0
        self._said_ms: int | None = None
        self.holds = False
        self.own_host: bytes | None = None
        self.counts: Counter[Put] = Counter()
        self.by_kind: Counter[Kind] = Counter()
        self._batches = EscapeBatches()

    # -- what goes in ------------------------------------------------------------------------------

    def has_room(self, source: str, size_bytes: int) -> bool:
        """Whether one more message of a source may be offered."""
        if self.holds:
            return False
        known = self._sources.get(source)
        if known is not None and (
            len(known.items) >= PER_SOURCE_MAX or len(known.behind) >= UNSAFE_MAX
        ):
            return False
        return self._number < IN_HAND_MAX and (
            not self._number or self._bytes + size_bytes <= IN_HAND_BYTES_MAX
        )

    def offer(
        self,
        source: str,
        place: int,
        kind: Kind,
        message: MessageFields,
        told: Callable[[bool], None] | None = None,
    ) -> bool:
        """The next message of a source, in the form in which it leaves. False: no room, so it is
        offered again later. Places of a source only grow. `told(taken)`, once, when it is done, or
        forgotten.
        """
        size = len(message.body) + len(message.properties)
        if not self.has_room(source, size):
            return False
        known = self._sources.setdefault(source, _Source())
        if place in known.items or place in known.behind:
            return True
        known.items[place] = _Item(source, place, kind, message, told=told)
        self._number += 1
        self._bytes += size
        return True

    def why(self, source: str) -> str:
        """Why the first message of a source is not done; empty: no answer came yet."""
        known = self._sources.get(source)
        if known is None:
            return ""
        first = next(iter(known.items.values()))
        return first.why or first.failed

    def withdraw(self, source: str) -> None:
        """Nobody needs what is left of a source any more; what is under way may be taken all the
        same.
        """
        known = self._sources.get(source)
        for item in list(known.items.values()) if known is not None else ():
            self._by_token.pop(item.token, None)
            self._leave(item)

    def passed(self, source: str, place: int) -> None:
        """Nothing leaves from this place: it counts as done."""
        known = self._sources.get(source)
        if known is not None and known.items and place not in known.items:
            known.behind.add(place)

    def safe(self, source: str, next_place: int) -> int:
        """Everything of the source in front of this place is done; it has been offered up to
        `next_place`.
        """
        known = self._sources.get(source)
        return min(known.items) if known is not None and known.items else next_place

    def hold(self) -> None:
        """The end of acting: what is under way is waited for."""
        self.holds = True

    def forget(self) -> None:
        """Somebody else acts from here on, from the safe places on."""
        told = [
            item.told
            for source in self._sources.values()
            for item in source.items.values()
            if item.told is not None
        ]
        self._sources.clear()
        self._by_token.clear()
        self._number = self._bytes = 0
        self._said_ms = None
        self.holds = False
        for tell in told:
            tell(False)

    @property
    def in_hand(self) -> int:
        return self._number

    @property
    def in_flight(self) -> int:
        return len(self._by_token)

    @property
    def waits_for(self) -> Counter[str]:
        """Why messages wait to be tried again, and how many."""
        return Counter(
            item.why
            for source in self._sources.values()
            for item in source.items.values()
            if item.why and item.why != _ASKED
        )

    # -- what goes out -----------------------------------------------------------------------------

    def tick(self, now_ms: int, chance: float) -> list[fx.Effect]:
        """What is to be sent now, source by source in turn; what is to be told now, also where
        nothing more may be sent.
        """
        batches = self._batches.due(now_ms)
        if self.holds:
            return batches
        effects = self._sent(now_ms, chance)
        self._turn += 1
        return effects + self._says(now_ms) + batches

    def _sent(self, now_ms: int, chance: float) -> list[fx.Effect]:
        effects: list[fx.Effect] = []
        names = list(self._sources)
        first = self._turn % len(names) if names else 0
        for name in names[first:] + names[:first]:
            for item in list(self._sources[name].items.values()):
                if item.token or now_ms < item.due_ms:
                    continue
                if len(self._by_token) >= IN_FLIGHT_MAX:
                    return effects
                effects += self._send(item, now_ms, chance)
        return effects

    def last_batch(self, now_ms: int) -> list[fx.Effect]:
        """What was counted and not told yet: the acting is over."""
        return self._batches.due(now_ms, at_once=True)

    def _send(self, item: _Item, now_ms: int, chance: float) -> list[fx.Effect]:
        if self._has_local_master():
            return [fx.PutLocally(self._begin(item, None), item.message)]
        if not self._allowed:
            return self._waits(item, NO_ESCAPE, now_ms, chance)
        asks = self._route_asked(item.message.topic, now_ms)
        known = self._routes[item.message.topic]
        if known.route is None:
            # Nothing failed but the question; the answer wakes it.
            item.why = NO_ROUTE if known.is_untold else _ASKED
            item.due_ms = now_ms + ROUTE_AGAIN_MS
            return asks
        target = self._target(item, known.route, now_ms)
        if target is None:
            known.is_stale = True
            return asks + self._waits(item, NO_MASTER, now_ms, chance)
        message = fx.SendAway(self._begin(item, target), target, item.message)
        return [*asks, message]

    def _target(self, item: _Item, route: Route, now_ms: int) -> Target | None:
        message = item.message
        if is_fixed(item.kind, message):
            return fixed_target(route, message.topic, self.own_host or message.store_host)
        self._avoided = {name: to for name, to in self._avoided.items() if now_ms < to}
        self._turn += 1
        return next_target(route, self._turn, self._avoided)

    def _begin(self, item: _Item, target: Target | None) -> int:
        self._token += 1
        item.token, item.target, item.why = self._token, target, ""
        self._by_token[item.token] = item
        return item.token

    def answered(self, token: int, code: int | None, now_ms: int, chance: float) -> Put | None:
        """The answer to a put; None: no answer came, or the connection could not be made. What
        became of the message; None: nobody waits for it.
        """
        item = self._by_token.pop(token, None)
        if item is None:
            return None
        item.token = 0
        put = put_of(code)
        self.counts[put] += 1
        self._count(item, put)
        if is_done(put):
            self.by_kind[item.kind] += 1
            self._leave(item)
            if item.told is not None:
                item.told(True)
            return put
        if item.target is not None:
            self._routes.setdefault(item.message.topic, _Known()).is_stale = True
            if put is not Put.ILLEGAL:
                self._avoided[item.target.broker_name] = now_ms + AVOID_MS
        self._waits(item, REFUSED if code is not None else put.value, now_ms, chance)
        return put

    def _count(self, item: _Item, put: Put) -> None:
        if item.target is not None:
            size = len(item.message.body) + len(item.message.properties)
            self._batches.put(item.kind, item.target.broker_name, put, size, item.message.topic)

    def _leave(self, item: _Item) -> None:
        source = self._sources[item.source]
        del source.items[item.place]
        self._number -= 1
        self._bytes -= len(item.message.body) + len(item.message.properties)
        if not source.items:
            del self._sources[item.source]
            return
        head = min(source.items)
        if item.place > head:
            source.behind.add(item.place)
        else:
            source.behind = {place for place in source.behind if place > head}

    def _waits(self, item: _Item, why: str, now_ms: int, chance: float) -> list[fx.Effect]:
        item.failures += 1
        item.why = item.failed = why
        item.due_ms = now_ms + AGAIN.pause_ms(item.failures, chance)
        return []

    # -- routes ------------------------------------------------------------------------------------

    def _route_asked(self, topic: str, now_ms: int) -> list[fx.Effect]:
        known = self._routes.get(topic)
        if known is None:
            while len(self._routes) >= ROUTES_MAX:
                del self._routes[next(iter(self._routes))]
            known = self._routes[topic] = _Known()
        is_old = known.is_stale or now_ms - known.told_ms >= ROUTE_REFRESH_MS
        if known.route is not None and not is_old:
            return []
        if known.asked_ms is not None and now_ms - known.asked_ms < ROUTE_AGAIN_MS:
            return []
        known.asked_ms = now_ms
        return [fx.AskRoute(topic)]

    def route_told(self, topic: str, route: Route | None, now_ms: int) -> None:
        """Who takes a topic; None: no name server could say, and what was known stays."""
        known = self._routes.get(topic)
        if known is None:
            return
        known.is_untold = route is None
        if route is None:
            for item in self._waiting_for(topic, _ASKED):
                item.why = NO_ROUTE
            return
        changed = known.route != route
        known.route = route
        known.told_ms = now_ms
        known.is_stale = False
        whys = (_ASKED, NO_ROUTE, NO_MASTER) if changed else (_ASKED, NO_ROUTE)
        for item in self._waiting_for(topic, *whys):
            item.due_ms = now_ms

    def _waiting_for(self, topic: str, *whys: str) -> list[_Item]:
        return [
            item
            for source in self._sources.values()
            for item in source.items.values()
            if item.message.topic == topic and not item.token and item.why in whys
        ]

    def _says(self, now_ms: int) -> list[fx.Effect]:
        """Once when messages begin to wait, and each minute while they do."""
        waiting = self.waits_for
        if not waiting:
            self._said_ms = None
            return []
        if self._said_ms is not None and now_ms - self._said_ms < SAYS_EVERY_MS:
            return []
        self._said_ms = now_ms
        return [fx.Report("EscapeWaits", {"messages": self._number, "reasons": dict(waiting)})]
