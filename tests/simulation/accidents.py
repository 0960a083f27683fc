"""Disks and power that go, at any time, as long as each acknowledged message keeps another intact
holder.

Responsible for: README's budget of disks and power, and how a disk comes back: empty, with its
identity alone, as it was once, without one of its files. Refuses to know: who is killed, paused or
cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.ha.epoch_file import parse_epochs
from brokers.ha.epochs import EpochHistory
from processors.fold.decide_positions import position_of
from tests.simulation import disk_faults
from tests.simulation.disk import EPOCH_SEEN, EPOCHS, EPOCHS_BACKUP, IDENTITY, MARKER

if TYPE_CHECKING:
    from processors.fold.state import BrokerSet
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.disk import SimulatedDisk
    from tests.simulation.faults import Faults

CLEANED_LATE_MS, CLEANED_DOWN_MS = (0, 6_000), (7_000, 9_000)
EMPTIED_MS = (1_000, 12_000)
WISH_HEARD_MS = 15_000
FILES = (IDENTITY, MARKER, EPOCHS, EPOCHS_BACKUP, EPOCH_SEEN)


class Accidents:
    """Some of the kinds of faults of one world."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.cluster, self.world = faults, faults.cluster, faults.world
        self._copies: dict[str, SimulatedDisk] = {}
        self._wished_away: list[tuple[BrokerNode, int]] = []  # and until when the wish may be heard

    def kinds(self) -> list[tuple[str, Callable[[], None]]]:
        """By name, in an order that never changes by itself."""
        return [
            ("lose_power", self._lose_power),
            ("wipe_disk", self._wipe_disk),
            ("disk_error", self._disk_error),
            ("bit_flip", self._bit_flip),
            ("power_within_write", self._power_within_write),
            ("identity_alone", self._identity_alone),
            ("keep_a_copy", self._keep_a_copy),
            ("older_copy", self._older_copy),
            ("lose_file", self._lose_file),
            ("blackout", self._blackout),
            ("clean", self._clean),
        ]

    def _victim(self) -> BrokerNode | None:
        """A running replica whose disk or power the budget allows to go now."""
        node = self.world.chance.choice(self.cluster.brokers)
        self._wished_away = [
            (one, until_ms) for one, until_ms in self._wished_away if until_ms > self.world.now_ms
        ]
        wished_away = [one for one, _ in self._wished_away if one is not node]
        return (
            node if node.up and self.cluster.checkers.holders.may_go(node, *wished_away) else None
        )

    def _did(self, name: str, node: BrokerNode, what: str) -> None:
        self.world.note(f"   {node.name} {what}")
        self.world.count(f"fault.{name}")

    def _lose_power(self) -> None:
        node = self._victim()
        if node is not None:
            self._did("lose_power", node, "loses its power")
            node.lose_power()
            self.faults.restart_later(node)

    def _wipe_disk(self) -> None:
        node = self._victim()
        if node is not None:
            self._did("wipe_disk", node, "loses its disk")
            self._lose_disk(node, keep_identity=False)

    def _identity_alone(self) -> None:
        """The disk is replaced, and only `brokerIdentity` comes back."""
        node = self._victim()
        if node is not None and node.disk.identity is not None:
            self._did("identity_alone", node, "loses its disk, its identity is put back")
            self._lose_disk(node, keep_identity=True)

    def _lose_disk(self, node: BrokerNode, *, keep_identity: bool) -> None:
        node.stop()
        node.disk.wipe(keep_identity=keep_identity)
        self._disk_changed(node)

    def _disk_changed(self, node: BrokerNode) -> None:
        self.cluster.checkers.forget_epochs(node.name)
        self.cluster.checkers.lost_by_accident(node)
        self.faults.restart_later(node)

    def _keep_a_copy(self) -> None:
        node = self.world.chance.choice(self.cluster.brokers)
        if node.up and node.disk.identity is not None:
            self._did("keep_a_copy", node, "is copied")
            self._copies.setdefault(node.name, node.disk.copy())

    def _older_copy(self) -> None:
        """A backup is restored, or a volume reverted, to less than what its replica showed in
        decisions since (README).
        """
        node = self._victim()
        copy = self._copies.get(node.name) if node is not None else None
        if node is None or copy is None or not self._shows_less(copy):
            return
        del self._copies[node.name]
        if copy.identity != node.disk.identity:
            return
        self._did("older_copy", node, "gets an older copy of its disk")
        node.stop()
        copy.boot_id, copy.distrusted = node.disk.boot_id, True
        node.disk = copy
        self._disk_changed(node)

    def _shows_less(self, copy: SimulatedDisk) -> bool:
        known = self._newest_set()
        replica = (
            known.replica(copy.identity.broker_id)
            if known is not None and copy.identity is not None
            else None
        )
        if known is None or replica is None:
            return False
        row = position_of(known.positions, replica.broker_id)
        shown = (replica.last_epoch, replica.end_offset)
        shown = shown if row is None else max(shown, (row.epoch, row.end_offset))
        epochs = parse_epochs(copy.epochs) if copy.epochs else EpochHistory()
        return (epochs.newest_epoch, copy.log_end) < shown

    def _lose_file(self) -> None:
        """Somebody deletes one file of the store folder."""
        node = self._victim()
        if node is not None and node.disk.identity is not None:
            name = self.world.chance.choice(FILES)
            self._did("lose_file", node, f"loses {name}")
            self.world.count(f"file_lost.{name}")
            node.stop()
            node.disk.remove(name)
            node.disk.distrusted = True
            self._disk_changed(node)

    def _blackout(self) -> None:
        """The power of all goes at once. What was flushed is owed all the same."""
        holders = self.cluster.checkers.holders
        holders.copied()
        if not self.set_is_whole():
            return
        holders.all_go_dark()
        for node in self.cluster.brokers:
            node.lose_power()
            self.faults.restart_later(node)
        self._did("blackout", self.cluster.brokers[0], "and all others lose their power")

    def _newest_set(self) -> BrokerSet | None:
        newest = max(self.cluster.controllers, key=lambda node: node.folder.offset)
        return newest.folder.state.sets.get(self.cluster.set_name)

    def set_is_whole(self) -> bool:
        """Every replica up, trusted, and in the set as the log knows it."""
        known = self._newest_set()
        return known is not None and all(
            node.core is not None
            and node.core.clean
            and node.disk.power_in is None
            and node.broker_id in known.sync_state_set
            and node.incarnation == getattr(known.replica(node.broker_id or 0), "incarnation", None)
            for node in self.cluster.brokers
        )

    def _clean(self) -> None:
        """An operator cleans a replica: one that is down a while, or lives all the same. It counts
        as a lost disk, for who was cleaned must begin with an empty folder.
        """
        node = self._victim()
        if node is None or node.broker_id is None:
            return
        living, broker_id = self.world.one_in(2), node.broker_id
        self._wished_away.append((node, self.world.now_ms + WISH_HEARD_MS))
        self._did("clean", node, f"is to be cleaned{', though it lives' if living else ''}")
        if not living:
            node.stop()
            self.world.after(self.world.between(*CLEANED_DOWN_MS), lambda: node.up or node.start())
        self.world.after(
            0 if living else self.world.between(*CLEANED_LATE_MS),
            lambda: self.faults.operator.clean(broker_id, living=living),
        )
        self.world.after(self.world.between(*EMPTIED_MS), self.empty_the_cleaned)

    def empty_the_cleaned(self) -> None:
        """Whose id the log has forgotten begins anew."""
        known = self._newest_set()
        for node in self.cluster.brokers:
            identity = node.disk.identity
            if (
                known is not None
                and identity is not None
                and known.replica(identity.broker_id) is None
            ):
                self.world.note(f"   {node.name} was cleaned and is emptied")
                self.world.count("replica.emptied")
                self._lose_disk(node, keep_identity=False)

    def _disk_error(self) -> None:
        """One write is refused. It counts as a lost disk: what was written before cannot be vouched
        for.
        """
        node = self._victim()
        if node is not None:
            self._did("disk_error", node, "has a disk that refuses a write")
            node.disk.errors_due = 1

    def _power_within_write(self) -> None:
        node = self._victim()
        if node is not None:
            disk_faults.arm(self.world, node)

    def _bit_flip(self) -> None:
        """It counts as a lost disk: only a start that reads it finds it."""
        node = self._victim()
        if node is not None and disk_faults.flip(self.world, node):
            self._did("bit_flip", node, "has a bit turned over, and dies")
            node.stop()
            self.faults.restart_later(node)
