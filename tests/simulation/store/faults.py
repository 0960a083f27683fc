"""What goes wrong with the stores of a set, and with what lies in their folders.

Responsible for: doing it, and noting what nobody has to keep any more. Refuses to know: what the
product makes of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from brokers.store.queues.queue_ends import QUEUE_ENDS_NAME, decode
from brokers.store.recovery.checkpoint import (
    CHECKPOINT_NAME,
    Checkpoint,
    encode_checkpoint,
    read_checkpoint,
)
from tests.simulation.store.ledger import Message
from tests.simulation.store.medium import PAGE_BYTES
from tests.simulation.store.realm import Realm
from tests.simulation.store.replica import Replica
from tests.simulation.world import InvariantBroken, World

CLOCK_JUMP_MS = 3 * 3_600_000
ENTRY_BYTES = 20
# The queue's id and the offset, over which the format has no checksum: a start believes them where
# the entry is lost, too.
PLACE_BYTES = [*range(12, 16), *range(20, 28)]
HEADER_BYTES = [at for at in range(88) if at not in PLACE_BYTES]


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights of what happens, by name; `all_lose_power_one_in`: of the losses of power, all
    replicas have one in so many.
    """

    weights: Mapping[str, int] = field(default_factory=dict)


class Faults:
    """Each kind by its name, to be done to a set; while nothing is done the set goes on."""

    def __init__(self, realm: Realm, world: World) -> None:
        self.realm, self.world = realm, world
        self.kinds: dict[str, Callable[[], bool]] = {
            "kill": self.kill,
            "stop": self.stop,
            "lose_power": self.lose_power,
            "all_lose_power": self.all_lose_power,
            "hand_over": self.hand_over,
            "flip_record": self.flip_record,
            "spoil_page": self.spoil_page,
            "flip_place": self.flip_place,
            "flip_entry": self.flip_entry,
            "zero_entries": self.zero_entries,
            "spoil_entries": self.spoil_entries,
            "remove_queues": self.remove_queues,
            "empty_queue_file": self.empty_queue_file,
            "damage_ends": self.damage_ends,
            "java": self.java,
            "wipe": self.wipe,
            "clock_jump": self.clock_jump,
            "no_descriptors": self.no_descriptors,
            "gap": self.gap,
        }

    def _any(self) -> Replica:
        return self.realm.replicas[self.world.between(0, len(self.realm.replicas) - 1)]

    # -- processes and machines

    def kill(self) -> bool:
        """kill -9 and a start."""
        replica = self._any()
        self._down(replica, lambda: replica.stop(clean=False))
        self._up(replica, same_boot=True)
        return True

    def stop(self) -> bool:
        """An orderly end and a start, maybe of the machine."""
        replica = self._any()
        self._down(replica, lambda: replica.stop(clean=True))
        self._up(replica, same_boot=self.world.one_in(2))
        return True

    def lose_power(self) -> bool:
        """One machine; where it is alone, what was flushed is left."""
        replica = self._any()
        if self.realm.in_sync == {replica.number}:
            return self._set_loses_power()
        if self._forgets_ends(replica):
            return False
        self._lose_power_of(replica)
        return True

    def all_lose_power(self) -> bool:
        """Every machine at once."""
        return self._set_loses_power()

    def _lose_power_of(self, replica: Replica) -> None:
        self._down(
            replica,
            lambda: self.world.count("power.bytes_lost", replica.lose_power(self.world.chance)),
        )
        self._up(replica, same_boot=False)

    def _set_loses_power(self) -> bool:
        realm, members = (
            self.realm,
            [self.realm.replicas[number] for number in sorted(self.realm.in_sync)],
        )
        if any(map(self._forgets_ends, members)):
            return False
        realm.linked.clear()
        for one in members:
            self.world.count("power.bytes_lost", one.lose_power(self.world.chance))
        for one in members:
            one.start(same_boot=False)
            self._note_start(one)
        realm.left_alone(max(self._lasting(one) for one in members))
        for one in members:
            if one.number != realm.lead:
                realm.leave(one)
        return True

    def _lasting(self, replica: Replica) -> int:
        """Up to where a start after a loss of power has to keep the log: damage at the very end of
        it may cost what it hit.
        """
        end = replica.flushed_end
        hit = sorted(replica.damaged | replica.altered)
        records = [
            one for slots in self.realm.ledger.acknowledged.values() for one in slots.values()
        ]
        reach = {one.start: one.end for one in records}
        while hit and (start := hit.pop()) is not None:
            if reach.get(start, -1) >= replica.opened.log_end and start >= replica.opened.log_end:
                end = min(end, start)
        return end

    def _down(self, replica: Replica, go: Callable[[], object]) -> None:
        """Where others hold all, one of them leads meanwhile, mostly."""
        others = self.realm.others(replica)
        go()
        if replica.number == self.realm.lead and others:
            self.realm.elect(self.world.chance.choice(others))
        self.realm.leave(replica)

    def _up(self, replica: Replica, *, same_boot: bool) -> None:
        realm = self.realm
        replica.start(same_boot=same_boot)
        self._note_start(replica)
        if replica.number == realm.lead:  # it was alone
            hit = {
                one for one in replica.damaged | replica.altered if one >= replica.opened.log_end
            }
            realm.confirmed = min([realm.confirmed, *hit])
            realm.elect(replica)

    def _note_start(self, replica: Replica) -> None:
        report = replica.opened.recovery
        self.world.note(f"{replica.name} starts: {report}")
        self.world.count("start.damaged", len(report.damaged))

    def hand_over(self) -> bool:
        """Another member leads although the leader lives."""
        others = self.realm.others(self.realm.leader)
        if others:
            self.realm.elect(self.world.chance.choice(others))
        return bool(others)

    def wipe(self) -> bool:
        """A replica begins anew, on an empty disk."""
        others = [one for one in self.realm.replicas if one.number not in self.realm.in_sync]
        if not others:
            return False
        replica = self.world.chance.choice(others)
        self._down(replica, lambda: replica.stop(clean=False))
        shutil.rmtree(replica.root)
        replica.damaged, replica.altered, replica.epochs = set(), set(), type(replica.epochs).of()
        self._up(replica, same_boot=True)
        return True

    def clock_jump(self) -> bool:
        """The wall clock of whoever leads goes back or on."""
        if self.realm.shape.java:  # its checkpoint tells by time what is durable
            return False
        self.realm.clock_ms += self.world.between(-CLOCK_JUMP_MS, CLOCK_JUMP_MS)
        return True

    def no_descriptors(self) -> bool:
        """For some sends and copies no file can be opened."""
        realm = self.realm
        realm.medium.short_of_descriptors = True
        try:
            for _ in range(self.world.between(1, 5)):
                realm.send()
        finally:
            realm.medium.short_of_descriptors = False
            realm.leader.opened.log.ask_for_room()
            realm.leader.opened.log.disk_full = None
        return True

    def gap(self) -> bool:
        """Somebody knew a queue to be further: its next messages come behind a gap."""
        store = self.realm.leader.opened
        ids = store.queue_ids()
        if not ids:
            return False
        key = self.world.chance.choice(ids)
        pending = sum(one.key == key for one in self.realm.ledger.pending)
        store.ends.note(
            store.queues,
            {key: store.queue_bounds(*key)[1] + pending + self.world.chance.choice((1, 5, 40))},
        )
        return True

    # -- bytes that change

    def _message(self, replica: Replica) -> Message | None:
        """One that was durable here, in a file without damage: of two places in a file nothing
        proves what lies between.
        """
        size = self.realm.shape.file_bytes
        hit = {start // size for start in replica.damaged | replica.altered}
        known = [
            one
            for one in self.realm.ledger.kept(replica.opened)
            if one.end <= replica.opened.durable_offset
            and one.start // size not in hit
            and one.start not in replica.misled
        ]
        return self.world.chance.choice(known) if known else None

    def flip_record(self) -> bool:
        """A bit of a header, a body or properties."""
        replica = self._any()
        one = self._message(replica)
        if one is None:
            return False
        at = one.start + self._place_to_flip(one)
        path, position = self._log_place(replica, at)
        self._flip(path, position)
        replica.damaged.add(one.start)
        replica.altered.add(one.start)
        self.world.note(f"{replica.name}: a bit at {at}, in the message at {one.start}")
        return True

    def flip_place(self) -> bool:
        """A bit of a header's queue id or queue offset, as a start after a kill finds it. The entry
        says where the message lies: no queue begins or grows by it. Then the bit is put back, for
        the format has no checksum over it.
        """
        replica = self._any()
        one = self._message(replica)
        if one is None:
            return False
        before = self._ends(replica)
        # a start may take for confirmed what waited for it when the process was killed
        for waits in self.realm.ledger.pending:
            before[waits.key] = max(before.get(waits.key, 0), waits.slot + 1)
        at = one.start + self.world.chance.choice(PLACE_BYTES)
        bit = 1 << self.world.between(0, 7)
        path, position = self._log_place(replica, at)
        self.world.note(f"{replica.name}: a bit at {at}, where a header names its place")
        for turn in (True, False):
            self._down(replica, lambda: replica.stop(clean=False))
            self._turn(path, position, bit)
            self._up(replica, same_boot=True)
            if turn:
                self._grew_by_nothing(replica, before)
        return True

    def _ends(self, replica: Replica) -> dict[tuple[str, int], int]:
        store = replica.opened
        return {key: store.queue_bounds(*key)[1] for key in store.queue_ids()}

    def _grew_by_nothing(self, replica: Replica, before: Mapping[tuple[str, int], int]) -> None:
        """No queue ends behind all that was ever given in it, or is remembered of it."""
        ledger, remembered = self.realm.ledger, replica.opened.ends.remembered
        for key, end in self._ends(replica).items():
            known = [slot + 1 for slot in ledger.acknowledged.get(key, ())]
            if remembered is not None and key in remembered.ends:
                known.append(remembered.ends[key].slot)
            most = max([before.get(key, 0), *known])
            if end > most:
                raise InvariantBroken(f"{replica.name}: queue {key} ends at {end}, {most} before")

    def _turn(self, path: Path, position: int, bit: int) -> None:
        with path.open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ bit]))
        self.realm.medium.settle(path)

    def _place_to_flip(self, one: Message) -> int:
        """Not in its topic, over which the format has no checksum: it would be another queue's
        message.
        """
        body_end = 88 + int.from_bytes(one.data[84:88], "big")
        behind_topic = body_end + 1 + len(one.key[0])
        free = [*range(88, body_end), *range(behind_topic, len(one.data))]
        return self.world.chance.choice(HEADER_BYTES if self.world.one_in(2) else free)

    def spoil_page(self) -> bool:
        """A page of the log cannot be read: all messages in it are damaged."""
        replica = self._any()
        one = self._message(replica)
        if one is None or self.realm.shape.file_bytes % PAGE_BYTES:
            return False
        path, position = self._log_place(replica, self.world.between(one.start, one.end - 1))
        first = (
            one.start - one.start % self.realm.shape.file_bytes + position - position % PAGE_BYTES
        )
        hit = [
            other
            for slots in self.realm.ledger.acknowledged.values()
            for other in slots.values()
            if other.start < first + PAGE_BYTES and other.end > first
        ]
        if (
            any(other.end > replica.opened.durable_offset for other in hit)
            or first + PAGE_BYTES > replica.opened.durable_offset
        ):
            return False
        self.realm.medium.spoil(path, position)
        replica.damaged.update(other.start for other in hit)
        self.world.note(f"{replica.name}: page at {first} cannot be read")
        return True

    def _log_place(self, replica: Replica, at: int) -> tuple[Path, int]:
        start = at - at % self.realm.shape.file_bytes
        return replica.opened.log.file_paths[start], at - start

    def _flip(self, path: Path, position: int) -> None:
        self._turn(path, position, 1 << self.world.between(0, 7))

    def _entry(self, replica: Replica, first: int) -> tuple[Path, int] | None:
        """File and position of an entry whose place in its queue is remembered elsewhere, too. Not
        of the first one: a bit may make it one of a message that was deleted.
        """
        remembered = replica.opened.ends.remembered
        known = [
            one
            for one in self.realm.ledger.kept(replica.opened)
            if remembered is not None
            and one.key in remembered.ends
            and one.slot < remembered.ends[one.key].slot
            and one.end <= min(remembered.offset, replica.opened.durable_offset)
            and one.slot > replica.opened.queue_bounds(*one.key)[0] + first
            and one.start not in replica.damaged | replica.altered | replica.misled
        ]
        if not known:
            return None
        one = self.world.chance.choice(known)
        replica.misled.add(one.start)
        size, at = self.realm.shape.queue_file_bytes, one.slot * ENTRY_BYTES
        return replica.root / "consumequeue" / one.key[0] / str(
            one.key[1]
        ) / f"{at - at % size:020d}", at % size

    def flip_entry(self) -> bool:
        """A bit of a queue's entry. Not one that makes it lead to another place of the log: it may
        look deleted then. Of a message that is damaged itself only one of both says where it lies.
        """
        replica = self._any()
        place = self._entry(replica, 0)
        if place is None or not place[0].exists():
            return False
        self._flip(place[0], place[1] + self.world.chance.choice((0, 1, 2, 3, 8, 9, 10, 11)))
        self.world.note(
            f"{replica.name}: a bit of {place[0].relative_to(replica.root)} at {place[1]}"
        )
        return True

    def zero_entries(self) -> bool:
        """An entry is zeros."""
        replica = self._any()
        place = self._entry(replica, -1)
        if place is None or not place[0].exists():
            return False
        with place[0].open("r+b") as file:
            file.seek(place[1])
            file.write(bytes(ENTRY_BYTES))
        self.realm.medium.settle(place[0])
        self.world.note(
            f"{replica.name}: zeros in {place[0].relative_to(replica.root)} at {place[1]}"
        )
        return True

    def spoil_entries(self) -> bool:
        """A page of a queue's file cannot be read, all of whose entries are remembered elsewhere,
        too.
        """
        replica = self._any()
        place = self._entry(replica, 0)
        if place is None or not place[0].exists():
            return False
        size, start = self.realm.shape.queue_file_bytes, int(place[0].name)
        first = place[1] - place[1] % PAGE_BYTES
        slots = range(
            (start + first) // ENTRY_BYTES, (start + min(first + PAGE_BYTES, size)) // ENTRY_BYTES
        )
        key = place[0].parent.parent.name, int(place[0].parent.name)
        ends = replica.opened.ends.remembered
        if ends is None or slots[-1] >= ends.ends[key].slot:
            return False
        self.realm.medium.spoil(*place)
        known = self.realm.ledger.acknowledged.get(key, {})
        replica.misled.update(known[slot].start for slot in slots if slot in known)
        self.world.note(
            f"{replica.name}: page of {place[0].relative_to(replica.root)} at {first} cannot be "
            "read"
        )
        return True

    # -- files that change while nobody uses them

    def _between_lives(self, change: Callable[[Replica], None]) -> bool:
        replica = self._any()
        self._down(replica, lambda: replica.stop(clean=self.world.one_in(2)))
        change(replica)
        self._up(replica, same_boot=True)
        return True

    def remove_queues(self) -> bool:
        """The whole consumequeue folder goes."""

        def change(replica: Replica) -> None:
            if self._ends_are_sound(replica):
                shutil.rmtree(replica.root / "consumequeue", ignore_errors=True)

        return self._between_lives(change)

    def _ends_are_sound(self, replica: Replica) -> bool:
        """Where queues go on is kept twice; one of both is left."""
        path = replica.root / QUEUE_ENDS_NAME
        return path.exists() and decode(path.read_bytes()) is not None

    def empty_queue_file(self) -> bool:
        """A queue's file has 0 bytes, as a damaged file system leaves it."""

        def change(replica: Replica) -> None:
            files = sorted((replica.root / "consumequeue").glob("*/*/*"))
            if files and self._ends_are_sound(replica):
                path = self.world.chance.choice(files)
                path.write_bytes(b"")
                self.realm.medium.settle(path)

        return self._between_lives(change)

    def _forgets_ends(self, replica: Replica) -> bool:
        """Its file queueEnds was damaged and not written since: its queues' files are the only
        memory of their ends.
        """
        replica.ends_damaged = replica.ends_damaged and not self._ends_are_sound(replica)
        return replica.ends_damaged

    def _files_say_all(self, replica: Replica) -> bool:
        """No queue goes on where only queueEnds says."""
        store = replica.opened
        bare = any(queue.max_offset and queue.is_bare() for _, queue in store.queues)
        return not store.ends.floors and not bare and not replica.misled

    def damage_ends(self) -> bool:
        """The file queueEnds is damaged, or gone."""

        def change(replica: Replica) -> None:
            path = replica.root / QUEUE_ENDS_NAME
            if not said[replica.number]:
                return
            replica.ends_damaged = True
            if path.exists() and self.world.one_in(2):
                self._flip(path, self.world.between(0, path.stat().st_size - 1))
            else:
                path.unlink(missing_ok=True)
                self.realm.medium.settle(path)

        said = [self._files_say_all(one) for one in self.realm.replicas]
        return self._between_lives(change)

    def java(self) -> bool:
        """A Java broker had the folder: no file queueEnds, and its checkpoint."""
        if not self.realm.shape.java:
            return False

        def change(replica: Replica) -> None:
            if not said[replica.number]:
                return
            replica.ends_damaged = True
            (replica.root / QUEUE_ENDS_NAME).unlink(missing_ok=True)
            path = replica.root / CHECKPOINT_NAME
            if path.exists():
                known = read_checkpoint(path)
                path.write_bytes(
                    encode_checkpoint(
                        Checkpoint(known.log_ms, known.queues_ms, 0, None, known.confirm_offset)
                    )
                )
                self.realm.medium.settle(path)

        said = [self._files_say_all(one) for one in self.realm.replicas]
        return self._between_lives(change)
