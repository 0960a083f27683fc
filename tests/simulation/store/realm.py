"""A set of stores that take turns as master, on one medium, held to what a client sees.

Responsible for: sends, copies, confirming, elections, starts, looking through. Refuses to know:
what goes wrong and when, how the product does any of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.ha.epochs import EpochHistory, begins_later, consistent_offset
from brokers.replica.effects import CutIncompleteTail, TruncateLog
from brokers.replica.store_port import cut
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields, host_bytes, message_size
from brokers.store.queues.queue_ends import decode, encode
from brokers.store.store import MessageStore, StoreConfig
from brokers.store.trimming import trim
from tests.simulation.store.ledger import Ledger, Message, compare, read_queue
from tests.simulation.store.medium import Medium
from tests.simulation.store.replica import Replica
from tests.simulation.world import InvariantBroken, World

HOST = host_bytes("10.0.0.1", 1)
CHUNKS = (1, 7, 100, 1_000, 5_000, 1 << 20)
FILE_BYTES = (4_096, 8_192, 10_001, 32_768)
QUEUE_SLOTS = (3, 10, 100)
TOPICS = ("often", "sometimes", "seldom")
STEP_MS = (0, 1, 500, 20_000)


@dataclass(frozen=True, slots=True)
class Shape:
    """A set as it is configured. Sizes in bytes. `java`: a Java broker may have used a folder
    between two lives.
    """

    replicas: int
    file_bytes: int
    queue_file_bytes: int
    open_queue_files: int
    java: bool = False


def shape_of(world: World) -> Shape:
    """By chance."""
    pick = world.chance.choice
    return Shape(
        world.between(1, 3),
        pick(FILE_BYTES),
        20 * pick(QUEUE_SLOTS),
        pick((1, 3, 256)),
        world.one_in(3),
    )


def _gives(replica: Replica, one: Message) -> bool:
    """Whether it has that message, sound, and knows that it is confirmed."""
    store = replica.opened
    return (
        one.start not in replica.damaged | replica.altered
        and store.log_min <= one.start
        and one.end <= store.confirm_offset
    )


class CannotLead(Exception):
    """Damage lies where nothing is dispatched yet, and nobody else has these bytes: the product
    refuses, told to a person.
    """


class Realm:
    """`in_sync`: numbers of the replicas whose log decides what is acknowledged, the leader among
    them. `lead`: its number.
    """

    def __init__(self, world: World, shape: Shape, medium: Medium) -> None:
        self.world, self.shape = world, shape
        self.medium = medium
        config = StoreConfig(
            shape.file_bytes, shape.queue_file_bytes, shape.open_queue_files, message_index=False
        )
        self.replicas = [
            Replica(number, medium.root / str(number), self.medium, config)
            for number in range(shape.replicas)
        ]
        self.ledger = Ledger()
        self.lead, self.in_sync, self.epoch, self.confirmed = 0, {0}, 0, 0
        self.linked: set[int] = set()
        self.clock_ms = world.wall_ms
        for one in self.replicas:
            one.start(same_boot=True)
        self._lead_with(self.replicas[0])

    @property
    def leader(self) -> Replica:
        return self.replicas[self.lead]

    def others(self, than: Replica) -> list[Replica]:
        """Replicas of the set that hold all that is acknowledged, and answer."""
        return [
            self.replicas[number]
            for number in sorted(self.in_sync)
            if number != than.number and self.replicas[number].is_up
        ]

    # -- what clients and links do

    def send(self) -> None:
        """A batch of messages of one queue, or one message."""
        world, store = self.world, self.leader.opened
        self.clock_ms += world.chance.choice(STEP_MS)
        fields = [self._message() for _ in range(world.chance.choice((1, 1, 1, 3)))]
        if sum(map(message_size, fields)) + 8 > self.shape.file_bytes:
            return
        try:
            put = store.put_batch(fields, self.clock_ms)
        except DiskFull:
            world.count("send.refused")
            return
        at = put.physical_offset
        next_slots: dict[tuple[str, int], int] = {}
        for number, one in enumerate(fields):
            end, key = at + message_size(one), (one.topic, one.queue_id)
            data = store.read_log(at, end - at)
            slot = int.from_bytes(data[20:28], "big")
            if (number == 0 and slot != put.queue_offset) or slot != next_slots.get(key, slot):
                raise InvariantBroken(
                    f"offset {slot} of {key} at {at} is not the one that was answered, "
                    f"{put.queue_offset}"
                )
            next_slots[key] = slot + 1
            self.ledger.pending.append(Message(at, end, key, slot, self.clock_ms, data))
            at = end
        world.count("sent", len(fields))

    def _message(self) -> MessageFields:
        world, left = (
            self.world,
            self.shape.file_bytes - self.leader.opened.log_end % self.shape.file_bytes,
        )
        size = world.chance.choice((0, 5, 100, 600, 2_500))
        if world.one_in(5) and 150 < left < 4_000:
            size = max(0, left - 97 - world.between(-3, 14))
        tags = {"TAGS": "a" * world.chance.choice((1, 40, 900))} if world.one_in(2) else {}
        topic = world.chance.choices(TOPICS, (60, 12, 1))[0]
        properties = encode_properties(tags) if tags else b""
        return MessageFields(
            topic,
            world.between(0, 1),
            world.chance.randbytes(size),
            properties,
            self.clock_ms,
            HOST,
            HOST,
        )

    def copy(self, slave: Replica) -> None:
        """Some of what it lacks, after the handshake of its link."""
        if slave.number not in self.linked and not self._shake_hands(slave):
            return
        store, master = slave.opened, self.leader.opened
        for _ in range(self.world.between(1, 4)):
            at = max(store.log_end, master.log_min if not store.log.file_starts else 0)
            border = self.leader.epochs.next_start(at) or master.log_end
            want, data = min(self.world.chance.choice(CHUNKS), border - at), b""
            try:
                while len(data) < want and (
                    more := master.read_log(at + len(data), want - len(data))
                ):
                    data += more
            except OSError:  # a page that cannot be read: the link ends
                self.leave(slave)
                self.world.count("copy.unreadable")
                return
            if not data:
                break
            slave.epochs = slave.epochs.advanced(self.leader.epochs, at)
            try:
                store.append_raw(at, data)
            except DiskFull:
                break
            self._copied_damage(slave, at, at + len(data))
        self._join(slave)

    def _copied_damage(self, slave: Replica, first: int, last: int) -> None:
        """Bytes come as the master has them."""
        for ours, theirs in (
            (slave.damaged, self.leader.damaged),
            (slave.altered, self.leader.altered),
        ):
            ours.update(start for start in theirs if first - self.shape.file_bytes < start < last)

    def _shake_hands(self, slave: Replica) -> bool:
        store, master = slave.opened, self.leader
        if store.log.file_starts:
            agreed = consistent_offset(
                slave.epochs, store.log_end, master.epochs, master.opened.log_end
            )
            late = (
                begins_later(slave.epochs, master.epochs)
                or agreed is None
                or agreed < master.opened.log_min
            )
            keep = (
                0
                if late or agreed is None
                else min(agreed, store.log_end if slave.trusted_end is None else slave.trusted_end)
            )
            keep = 0 if keep < master.opened.log_min else keep
            if keep < store.log_end:
                try:
                    done, _ = cut(
                        store, TruncateLog(keep, self.epoch, "handshake"), self.shape.file_bytes
                    )
                except OSError:
                    done = False
                if not done:  # damage at the very cut: told, until somebody empties it
                    keep = 0
                    cut(store, TruncateLog(0, self.epoch, "emptied by hand"), self.shape.file_bytes)
                self.world.count("slave.cut" if keep else "slave.emptied")
                slave.damaged = {start for start in slave.damaged if start < keep}
                slave.altered = {start for start in slave.altered if start < keep}
            slave.epochs = (
                slave.epochs.truncate_suffix(store.log_end)
                if store.log.file_starts
                else EpochHistory.of()
            )
        slave.trusted_end = None
        self.linked.add(slave.number)
        self.adopt_ends(slave)
        return True

    def adopt_ends(self, slave: Replica) -> None:
        """Where queues go on of which the master's log has no message, as a slave copies them."""
        store, master = slave.opened, self.leader.opened
        told = decode(encode(master.ends.without_messages(master.queues, master.log_min)))
        assert told is not None
        store.ends.note(store.queues, {key: end.slot for key, end in told.ends.items()})

    def _join(self, slave: Replica) -> None:
        store = slave.opened
        if slave.number in self.in_sync or store.log_end < max(
            self.confirmed, self.leader.opened.log_min
        ):
            return
        self.adopt_ends(slave)
        if store.ends.unsaved:
            store.checkpoint_job()()
        self.in_sync.add(slave.number)
        self.world.count("joined")

    def confirm(self) -> None:
        """What all of the set have is acknowledged, and readable."""
        ends = [self.replicas[number].opened.log_end for number in self.in_sync]
        self.confirmed = max(self.confirmed, min(ends))
        self.world.count("acknowledged", self.ledger.confirmed(self.confirmed))
        self.leader.opened.dispatch_to(self.confirmed)
        for one in self.replicas:
            if one.is_up and one.number in self.linked:
                reach = min(self.confirmed, one.opened.log_end)
                one.opened.dispatch_to(
                    reach if self.world.one_in(2) else self.world.between(0, reach)
                )

    # -- roles

    def leave(self, replica: Replica) -> None:
        """It is not waited for any more."""
        self.linked.discard(replica.number)
        if replica.number != self.lead:
            self.in_sync.discard(replica.number)

    def elect(self, replica: Replica) -> None:
        """A member that holds all that is acknowledged leads from now on."""
        try:
            cut(replica.opened, CutIncompleteTail(), self.shape.file_bytes)
        except (LogError, OSError) as error:
            if not replica.damaged:
                raise
            raise CannotLead(str(error)) from error
        self._lead_with(replica)
        self.world.count("elected")

    def _lead_with(self, replica: Replica) -> None:
        store = replica.opened
        self.ledger.cut(store.log_end, self.confirmed, store.log_min)
        self.confirmed = min(self.confirmed, store.log_end)  # it may have ended within a record
        self.epoch += 1
        replica.epochs = replica.epochs.append(self.epoch, store.log_end)
        self.lead, self.in_sync, self.linked = replica.number, {replica.number}, set()
        replica.trusted_end = None
        store.rebuild_queue_offsets()

    def left_alone(self, lasting: int) -> None:
        """All members of the set lost power: who is left with most leads, and all that was flushed
        had to be kept.
        """
        self.confirmed = min(self.confirmed, max(lasting, 0))
        best = max(
            (self.replicas[number] for number in sorted(self.in_sync)),
            key=lambda one: one.opened.log_end,
        )
        self.elect(best)
        self.confirmed = best.opened.log_end
        self.ledger.confirmed(self.confirmed)
        best.opened.dispatch_to(self.confirmed)

    # -- care

    def trim(self, replica: Replica) -> None:
        """Retention, as far as it may."""
        store = replica.opened
        starts = store.log.file_starts
        if len(starts) < 2:
            return
        below = min(self.world.chance.choice(starts[1:]), store.confirm_offset)
        before = store.log_min
        trim(store.log, store.queues, below, store.remembered_offset)()
        replica.epochs = replica.epochs.truncate_prefix(store.log_min)
        if replica.number == self.lead:  # links of those that want older files end
            self.linked = {
                number
                for number in self.linked
                if self.replicas[number].opened.log_end >= store.log_min
            }
        gone = {start for start in replica.damaged | replica.altered if start < store.log_min}
        replica.damaged -= gone
        replica.altered -= gone
        self.world.count("trimmed", (store.log_min - before) // self.shape.file_bytes)

    def look_through(self, replica: Replica) -> None:
        """Scrub and repair; then all is held to what clients were told."""
        told = replica.look_through(self.others(replica), lambda: self.refused(replica.opened))
        for bad in told:
            self.world.note(f"{replica.name}: {bad}")
        strange = [bad for bad in told if bad.place.queue_id is None and not replica.touched()]
        if strange:
            raise InvariantBroken(
                f"{replica.name}: a sound log is told to be damaged: {strange[0]}"
            )
        replica.misled.clear()
        self._restored(replica)

    def _restored(self, replica: Replica) -> None:
        others = self.others(replica)
        refused = (
            {bad.place.offset for bad in self.refused(replica.opened)}
            if replica.touched()
            else set()
        )
        for one in self.ledger.kept(replica.opened):
            if one.start not in replica.damaged and one.start not in replica.altered:
                continue
            if replica.restored(one.start, one.data):
                self.world.count("repaired")
            elif any(one.start in other.altered for other in others):
                # nothing shows that what it was given is not what was sent
                replica.altered.add(one.start)
            elif one.start in refused and any(_gives(other, one) for other in others):
                raise InvariantBroken(
                    f"{replica.name}: the message at {one.start} is damaged after a look, and "
                    "others have it"
                )

    def refused(self, store: MessageStore) -> list[BadRecord]:
        """What pulls over all queues are refused. InvariantBroken: a sound message is among it."""
        replica = next(one for one in self.replicas if one.store is store)
        found = []
        for key in sorted({one.key for one in self.ledger.kept(store)}):
            for slot, bad in read_queue(store, key, store.queue_bounds(*key)[0]).refused.items():
                one = self.ledger.acknowledged[key].get(slot)
                if (
                    one is not None
                    and one.start >= store.log_min
                    and (one.start, one.end - one.start) == bad.place[:2]
                    and one.start not in replica.damaged
                ):
                    raise InvariantBroken(
                        f"{replica.name}: offset {slot} of {key} at {one.start} is sound and "
                        f"refused: {bad.reason}"
                    )
                found.append(bad)
        return found

    def compare(self, replica: Replica) -> None:
        """Everything acknowledged that this replica can give is read."""
        read = compare(self.ledger, replica.opened, replica.damaged, replica.altered, replica.name)
        self.world.count("read", read)
        if replica.opened.io_error is not None:
            raise InvariantBroken(f"{replica.name} takes no more bytes: {replica.opened.io_error}")

    def close(self) -> None:
        """Ends the world."""
        for one in self.replicas:
            if one.is_up:
                one.stop(clean=False)
