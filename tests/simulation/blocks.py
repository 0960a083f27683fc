"""A block device with a write-back cache, and small files with the life of inodes and names.

Responsible for: what a sync makes safe, and what a power loss may do to the rest, block by block
and in no order.
Refuses to know: what the bytes mean, who writes them.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.world import World

BLOCK_BYTES = 512
KEPT, LOST, TORN = range(3)


class PowerCut(Exception):
    """The machine is dark from here on; whoever writes must let everything go."""


class Blocks:
    """`cached` is what the process reads; a block that was written since its last sync may be
    there, or not, or in part.
    """

    def __init__(self) -> None:
        self.cached = bytearray()
        self._stable = bytearray()
        self._dirty: set[int] = set()

    def append(self, data: bytes | memoryview) -> None:
        first = len(self.cached) // BLOCK_BYTES
        self.cached += data
        self._dirty.update(range(first, (len(self.cached) - 1) // BLOCK_BYTES + 1))

    def dirty(self) -> frozenset[int]:
        """What a sync that begins now has to write."""
        return frozenset(self._dirty)

    def sync(self, blocks: frozenset[int]) -> None:
        """These are on the medium, with what they hold now."""
        self._stable.extend(bytes(max(0, len(self.cached) - len(self._stable))))
        for block in blocks & self._dirty:
            part = slice(block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, len(self.cached)))
            self._stable[part] = self.cached[part]
        self._dirty -= blocks

    def cut(self, to_offset: int, sync_from: int) -> None:
        """Zeroes from `to_offset` on, durably; the file that begins at `sync_from` is synced with
        it.
        """
        del self.cached[to_offset:], self._stable[to_offset:]
        last = (to_offset - 1) // BLOCK_BYTES
        self._dirty = {block for block in self._dirty if block <= last}
        self.sync(frozenset(block for block in self._dirty if block * BLOCK_BYTES >= sync_from))

    def begin_at(self, offset: int) -> None:
        """An empty device whose first bytes come at `offset`."""
        self.cached[:] = self._stable[:] = bytes(offset)
        self._dirty.clear()

    def forget(self, start: int, end: int) -> None:
        """These bytes are deleted, here and on the medium."""
        self.cached[start:end] = bytes(end - start)
        self._stable.extend(bytes(max(0, end - len(self._stable))))
        self._stable[start:end] = bytes(end - start)
        self._dirty -= set(range(start // BLOCK_BYTES, end // BLOCK_BYTES))

    def is_stable(self, start: int, end: int) -> bool:
        """Whether these bytes would survive."""
        return self._stable[start:end] == self.cached[start:end]

    def flip(self, at: int, bit: int) -> None:
        """One bit changes on the medium, and for whoever reads it."""
        self.cached[at] ^= 1 << bit
        self._stable[at] ^= 1 << bit

    def lose_power(self, world: World) -> int:
        """Each unsynced block for itself is kept, lost or torn; the bytes lost."""
        lost = 0
        self._stable.extend(bytes(max(0, len(self.cached) - len(self._stable))))
        for block in sorted(self._dirty):
            start, end = block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, len(self.cached))
            fate = world.between(KEPT, TORN)
            border = {KEPT: end, LOST: start, TORN: world.between(start, end)}[fate]
            self._stable[start:border] = self.cached[start:border]
            lost += end - border
            world.count(f"block.{('kept', 'lost', 'torn')[fate]}")
        self.cached[:] = self._stable
        self._dirty.clear()
        return lost


class SmallFiles:
    """Files by name; `moved` is called before each single operation and may end it with
    PowerCut.
    """

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._contents: list[tuple[bytes, bytes]] = []  # by inode: (as read, as synced)
        self._names: dict[str, int] = {}
        self._stable_names: dict[str, int] = {}
        self._renames: list[tuple[str, int]] = []

    def read(self, name: str) -> bytes | None:
        return self._contents[self._names[name]][0] if name in self._names else None

    def write(self, name: str, data: bytes) -> None:
        """A new file of that name, in the cache only."""
        self._moved()
        self._contents.append((data, b""))
        self._names[name] = len(self._contents) - 1

    def sync(self, name: str) -> None:
        self._moved()
        inode = self._names[name]
        self._contents[inode] = (self._contents[inode][0],) * 2

    def rename(self, name: str, to: str) -> None:
        """At once for readers, after a sync of the folder for good."""
        self._moved()
        inode = self._names.pop(name)
        self._names[to] = inode
        self._renames.append((to, inode))

    def remove(self, name: str) -> None:
        """Gone at once and for good, if it was there."""
        self._names.pop(name, None)
        self._stable_names.pop(name, None)

    def sync_folder(self) -> None:
        self._moved()
        self._stable_names.update(self._renames)
        self._renames.clear()

    def replace(self, name: str, data: bytes) -> None:
        """What `brokers.store.files.durable.replace_file` does (S12)."""
        beside = name + ".tmp"
        self.write(beside, data)
        self.sync(beside)
        self.rename(beside, name)
        self.sync_folder()

    def lose_power(self, world: World) -> None:
        """Unsynced contents are whole, torn or gone; of unsynced renames the later ones may
        vanish.
        """
        kept = world.between(0, len(self._renames))
        world.count("rename.lost", len(self._renames) - kept)
        self._stable_names.update(self._renames[:kept])
        self._renames.clear()
        self._names = dict(self._stable_names)
        for name, inode in sorted(self._names.items()):
            cached, stable = self._contents[inode]
            if cached != stable:
                cached = cached[: world.between(0, len(cached))]
            self._contents[inode] = (cached, cached)
            self._names[name] = inode
