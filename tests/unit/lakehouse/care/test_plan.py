from collections.abc import Sequence

import pytest

from lakehouse.care.plan import (
    FILES_PER_TIER_MAX,
    LARGE_BYTES,
    TIERS_BYTES,
    DataFile,
    Partition,
    Rewrite,
    rewrites,
)

COMMANDS: Partition = (("cluster_id", "c"), ("topic", "regent.commands"))
EVENTS: Partition = (("cluster_id", "c"), ("topic", "regent.broker-events"))
TINY, SMALL = TIERS_BYTES[:2]
BY = ("cluster_id", "broker_name")


def files(partition: Partition, *sizes: int) -> list[DataFile]:
    return [DataFile(partition, size) for size in sizes]


def merged(sizes: Sequence[int], target: int) -> tuple[list[int], int]:
    """What a writer leaves that fills files up to the target in order, and how much it wrote; a
    file alone it leaves as it is.
    """
    left = [size for size in sizes if size >= target]
    groups: list[list[int]] = [[]]
    for size in (size for size in sizes if size < target):
        if sum(groups[-1]) + size > target:
            groups.append([])
        groups[-1].append(size)
    return [*left, *filter(None, map(sum, groups))], sum(
        sum(group) for group in groups if len(group) > 1
    )


def test_a_few_files_of_each_size_are_left_alone() -> None:
    assert (
        rewrites(files(COMMANDS, *[1000] * FILES_PER_TIER_MAX, *[SMALL - 1] * FILES_PER_TIER_MAX))
        == []
    )
    assert rewrites(files(COMMANDS, *[LARGE_BYTES] * 100)) == []


def test_only_partitions_with_many_files_are_merged() -> None:
    found = rewrites(
        [*files(COMMANDS, *[1000] * (FILES_PER_TIER_MAX + 1)), *files(EVENTS, 1000, LARGE_BYTES)]
    )
    assert found == [Rewrite(COMMANDS, 2 * TINY)]


def test_a_full_tier_takes_those_below_with_it() -> None:
    tiny, small = [1000] * (FILES_PER_TIER_MAX + 1), [TINY] * (FILES_PER_TIER_MAX + 1)
    assert rewrites(files(COMMANDS, *tiny, *small)) == [Rewrite(COMMANDS, 2 * SMALL)]


def test_a_clustered_table_is_ordered_while_much_of_it_is_new_and_never_by_its_partition() -> None:
    new = [1000] * (FILES_PER_TIER_MAX + 1)
    assert rewrites(files(COMMANDS, *new), BY) == [Rewrite(COMMANDS, LARGE_BYTES, ("broker_name",))]
    assert rewrites(files(COMMANDS, *new, LARGE_BYTES), BY) == [Rewrite(COMMANDS, 2 * TINY)]
    assert rewrites(files(COMMANDS, *new), ("cluster_id",)) == [Rewrite(COMMANDS, 2 * TINY)]


@pytest.mark.parametrize("cluster_by", [(), BY], ids=["by offset", "clustered"])
@pytest.mark.parametrize("bytes_per_round", [10_000, 1 << 20, 40 << 20])
def test_over_a_long_life_files_stay_few_and_a_byte_is_not_written_for_ever(
    bytes_per_round: int, cluster_by: tuple[str, ...]
) -> None:
    sizes: list[int] = []
    came = written = 0
    for _ in range(1_000):
        sizes += [bytes_per_round // 100] * 100
        came += bytes_per_round
        for rewrite in rewrites(files(COMMANDS, *sizes), cluster_by):
            sizes, wrote = merged(sizes, rewrite.target_bytes)
            written += sum(sizes) if rewrite.order_by else wrote
        assert len(sizes) <= came // LARGE_BYTES * 2 + FILES_PER_TIER_MAX * len(TIERS_BYTES), sizes
    assert sum(sizes) == pytest.approx(came, rel=0.01)
    assert written < 20 * came
