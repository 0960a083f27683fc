"""The simulated disk keeps what was synced, whatever happens to the rest, and really hurts the
rest.
"""

from __future__ import annotations

import itertools

import pytest

from tests.simulation.blocks import BLOCK_BYTES, Blocks, PowerCut, SmallFiles
from tests.simulation.world import World

WORLDS = range(60)


def written(blocks: int, synced: int) -> Blocks:
    device = Blocks()
    device.append(b"s" * BLOCK_BYTES * synced)
    device.sync(device.dirty())
    device.append(b"u" * BLOCK_BYTES * (blocks - synced))
    return device


def after_power_loss(seed: int) -> list[bytes]:
    device = written(6, 2)
    device.lose_power(World(seed))
    data = bytes(device.cached)
    return [data[start : start + BLOCK_BYTES] for start in range(0, len(data), BLOCK_BYTES)]


def test_synced_blocks_survive_and_others_are_kept_lost_or_torn_in_any_order() -> None:
    fates = set()
    holes = 0
    for seed in WORLDS:
        blocks = after_power_loss(seed)
        assert blocks[:2] == [b"s" * BLOCK_BYTES] * 2
        kept = [block.strip(b"\0") for block in blocks[2:]]
        assert all(set(part) <= {ord("u")} for part in kept)
        fates |= {
            "kept" if len(part) == BLOCK_BYTES else "torn" if part else "lost" for part in kept
        }
        holes += any(not early and late for early, late in itertools.pairwise(kept))
    assert fates == {"kept", "lost", "torn"}
    assert holes, "no later block ever outlived an earlier one"


def test_the_same_seed_loses_the_same_bytes() -> None:
    assert after_power_loss(7) == after_power_loss(7)
    assert len({tuple(after_power_loss(seed)) for seed in WORLDS}) > 10


def test_a_cut_is_durable_and_a_sync_covers_only_what_it_began_with() -> None:
    device = written(4, 1)
    begun = device.dirty()
    device.append(b"x" * BLOCK_BYTES)
    device.sync(begun)
    assert device.is_stable(0, 4 * BLOCK_BYTES)
    assert not device.is_stable(4 * BLOCK_BYTES, 5 * BLOCK_BYTES)
    device.cut(BLOCK_BYTES + 10, 0)
    device.lose_power(World(1))
    assert bytes(device.cached) == b"s" * BLOCK_BYTES + b"u" * 10


def cut_after(operations: int) -> SmallFiles:
    left = [operations]

    def moved() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PowerCut

    files = SmallFiles(moved)
    files.replace("a", b"old")
    with pytest.raises(PowerCut):
        files.replace("a", b"new content")
    return files


@pytest.mark.parametrize("operations", range(4, 8))
def test_a_replaced_file_holds_the_old_or_the_new_bytes_wherever_the_power_goes(
    operations: int,
) -> None:
    seen = set()
    for seed in WORLDS:
        files = cut_after(operations)
        files.lose_power(World(seed))
        seen.add(files.read("a"))
    assert seen == ({b"old", b"new content"} if operations == 7 else {b"old"})


def test_without_the_sync_of_the_content_a_rename_may_leave_a_torn_file() -> None:
    seen = set()
    for seed in WORLDS:
        files = SmallFiles(lambda: None)
        files.replace("a", b"old")
        files.write("a.tmp", b"new content")
        files.rename("a.tmp", "a")
        files.sync_folder()
        files.lose_power(World(seed))
        seen.add(files.read("a"))
    assert any(data is not None and data != b"old" and data != b"new content" for data in seen)
