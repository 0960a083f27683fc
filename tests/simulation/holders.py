"""Who holds what was promised: each acknowledged message with the members that have it on an
intact disk.

Responsible for: striking out a holder whose disk or power took the bytes, and taking it in again
when it copied them anew; whether a loss is excused, and whether one more disk or power may go
(README, "What is promised").
Refuses to know: epochs, elections, which fault it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster

OFFSET = slice(28, 36)


class Promise:
    """Bytes at an offset that a client was told of, and the names of those that can answer for
    them.
    """

    __slots__ = ("data", "end", "holders", "offset")

    def __init__(self, offset: int, data: bytes) -> None:
        self.offset, self.data, self.end = offset, data, offset + len(data)
        self.holders: set[str] = set()

    def is_on(self, node: BrokerNode) -> bool:
        """A disk without its identity is another replica's."""
        return node.disk.identity is not None and node.disk.log[self.offset : self.end] == self.data


class Holders:
    """Promises by (offset, bytes), in the order in which they were made.

    Nothing but an accident strikes a holder out: what the product itself cuts away stays owed.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self._promises: dict[tuple[int, bytes], Promise] = {}
        self.excuses = 0

    def promised(self, offset: int, data: bytes) -> None:
        """From now on these bytes are owed by every intact member that has them."""
        if (offset, data) not in self._promises:
            made = self._promises[offset, data] = Promise(offset, data)
            self._enter([made])

    def shown(self, data: bytes) -> None:
        """A client has read this message: it is as good as acknowledged."""
        self.promised(int.from_bytes(data[OFFSET], "big"), data)

    def copied(self) -> None:
        """Who has bytes again that it had lost, and vouches for them as a member, answers for them
        again.
        """
        self._enter(self._owed())

    def took(self, node: BrokerNode) -> None:
        """An accident has just changed this disk."""
        for promise in self._promises.values():
            if node.name in promise.holders and not promise.is_on(node):
                self._strike(promise, node.name)

    def untrusted(self, node: BrokerNode, above: int) -> None:
        """What a disk lost track of in an accident is given up, to be copied again."""
        for promise in self._promises.values():
            if promise.end > above:
                self._strike(promise, node.name)

    def all_go_dark(self) -> None:
        """The power of all is about to go: what not all of them have flushed may be gone, for of
        two copies that were being written nobody can tell which one is whole (README: power of all
        members in one moment).
        """
        for promise in self._promises.values():
            if not all(
                node.disk.is_stable(promise.offset, promise.end)
                for node in self.cluster.brokers
                if node.name in promise.holders
            ):
                for name in list(promise.holders):
                    self._strike(promise, name)

    def chosen_by_an_operator(self, node: BrokerNode) -> None:
        """An unclean choice: what this replica has not got was given up by name."""
        for promise in self._promises.values():
            if promise.holders and not promise.is_on(node):
                promise.holders.clear()
                self.excuses += 1
                self.world.count("loss.excused_by_operator")

    def may_go(self, *nodes: BrokerNode) -> bool:
        """README's sentence: each promise keeps an intact holder when the disks or the power of all
        these go.
        """
        self.copied()
        names = {node.name for node in nodes}
        intact = {node.name for node in self.cluster.brokers if node.disk.is_intact} - names
        return all(promise.holders & intact for promise in self._owed())

    def excuse(self, offset: int, data: bytes) -> bool:
        """Whether these bytes may be gone: each member that held them lost them by an accident, or
        they are old enough.
        """
        promise = self._promises.get((offset, data))
        return (
            promise is not None and not promise.holders
        ) or offset < self.cluster.checkers.ledger.gone_below

    def of(self, offset: int, data: bytes) -> str:
        """Who should have them, for people."""
        promise = self._promises.get((offset, data))
        return ", ".join(sorted(promise.holders)) if promise is not None else "nobody"

    def whole_holder(self) -> str | None:
        """A replica that is up, vouches for its log and has all that is owed; None without one."""
        self.copied()
        owed = self._owed()
        for node in self.cluster.brokers:
            if (
                node.up
                and not node.paused
                and not node.disk.distrusted
                and all(node.name in one.holders and one.is_on(node) for one in owed)
            ):
                return node.name
        return None

    # -- inside ------------------------------------------------------------------------------------

    def _owed(self) -> list[Promise]:
        gone = self.cluster.checkers.ledger.gone_below
        return [one for one in self._promises.values() if one.holders and one.offset >= gone]

    def _strike(self, promise: Promise, name: str) -> None:
        if name in promise.holders:
            promise.holders.discard(name)
            self.world.count("holder.struck")
            if not promise.holders:
                self.excuses += 1
                self.world.count("loss.excused")

    def _enter(self, promises: list[Promise]) -> None:
        """Members in the eyes of the log or of whoever leads; a restored disk holds what is on it,
        once its start vouches for it.
        """
        members = self._members()
        for node in self.cluster.brokers:
            if (
                node.disk.identity is None
                or node.disk.distrusted
                or node.disk.identity.broker_id not in members
            ):
                continue
            for promise in promises:
                if node.name not in promise.holders and promise.is_on(node):
                    promise.holders.add(node.name)

    def _members(self) -> set[int]:
        newest = max(self.cluster.controllers, key=lambda node: node.folder.offset)
        known = newest.folder.state.sets.get(self.cluster.set_name)
        members = set() if known is None else set(known.sync_state_set)
        for node in self.cluster.brokers:
            if node.core is not None and node.core.is_master:
                members |= set(node.core.sync_state_set)
        # Who was cleaned away is none, whatever its master has heard.
        return (
            members if known is None else {one for one in members if known.replica(one) is not None}
        )
