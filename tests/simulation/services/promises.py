"""What clients were told of delayed, timed, transactional and popped messages and of offsets, and
whether it holds.

Responsible for: the promises of PROTOCOL 4.7, 4.9, 4.14 and 4.18, checked at every write of a
master and in the end. Refuses to know: how brokers keep them.

A place that a service told to others binds its successors: what lies in front of it is not done
again. So what may come twice after a promotion is what was done behind the last copy of the tables
that the promoted member had begun to take.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.store.appender import PutResult
from brokers.store.log.delay_levels import levels_in_force
from brokers.store.log.properties import SCHEDULE_TOPIC, decode_properties
from brokers.store.log.records import MessageFields, RecordError, decode_messages, message_size
from infra.features.pop_requests import Gotten
from tests.simulation.services.lock_promises import LockPromises
from tests.simulation.services.observed import Bounds, Copied
from tests.simulation.services.ordered_promises import OrderedPromises
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.services.member import Member
    from tests.simulation.services.realm import Realm

TOPIC, GROUP, POP_GROUP, BACK_GROUP = "T", "g", "pop", "back"
AGAIN, DEAD = "@again", "@dead"
"""What is added to a message's key to name what became of it when its consumer sent it back."""
NAMED_BY = {TOPIC: "", f"%RETRY%{BACK_GROUP}": AGAIN, f"%DLQ%{BACK_GROUP}": DEAD}
COMMIT, ROLLBACK = 8, 12
RETRIES = tuple(f"%RETRY%{POP_GROUP}{joint}{TOPIC}" for joint in "_+")
POP_TOPICS = (TOPIC, *RETRIES)
TOPICS_OF_KINDS = dict(zip("012", POP_TOPICS, strict=True))
"""By the kind that a handle names."""
# An acknowledgement is in time when its answer came so long before the message may be seen again.
IN_TIME_MS = 100
# Clocks of a set differ by so much where none jumped.
SKEW_MS = 100
NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class Popped:
    """A message in the hands of a client, and when it came there."""

    one: Gotten
    at_ms: int

    @property
    def place(self) -> Place:
        handle = self.one.handle
        return TOPICS_OF_KINDS[handle.kind], handle.queue_id, handle.offset

    @property
    def key(self) -> PointKey:
        handle = self.one.handle
        return self.place[0], handle.queue_id, handle.start_offset, handle.pop_ms


Place = tuple[str, int, int]  # topic, queue id, queue offset
PointKey = tuple[str, int, int, int]  # topic, queue id, start offset, time of the pop


@dataclass(slots=True)
class Point:
    """A check point in the log. `done`: offsets that were acknowledged in time."""

    epoch: int
    noted_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    done: set[int] = field(default_factory=set)
    given_ms: dict[int, int] = field(default_factory=dict)

    def says_the_same(self, other: Point) -> bool:
        """Of one name: it is this one."""
        return (self.invisible_ms, self.offsets) == (other.invisible_ms, other.offsets)


@dataclass(frozen=True, slots=True)
class Copy:
    """A message under its own topic, as a master put it there."""

    epoch: int
    at_ms: int
    start: int
    end: int


@dataclass(slots=True)
class Sent:
    """One message of a producer. `level`, `due_ms`: what it waits for."""

    level: int = 0
    due_ms: int = 0
    is_half: bool = False
    told: bool = False
    recall_asked: bool = False
    recalled: bool = False
    decided: int | None = None
    waits_since_ms: int | None = None
    copies: list[Copy] = field(default_factory=list)


@dataclass(slots=True)
class Commit:
    """Of a group's offset; `asked`: the epoch of the only master by then, 0: there was none.
    `told`: in which epoch and when it was answered, by that one.
    """

    offset: int
    asked: int
    told: tuple[int, int] | None = None


class Promises:
    """All of one world."""

    def __init__(self, realm: Realm) -> None:
        self.realm, self.world = realm, realm.world
        self.sent: dict[str, Sent] = {}
        self.acked_keys: set[str] = set()
        self._points: dict[PointKey, list[Point]] = {}
        self._of_key: dict[str, list[tuple[Point, int]]] = {}
        self._promoted_ms = 0
        self._bounds: dict[int, Bounds] = {}  # by epoch: what its master had copied
        self._offsets: dict[int, list[Commit]] = {}
        self.locks = LockPromises(realm)
        self.ordered = OrderedPromises(
            realm,
            lambda epoch, earlier, at_ms: self._was_told("ordered", epoch, earlier, at_ms),
            lambda: self._spread(self._shifts),
        )
        self.jumped_ms: int | None = None
        """When a clock did last; None: none ever did."""
        self._shifts = [0]
        self._trusted = [0]

    def broken(self, what: str) -> None:
        raise InvariantBroken(what)

    # -- clocks ------------------------------------------------------------------------------------

    def clock_jumped(self, member: Member) -> None:
        self.jumped_ms = self.world.now_ms
        self._shifts.append(member.wall_shift_ms)

    def _spread(self, shifts: Sequence[int]) -> int:
        return max(shifts) - min(shifts) + SKEW_MS

    # -- what a member does ------------------------------------------------------------------------

    def begins(self, member: Member) -> None:
        """A new life: what it writes, copies and locks is looked at."""
        self._trusted.append(member.trusted_shift_ms)
        self._shifts.append(member.wall_shift_ms)
        process = member.serving
        store, put_many = process.store, process.store.put_many

        def put(
            groups: Sequence[Sequence[MessageFields]], now_ms: int
        ) -> list[PutResult | RecordError]:
            results = put_many(groups, now_ms)
            self._written(member, groups, results)
            return results

        store.put_many = put  # type: ignore[method-assign]
        copied = Copied(member)
        begin = process.service.mastership_begins

        def mastership_begins(epoch: int) -> None:
            self._promoted_ms = self.world.now_ms
            self._bounds[epoch] = copied.frozen()
            self.locks.promoted(member, copied)
            begin(epoch)
            self.world.count("promoted")

        process.service.mastership_begins = mastership_begins  # type: ignore[method-assign]
        self.locks.watch(member)
        self.ordered.watch(member)

    def _written(
        self,
        member: Member,
        groups: Sequence[Sequence[MessageFields]],
        results: Sequence[PutResult | RecordError],
    ) -> None:
        for group, result in zip(groups, results, strict=True):
            if isinstance(result, RecordError) or len(group) != 1:
                continue
            fields = group[0]
            body = bytes(fields.body).decode("utf-8", "replace")
            if fields.topic in NAMED_BY:
                self._came(member, result, body + NAMED_BY[fields.topic], message_size(fields))
            elif fields.topic in RETRIES and body in self.sent:
                self._came_back(body)
            elif fields.topic == SCHEDULE_TOPIC:
                real = decode_properties(fields.properties).get("REAL_TOPIC", "")
                sent = self.sent.get(body + NAMED_BY.get(real, ""))
                if sent is not None and sent.waits_since_ms is None:
                    sent.waits_since_ms = self.world.now_ms
            elif "REVIVE" in fields.topic or b"REVIVE" in fields.properties:
                self._pop_record(member, fields)

    def _came(self, member: Member, result: PutResult, key: str, size: int) -> None:
        """A message under a topic that clients read."""
        sent = self.sent.get(key)
        if sent is None:
            return
        now_ms = self.world.now_ms
        if sent.is_half and sent.decided != COMMIT:
            self.broken(f"half message {key} is visible and was never committed")
        if sent.level:
            self.world.count("delay.delivered")
            since = sent.waits_since_ms if sent.waits_since_ms is not None else now_ms
            due_ms = since + levels_in_force()[sent.level - 1]
            # a clock that was set ahead brings it forward, one that was set back does not (4.14)
            if now_ms < due_ms - self._spread(self._shifts):
                self.broken(f"{key} of level {sent.level} comes {due_ms - now_ms} ms early")
        if sent.due_ms:
            self.world.count("timer.delivered")
            if now_ms < sent.due_ms - self._spread(self._trusted):
                self.broken(f"timed message {key} comes {sent.due_ms - now_ms} ms early")
        if sent.recalled and self.jumped_ms is None:
            self.broken(f"timed message {key} comes, and was recalled")
        end = result.physical_offset + size
        copy = Copy(member.epoch, now_ms, result.physical_offset, end)
        self._judge_copies(member, key, sent, copy)
        sent.copies.append(copy)

    def _judge_copies(self, member: Member, key: str, sent: Sent, copy: Copy) -> None:
        for earlier in sent.copies:
            if earlier.epoch == copy.epoch:
                self.broken(f"{key} is delivered twice in epoch {copy.epoch}")
            if not self._is_in(member, earlier, key):
                continue
            self.world.count("twice")
            which = "timers" if sent.due_ms else "delays"
            if not sent.is_half and self._was_told(which, copy.epoch, earlier.epoch, earlier.end):
                self.broken(
                    f"{key} comes again in epoch {copy.epoch}: that it came in epoch "
                    f"{earlier.epoch} was told to its master"
                )

    def _was_told(self, which: str, epoch: int, earlier: int, done: int) -> bool:
        """Whether the master of `epoch` knew what was `done` in an earlier one, from the one before
        it, or from the one before that.
        """
        while (bound := self._bounds.get(epoch)) is not None:
            epoch, until = getattr(bound, which)
            if epoch <= earlier:
                return epoch == earlier and done <= until
        return False

    @staticmethod
    def _is_in(member: Member, copy: Copy, key: str) -> bool:
        store = member.serving.store
        return (
            copy.end <= store.log_end
            and copy.start >= store.log_min
            and key.partition("@")[0].encode() in store.read_log(copy.start, copy.end - copy.start)
        )

    # -- sends -------------------------------------------------------------------------------------

    def sends(self, key: str) -> None:
        self.sent.setdefault(key, Sent())

    def waits(self, key: str, *, level: int = 0, due_ms: int = 0) -> None:
        """It asks for a level, or for a time of the world."""
        self.sent[key] = Sent(level, due_ms)

    def is_half(self, key: str) -> None:
        self.sent[key] = Sent(is_half=True)

    def told(self, key: str) -> None:
        """It is stored, its producer hears."""
        self.sent[key].told = True
        kind, _, again = key.partition("@")
        self.world.count(f"told.{again or kind.rstrip('0123456789x')}")

    def was_told(self, key: str) -> bool:
        return self.sent[key].told

    def decision(self, key: str) -> int | None:
        return self.sent[key].decided

    def decides(self, key: str, how: int) -> None:
        """Its producer will say so, and never anything else."""
        self.sent[key].decided = how

    def ended(self) -> None:
        """A producer was told that the members hold its decision."""
        self.world.count("transaction.ended")

    def recalls(self, key: str) -> None:
        """Its producer wants it back; it may come all the same."""
        self.sent[key].recall_asked = True

    def recalled(self, key: str) -> None:
        """Its producer was told that it will not come."""
        sent = self.sent[key]
        sent.recalled = True
        self.world.count("timer.recalled")
        if sent.copies and self.jumped_ms is None:
            self.broken(f"timed message {key} was recalled, and came before")

    # -- pops --------------------------------------------------------------------------------------

    def _pop_record(self, member: Member, fields: MessageFields) -> None:
        if decode_properties(fields.properties).get("TAGS") != "ck":
            return
        said = fastjson.loads(bytes(fields.body))
        assert isinstance(said, dict)
        key = str(said["t"]), int(said["q"]), int(said["so"]), int(said["pt"])
        offsets = tuple(int(said["so"]) + int(step) for step in said["d"])
        point = Point(member.epoch, self.world.now_ms, int(said["it"]), offsets)
        known = self._points.setdefault(key, [])
        if any(one.says_the_same(point) for one in known):
            return  # the timer delivers it
        known.append(point)
        if len(known) > 1:
            self.world.count("pop.one_name")
        for offset in offsets:
            # As its own log has it: another member may have had another message at this place, of
            # a tail that is lost.
            body = self._body_at(member, key[0], key[1], offset)
            if body is not None:
                self._of_key.setdefault(body, []).append((point, offset))

    @staticmethod
    def _body_at(member: Member, topic: str, queue_id: int, offset: int) -> str | None:
        """What a member gives there to a client; None: nothing."""
        got = member.serving.store.query(topic, queue_id, offset, 1)
        found = decode_messages(got.body)
        return bytes(found[0].fields.body).decode() if found else None

    def _came_back(self, key: str) -> None:
        """A copy for the group that did not acknowledge it."""
        now_ms = self.world.now_ms
        self.world.count("pop.revived")
        left = [point for point, offset in self._of_key.get(key, ()) if offset not in point.done]
        if not left:
            self.broken(f"{key} was acknowledged in time each time it was popped, and comes back")
        due_ms = min(point.noted_ms + point.invisible_ms for point in left)
        if now_ms < due_ms - self._spread(self._shifts):
            self.broken(f"{key} comes back {due_ms - now_ms} ms before its invisible time is over")

    def popped(self, popped: Popped) -> None:
        """A client has it."""
        self.world.count("pop.given")
        point = self._noted_for(popped)
        topic, queue_id, offset = popped.place
        if point is None:
            self.broken(f"{popped.place} was given without a check point")
            return
        point.given_ms[offset] = popped.at_ms
        of_queue = (of for key, of in self._points.items() if key[:2] == (topic, queue_id))
        for other in itertools.chain.from_iterable(of_queue):
            if other is point or offset not in other.given_ms:
                continue
            first, second = sorted((other, point), key=lambda one: (one.epoch, one.noted_ms))
            if first.epoch == second.epoch:
                self.broken(f"{popped.place} was given twice in epoch {first.epoch}")
            self.world.count("pop.twice")
            given_ms = first.given_ms[offset]
            if self._was_told("offsets", second.epoch, first.epoch, given_ms):
                self.broken(
                    f"{popped.place} was given in epoch {first.epoch}, which the master of "
                    f"{second.epoch} was told, and is given again"
                )

    def _noted_for(self, popped: Popped) -> Point | None:
        """The check point under which it was given."""
        offset, invisible_ms = popped.place[2], popped.one.handle.invisible_ms
        of_name = (one for one in self._points.get(popped.key, ()) if offset in one.offsets)
        return next((one for one in of_name if one.invisible_ms == invisible_ms), None)

    def _done(self, popped: Popped) -> None:
        """Under all check points of the name that the acknowledgement says."""
        for point in self._points[popped.key]:
            until_ms = point.noted_ms + point.invisible_ms - IN_TIME_MS - self._spread(self._shifts)
            if popped.place[2] in point.offsets and self.world.now_ms <= until_ms:
                point.done.add(popped.place[2])
                self.world.count("pop.done_in_time")

    def acks(self, popped: Popped) -> None:
        """A client says that it is done, and may never hear whether that was heard."""
        self.acked_keys.add(popped.one.body.decode())

    def acked(self, popped: Popped) -> None:
        """A client was told that it is done."""
        self._done(popped)

    def changed(self, one: Gotten) -> None:
        """A client was told that it has another time."""
        self._done(Popped(one, self.world.now_ms))

    # -- offsets -----------------------------------------------------------------------------------

    def _two_lead(self) -> bool:
        """A former master has not heard of the next one: what it says is old."""
        epoch = self.realm.control.epoch
        leaders = [one for one in self.realm.members if one.up and one.leads]
        return len(leaders) != 1 or leaders[0].epoch != epoch

    def offset_said(self, queue_id: int, offset: int) -> Commit:
        """A commit is on its way; whether it counts is told later."""
        commit = Commit(offset, 0 if self._two_lead() else self.realm.control.epoch)
        self._offsets.setdefault(queue_id, []).append(commit)
        return commit

    def offset_told(self, commit: Commit) -> None:
        """It was answered as done."""
        self.world.count("offset.told")
        if not self._two_lead() and commit.asked == self.realm.control.epoch:
            commit.told = commit.asked, self.world.now_ms

    def offset_read(self, queue_id: int, offset: int, asked_ms: int) -> None:
        """The group would go on there."""
        if self._two_lead() or self._promoted_ms >= asked_ms:
            return
        said = self._offsets.get(queue_id, [])
        bound = [number for number, one in enumerate(said) if self._holds(one)]
        self.world.count("offset.read")
        if bound and offset < min(one.offset for one in said[bound[-1] :]):
            self.broken(f"the offset of queue {queue_id} went back to {offset}: {said[bound[-1]]}")

    def _holds(self, commit: Commit) -> bool:
        """The present master was told of it, or took it itself."""
        if commit.told is None:
            return False
        epoch, now = commit.told[0], self.realm.control.epoch
        return epoch == now or self._was_told("offsets", now, *commit.told)

    # -- in the end --------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What was promised and is not there yet, read from the leader; empty when all is."""
        leader = self.realm.leader
        if leader is None:
            return ["nobody leads"]
        there = self._readable(leader)
        lacks = [f"{key} was stored and is not there" for key in self._due() if key not in there]
        open_halves = [
            f"nobody was asked about half {key}"
            for key, sent in self.sent.items()
            if sent.is_half and sent.told and sent.decided is None
        ]
        acked = {"pops": self.acked_keys, "ordered": self.ordered.acked_keys}
        left = [
            f"{key} was never acknowledged ({use})"
            for use in acked.keys() & set(self.realm.shape.uses)
            for key in there
            if key not in acked[use] and "@" not in key
        ]
        return lacks + open_halves + left

    def _due(self) -> list[str]:
        return [
            key
            for key, sent in self.sent.items()
            if sent.told and not sent.recall_asked and (not sent.is_half or sent.decided == COMMIT)
        ]

    @staticmethod
    def _readable(leader: Member) -> dict[str, None]:
        store, found = leader.serving.store, {}
        for topic, queue_id in store.queue_ids():
            place, end = store.queue_bounds(topic, queue_id)
            while topic in NAMED_BY and place < end:
                got = store.query(topic, queue_id, place, 32)
                found.update(
                    (bytes(one.fields.body).decode() + NAMED_BY[topic], None)
                    for one in decode_messages(got.body)
                )
                place = max(place + 1, got.next_offset)
        return found
