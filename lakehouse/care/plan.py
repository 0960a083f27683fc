"""What a table's files need: which of them to write anew, as fewer and larger ones.

Responsible for the rules of compaction and clustering, from the sizes of files alone. Files are
sorted into tiers, each eight times as large as the one before; when too many lie in one, that tier
and those below are merged. So files stay few, and a byte is written fewer than twenty times in its
life, however long the table grows and however few bytes come at a time: what was written anew stays
on the disk until time travel no longer needs it. Merging keeps the order of landing, so files hold
ranges of offsets; tables with `cluster_by` are ordered by it instead, whole, when a quarter of them
is new.
Refuses to know how files are listed and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TIERS_BYTES = (128 << 10, 1 << 20, 8 << 20, 64 << 20)
"""Upper ends; a file above the last one is large and sets nothing off."""
LARGE_BYTES = 2 * TIERS_BYTES[-1]
FILES_PER_TIER_MAX = 8
NEW_SHARE = 4
"""A clustered table is ordered again when one part in this many is in the files to be merged."""

Partition = tuple[tuple[str, str | None], ...]
"""Names and values of the partition columns."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table: where it lies among the partitions, and how large it is."""

    partition: Partition
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Merge the files of a partition that are smaller than `target_bytes`; `order_by` set: all of
    them, in that order.
    """

    partition: Partition
    target_bytes: int
    order_by: tuple[str, ...] = ()


def rewrites(files: Iterable[DataFile], cluster_by: Sequence[str] = ()) -> list[Rewrite]:
    """What to write anew, at most once per partition; empty when every partition is well."""
    found = []
    for partition, sizes in sorted(_sizes(files).items(), key=lambda item: repr(item[0])):
        tier = _fullest_tier(sizes)
        if tier is None:
            continue
        inside = {name for name, _ in partition}
        order_by = tuple(name for name in cluster_by if name not in inside)
        new = sum(size for size in sizes if size < tier)
        if order_by and new * NEW_SHARE >= sum(sizes):
            found.append(Rewrite(partition, LARGE_BYTES, order_by))
        else:
            found.append(Rewrite(partition, _target(sizes, tier)))
    return found


def _fullest_tier(sizes: Sequence[int]) -> int | None:
    """Upper end of the largest tier that holds too many files."""
    lower = (0, *TIERS_BYTES)
    full = [
        upper
        for upper, low in zip(TIERS_BYTES, lower, strict=False)
        if sum(low <= size < upper for size in sizes) > FILES_PER_TIER_MAX
    ]
    return max(full, default=None)


def _target(sizes: Sequence[int], tier: int) -> int:
    """Twice the tier's end, so that any two of its files fit into one; more when that many files
    would come of it again.
    """
    target = 2 * tier
    while (
        target < LARGE_BYTES
        and sum(size for size in sizes if size < target) > FILES_PER_TIER_MAX // 2 * target
    ):
        target *= 2
    return min(target, LARGE_BYTES)


def _sizes(files: Iterable[DataFile]) -> Mapping[Partition, list[int]]:
    found: dict[Partition, list[int]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file.size_bytes)
    return found
