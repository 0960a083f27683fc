"""Bronze by its files as they lie there, partition of the log by partition.

Responsible for giving the rows of a stretch of one partition, and for naming rows that no log can
have given: they are told and left out. Refuses to know what is proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import way_out
from lakehouse.tables.specs import BRONZE
from lakehouse.tables.table_files import TableFile, TableFiles

PLACES = ("partition", "offset", "timestamp")
ONE_PARTITION = (COMMANDS_TOPIC, OUTCOMES_TOPIC)
"""Topics that have partition 0 alone: their records have one order."""
GAP_MAX = 2**28
"""Offsets. Nothing that long is lost between two records that landed."""


class BronzeFiles:
    """The files that make up a cluster's bronze, as the table was when this was made."""

    def __init__(self, lake: Lake) -> None:
        """Raises `NotLanded`, `LakehouseError`."""
        self._files = TableFiles(lake, BRONZE)

    @property
    def topics(self) -> list[str]:
        """Those of which something landed."""
        return sorted(self._by_topic())

    def uris(self, topic: str) -> list[str]:
        """Where the files of a topic are, as a path or a URI each."""
        return [self._files.uri(one) for one in self._by_topic().get(topic, ())]

    @property
    def files(self) -> list[TableFile]:
        """Those that are read."""
        return list(self._files.files)

    def read_only(self, files: Sequence[TableFile]) -> None:
        """Read these, whatever has been committed since they were named."""
        self._files.files = list(files)

    def leave_out_damaged(self) -> list[str]:
        """Read every file to its end, and go on without those that cannot be; why, in words."""
        told = self._files.leave_out_damaged()
        self.__dict__.pop("_datasets", None)
        self.__dict__.pop("_placed", None)
        return told

    def hiding(self) -> list[str]:
        """In words, files whose own footers hide records from whoever asks by place or time."""
        return self._files.hiding(PLACES)

    def unlike_the_log(self) -> list[str]:
        """In words, files that are read here and are not what Delta's log says."""
        return self._files.unlike_the_log()

    @property
    def offsets(self) -> dict[Partition, np.ndarray]:
        """Every offset that landed, by partition, ascending; one that landed twice stands twice.

        Raises `UNREADABLE`.
        """
        return self._placed[0]

    @property
    def strays(self) -> list[str]:
        """In words, rows at places that no record of the log has; nobody else is given them.
        Raises `UNREADABLE`.
        """
        return self._placed[1]

    @cached_property
    def _placed(self) -> tuple[dict[Partition, np.ndarray], list[str]]:
        found: dict[Partition, np.ndarray] = {}
        told: list[str] = []
        for topic, dataset in self._datasets.items():
            rows = dataset.to_table(columns=["partition", "offset"])
            whole = rows.drop_null()
            if whole.num_rows < rows.num_rows:
                told.append(_stray(topic, rows.num_rows - whole.num_rows, "no offset or partition"))
            for partition in sorted(pc.unique(whole["partition"]).to_pylist()):
                mine = whole.filter(pc.field("partition") == partition)["offset"]
                there, strange = _of_a_log(np.sort(mine.to_numpy()))
                if partition < 0 or (partition and topic in ONE_PARTITION):
                    told.append(_stray(topic, len(mine), f"partition {partition}"))
                    continue
                if len(strange):
                    told.append(_stray(topic, len(strange), f"offset {strange[0]}"))
                if len(there):
                    found[topic, partition] = there
        return found, told

    @property
    def ends(self) -> dict[Partition, int]:
        """Offset behind the last record of each partition."""
        return {place: int(there[-1]) + 1 for place, there in self.offsets.items()}

    def rows(self, place: Partition, first: int, end: int, columns: Sequence[str]) -> pa.Table:
        """The rows of `first` up to, not including, `end`, by offset. Raises `UNREADABLE`."""
        topic, _ = place
        if topic not in self._datasets:
            return self._files.schema.empty_table().select(columns)
        wanted = _stretch(place, first, end)
        found = self._datasets[topic].to_table(columns=list(columns), filter=wanted)
        return found.sort_by("offset")

    def sizes(
        self, place: Partition, first: int, end: int, columns: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Offsets of a stretch, ascending, and what each has in these columns, in bytes; the rows
        of one that landed twice count together. No content is kept. Raises `UNREADABLE`.
        """
        if place[0] not in self._datasets:
            return np.array([], np.int64), np.array([], np.int64)
        lengths = {
            name: pc.coalesce(pc.binary_length(pc.field(name)), pa.scalar(0, pa.int32()))
            for name in columns
        }
        rows = self._datasets[place[0]].to_table(
            columns={"offset": pc.field("offset"), **lengths}, filter=_stretch(place, first, end)
        )
        offsets, at = np.unique(rows["offset"].to_numpy(), return_inverse=True)
        sizes = np.zeros(len(offsets), np.int64)
        for name in columns:
            np.add.at(sizes, at, rows[name].to_numpy())
        return offsets, sizes

    def pieces(
        self, place: Partition, first: int, end: int, size: int, columns: Sequence[str]
    ) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a stretch, `size` offsets at a time, each with its first offset."""
        for start in range(first // size * size, end, size):
            yield start, self.rows(place, start, min(start + size, end), columns)

    @cached_property
    def _datasets(self) -> dict[str, ds.Dataset]:
        return {topic: self._files.dataset(files) for topic, files in self._by_topic().items()}

    def _by_topic(self) -> dict[str, list[TableFile]]:
        found: dict[str, list[TableFile]] = {}
        for one in self._files.files:
            found.setdefault(one.partition["topic"], []).append(one)
        return found


def _of_a_log(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of ascending offsets those that a log has, and the others: below 0, and behind a gap that
    nothing leaves.
    """
    there = offsets[offsets >= 0]
    far = np.flatnonzero(np.diff(there) > GAP_MAX)
    end = int(far[0]) + 1 if len(far) else len(there)
    return there[:end], np.concatenate((offsets[offsets < 0], there[end:]))


def _stray(topic: str, count: int, where: str) -> str:
    return (
        f"{BRONZE.name}, {topic}: {count} rows at {where}, which no record of the log has: the "
        f"file that holds them was altered; {way_out(BRONZE)}"
    )


def _stretch(place: Partition, first: int, end: int) -> pc.Expression:
    """The rows of `first` up to, not including, `end`, of one partition."""
    offset = pc.field("offset")
    return (pc.field("partition") == place[1]) & (offset >= first) & (offset < end)
