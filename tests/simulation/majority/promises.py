"""What has to hold in a group that replicates by majority.

Responsible for: looking, after every effect that matters and in the end. Refuses to know: how
anything came about; it moves nothing.

A broken promise begins with its name: `two leaders`, `led twice`, `committed changed`,
`committed back`, `committed beyond`, `committed alone`,
`counted`, `leader lacks`, `acknowledged lost`, `order`, `logs differ`,
`never answered`, `late`, `window`, `left`, `not whole`, `restless`; of real_time.py `order in time`
and `stale read`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokers.majority.entry import NONE, Entry
from brokers.majority.quorum.effects import AppendDone, ReadDone, Report
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.wire.codes import Code
from tests.simulation.majority.real_time import RealTime
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.majority.group import Client, Group, Reader
    from tests.simulation.majority.replica import Replica

ANSWER_SLACK_MS = 1_500
CALM_ANSWER_MS = 400


def identity(entry: Entry) -> tuple[int, int, bytes]:
    return entry.index, entry.term, entry.body


class Promises:
    """`chosen`: every entry that anybody committed, by index. `_on_its_way`: bodies that were sent
    to a member and that it has not looked at; `_given_up`: those of which the client wants to hear
    nothing more while they are, each with all that were sent with it.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self.chosen: dict[int, tuple[int, int, bytes]] = {}
        self._leads: dict[int, str] = {}
        self._lives: dict[int, int] = {}
        self._terms: dict[str, int] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._waiting: dict[int, tuple[Replica, int, int]] = {}
        self._acknowledged: dict[int, bytes] = {}
        self._last_of: dict[int, int] = {}
        self._on_its_way: set[bytes] = set()
        self._given_up: dict[bytes, set[bytes]] = {}
        self.in_time = RealTime()
        self.calm_since_ms: int | None = None
        self.elections = 0

    def _break(self, what: str) -> None:
        raise InvariantBroken(what)

    # -- as it happens ---------------------------------------------------------------------------

    def role(self, replica: Replica, standing: Standing) -> None:
        self._group.world.note(f"{replica.name} {standing}")
        if standing.term < self._terms.get(replica.name, 0):
            self._break(f"term back: {replica.name} {standing}")
        self._terms[replica.name] = standing.term
        if standing.role is not Role.LEADER:
            return
        self.elections += 1
        self._group.world.count("elected")
        self._group.world.count("elected.plain", replica.plain)
        if self._leads.setdefault(standing.term, replica.name) != replica.name:
            self._break(f"two leaders: {self._leads[standing.term]} and {replica.name}, {standing}")
        if standing.term in self._lives:
            self._break(f"led twice: {replica.name} {standing}")
        self._lives[standing.term] = replica.life
        self._has_all(replica)

    def _has_all(self, replica: Replica) -> None:
        """Who is elected has all that was committed, as far as it was not cleaned."""
        log = replica.log
        for index in range(max(log.first_index, min(self.chosen, default=0)), log.last.index + 1):
            if (
                index in self.chosen
                and identity(log.entries[index - log.base]) != self.chosen[index]
            ):
                self._break(f"leader lacks: {replica.name} has another entry at {index}")
        if self.chosen and log.last.index < max(self.chosen):
            self._break(f"leader lacks: {replica.name} ends at {log.last}, not {max(self.chosen)}")

    def leader_ready(self, replica: Replica, term: int) -> None:
        self._group.world.note(f"{replica.name} is ready in {term}")

    def committed(self, replica: Replica, told: int) -> None:
        key = replica.name, replica.life
        log = replica.log
        before = self._committed.get(key, NONE)
        if told > log.last.index:
            self._break(f"committed beyond: {replica.name} {told}, its log ends at {log.last}")
        if told <= before:
            self._break(f"committed back: {replica.name} {told} after {before}")
        self._committed[key] = told
        self._counted_well(replica, told)
        for index in range(max(before + 1, log.first_index), told + 1):
            entry = identity(log.entries[index - log.base])
            if self.chosen.setdefault(index, entry) != entry:
                self._break(
                    f"committed changed: {index} at {replica.name} is {entry}, was "
                    f"{self.chosen[index]}"
                )

    def _counted_well(self, replica: Replica, told: int) -> None:
        """What a leader commits is of its own term, and a majority has written it."""
        core, log = replica.core, replica.log
        if core is None or core.standing.role is not Role.LEADER or told in self.chosen:
            return
        entry = log.entries[told - log.base]
        if entry.term != core.standing.term:
            self._break(f"counted: {replica.name} in {core.standing.term} commits {entry}")
        having = [one for one in self._group.replicas if self._has(one, entry)]
        if len(having) < self._group.majority:
            self._break(f"committed alone: {replica.name} {entry}, {len(having)} have it")

    def _has(self, replica: Replica, entry: Entry) -> bool:
        log = replica.log
        if log.owed is not None and log.owed.index >= entry.index:
            return True
        at = entry.index - log.base
        return 0 <= at < len(log.entries) and identity(log.entries[at]) == identity(entry)

    def left(self, replica: Replica, reason: str) -> None:
        self._break(f"left: {replica.name}: {reason}")

    def reported(self, replica: Replica, report: Report) -> None:
        """A leader's word in a term that another one leads is nobody's."""
        if report.kind == "two_leaders":
            self._break(f"two leaders: {replica.name} heard {report.fields}")

    def stopped(self, replica: Replica) -> None:
        """Nobody waits for it any more."""
        self._waiting = {t: one for t, one in self._waiting.items() if one[0] is not replica}

    # -- clients ---------------------------------------------------------------------------------

    def waits(self, replica: Replica, token: int) -> None:
        self._waiting[token] = replica, replica.life, self._group.world.now_ms

    def sends(self, bodies: Iterable[bytes]) -> None:
        self._on_its_way.update(bodies)

    def takes(self, bodies: Iterable[bytes]) -> None:
        """A member looks at what a client sent, and has it in its log or has refused it."""
        self._on_its_way.difference_update(bodies)

    def gives_up(self, bodies: Iterable[bytes]) -> None:
        """Its client goes on. What is still on its way may come in behind what is sent from now
        on.
        """
        together = {body for body in bodies if body in self._on_its_way}
        self._given_up.update(dict.fromkeys(together, together))
        self._group.world.count("given_up", len(together))

    def answered(self, replica: Replica, token: int, done: AppendDone | ReadDone) -> None:
        kind = "read" if isinstance(done, ReadDone) else "answer"
        self._group.world.count(f"{kind}.{done.code.name}")
        self._waiting.pop(token, None)

    def was_read(self, reader: Reader, code: Code, index: int, floor: int) -> None:
        """`floor`: what anybody had heard to be committed when the read was sent."""
        if code is not Code.SUCCESS:
            return
        self._group.world.note(f"r{reader.number} reads {index}")
        if index != NONE and index not in self.chosen:
            self._break(f"committed beyond: r{reader.number} read {index}, which nobody committed")
        self.in_time.read(f"r{reader.number}", floor, index)

    def heard(
        self, client: Client, bodies: list[bytes], code: Code, index: int, took: int, floor: int
    ) -> None:
        """`floor`: what anybody had heard to be committed when the append was sent."""
        world = self._group.world
        world.note(f"c{client.number} hears {code.name} of {bodies[-1]!r} at {index} in {took} ms")
        if code is not Code.SUCCESS:
            return
        world.count("acknowledged")
        for at, body in enumerate(bodies):
            place = index - len(bodies) + 1 + at
            if place not in self.chosen or self.chosen[place][2] != body:
                self._break(f"acknowledged lost: {body!r} at {place} is {self.chosen.get(place)}")
            self._acknowledged[place] = body
        if index <= self._last_of.get(client.number, NONE):
            self._break(f"order: {bodies[0]!r} at {index} behind {self._last_of[client.number]}")
        self._last_of[client.number] = index
        self.in_time.appended(f"c{client.number}", floor, index - len(bodies) + 1, index)
        since = self.calm_since_ms
        if since is not None and world.now_ms - took >= since and took > CALM_ANSWER_MS:
            self._break(f"late: {bodies[-1]!r} took {took} ms with nothing in its way")

    # -- now and then ----------------------------------------------------------------------------

    def look(self) -> None:
        """Of all that lasts a while."""
        now_ms = self._group.world.now_ms
        for replica, life, since_ms in self._waiting.values():
            limit_ms = replica.config.append_wait_ms + ANSWER_SLACK_MS
            runs = replica.life == life and now_ms >= replica.paused_until_ms + ANSWER_SLACK_MS
            if runs and now_ms - since_ms > limit_ms:
                self._break(f"never answered: an append at {replica.name} since {since_ms}")
        for replica in self._group.replicas:
            self._look_at(replica)

    def _look_at(self, replica: Replica) -> None:
        core = replica.core
        if core is None:
            return
        if core.committed > replica.log.last.index:
            self._break(f"committed beyond: {replica.name} {core.committed} {replica.log.last}")
        window = self._group.shape.window_bytes + 200
        for peer, size in core.unanswered_bytes().items():
            if size > window:
                self._break(f"window: {size} bytes from {replica.name} to {peer}")

    def whole(self) -> str | None:
        """What is missing until all have everything; None: nothing."""
        group = self._group
        leaders = group.leaders()
        if len(leaders) != 1:
            return f"{len(leaders)} leaders"
        leader = leaders[0]
        term = leader.core.standing.term if leader.core is not None else NONE
        for one in group.replicas:
            if group.world.now_ms < one.paused_until_ms:
                return f"{one.name} stands still"
            if one.core is None or one.core.standing.term != term:
                return f"{one.name} is not in term {term}"
            if one.log.last != leader.log.last:
                return f"{one.name} ends at {one.log.last}, the leader at {leader.log.last}"
            if one.core.committed != one.log.last.index:
                return f"{one.name} committed {one.core.committed} of {one.log.last}"
            if one.core.standing.role is Role.CANDIDATE:
                return f"{one.name} is a candidate"
        preferred = [one for one in group.replicas if one.name in leader.config.preferred]
        if preferred and leader not in preferred:
            return f"{leader.name} leads, not {preferred[0].name}"
        return None

    def final(self) -> None:
        """All logs are one, and all that was acknowledged is in it."""
        for replica in self._group.replicas:
            log = replica.log
            for entry in log.entries:
                if self.chosen.get(entry.index) != identity(entry):
                    self._break(f"logs differ: {replica.name} has {entry} at {entry.index}")
            for index, body in self._acknowledged.items():
                if index >= log.first_index and log.entries[index - log.base].body != body:
                    self._break(f"acknowledged lost: {body!r} at {index} of {replica.name}")
        missing = [at for at in self._acknowledged if at not in self.chosen]
        if missing:
            self._break(f"acknowledged lost: {missing[:5]}")
        self._in_order()

    def _in_order(self) -> None:
        """What one client sent stands in the order in which it sent it, but for what it gave up
        (PROTOCOL 10.2): that may stand behind what was sent later, once, and in its own order.
        """
        before: dict[str, dict[int, bytes]] = {}
        last: dict[str, int] = {}
        for index in sorted(self.chosen):
            body = self.chosen[index][2]
            name, _, rest = body.partition(b":")[0].decode().partition("-")
            if not rest:
                continue
            number, known = int(rest), before.setdefault(name, {})
            if number <= last.get(name, 0):
                together = self._given_up.get(body, set())
                later = [one for at, one in known.items() if at >= number]
                if not together or not together.isdisjoint(later):
                    self._break(f"order: {name}-{rest} at {index} behind {name}-{last[name]}")
                self._group.world.count("given_up.late")
            known |= {number: body}
            last |= {name: max(number, last.get(name, 0))}
