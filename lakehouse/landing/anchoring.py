"""Anchors of what lands, given to places that the lake's writers do not reach: a file, a command
of the operator's, a table elsewhere.

Responsible for what is anchored next and for giving each anchor at least once: the file, or one in
the job's own folder, says how far they went, and is written last. Refuses to know what a link is
made of (`proof.names`).
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError
from msgspec.structs import asdict

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.landing.config import LandConfig
from lakehouse.proof.anchors import Anchor, NoAnchor, converted, parsed_lines
from lakehouse.proof.names import BLOCK_RECORDS, NAMED_COLUMNS, Chain, block_names, first_link
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import high_water, read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.listed_files import reason
from lakehouse.tables.specs import BRONZE, DECISIONS

log = logging.getLogger("regent.lake.landing")

OWN_FILE = "anchors.jsonl"
"""In the job's folder, when no file is configured."""
RECORDS_AT_ONCE = 100 * BLOCK_RECORDS
END_EVERY_S = 3_600.0
"""How often the end of a partition is anchored that no block ends at."""
COMMAND_LIMIT_S = 60.0
ANCHORS_SCHEMA = pa.schema(
    [
        pa.field("cluster_id", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("link", pa.string(), nullable=False),
        pa.field("digest", pa.string()),
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("anchor", pa.int32(), nullable=False),
    ]
)


class Sink(Protocol):
    """Somebody who is told of anchors; may be told twice."""

    def give(self, anchors: Sequence[Anchor]) -> None:
        """Raises `LakehouseError` when they were not taken."""


@dataclass(frozen=True, slots=True)
class ToCommand:
    """A program that gets the lines on its standard input and has taken them when it ends with
    0.
    """

    words: tuple[str, ...]

    def give(self, anchors: Sequence[Anchor]) -> None:
        text = "".join(f"{one.line()}\n" for one in anchors)
        try:
            done = subprocess.run(
                self.words,
                input=text,
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LakehouseError(f"anchors were not given to {self.words[0]}: {error}") from error
        if done.returncode:
            said = " ".join(done.stderr.split())[-200:]
            raise LakehouseError(
                f"anchors were not taken by {self.words[0]}: exit code {done.returncode} {said}"
            )


@dataclass(frozen=True, slots=True)
class ToTable:
    """A Delta table elsewhere, for example in a bucket whose objects are locked."""

    place: str
    storage_options: Mapping[str, str]

    def give(self, anchors: Sequence[Anchor]) -> None:
        rows = pa.Table.from_pylist([asdict(one) for one in anchors], schema=ANCHORS_SCHEMA)
        try:
            deltalake.write_deltalake(
                lake_at(self.place).root,
                rows,
                mode="append",
                configuration={"delta.appendOnly": "true"},
                storage_options=dict(self.storage_options) or None,
            )
        except (DeltaError, OSError) as error:
            raise LakehouseError(
                f"anchors were not taken by {self.place}: {reason(error)}"
            ) from error


@dataclass(frozen=True, slots=True)
class ToFile:
    """Lines at the end of a file, synced."""

    path: Path

    def give(self, anchors: Sequence[Anchor]) -> None:
        lines = "".join(f"{one.line()}\n" for one in anchors)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(file).st_size
                is_cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"
                os.write(file, f"{chr(10) * is_cut}{lines}".encode())
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise LakehouseError(
                f"anchors cannot be written to {self.path}: {error.strerror}"
            ) from error


def read_anchors(
    place: str, storage_options: Mapping[str, str] | None = None
) -> tuple[list[Anchor], list[str]]:
    """The anchors in a file, or in a Delta table at a folder or URI, and what is wrong with lines.

    Raises `LakehouseError` when there is none.
    """
    if is_file(place):
        try:
            return parsed_lines(Path(place).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise LakehouseError(f"anchors cannot be read from {place}: {error}") from error
    try:
        found = deltalake.DeltaTable(
            lake_at(place).root, storage_options=dict(storage_options or {})
        )
        rows = found.to_pyarrow_table(columns=ANCHORS_SCHEMA.names).to_pylist()
    except (TableNotFoundError, DeltaError, OSError, pa.ArrowException) as error:
        raise LakehouseError(f"anchors cannot be read from {place}: {reason(error)}") from error
    anchors, told = [], []
    for row in rows:
        try:
            anchors.append(converted(row))
        except NoAnchor as error:
            told.append(f"a row of the anchors in {place} is none: {error}")
    return anchors, told


def is_file(place: str) -> bool:
    """Whether anchors stand there as lines, in the order in which they were told."""
    return "://" not in place and not Path(place).is_dir()


class Anchoring:
    """Anchors one cluster's bronze, from where the last round ended."""

    def __init__(
        self,
        lake: Lake,
        file: Path,
        sinks: Sequence[Sink] = (),
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`file` gets every anchor last, and says at the start how far they went. Raises
        `LakehouseError` when it cannot be read.
        """
        self._lake, self._clock_ms = lake, clock_ms
        self._sinks = (*sinks, ToFile(file))
        self._last: dict[Partition, Anchor] = {}
        self._whole: dict[Partition, Anchor] = {}
        """The last one at the end of a block: the chain goes on from it."""
        if file.exists():
            for one in read_anchors(str(file))[0]:
                if one.cluster_id == lake.cluster_id:
                    self._note(one)

    def step(
        self,
        stopped: Callable[[], bool] = lambda: False,
        ends: Mapping[Partition, int] | None = None,
    ) -> int:
        """Anchor what has landed since; how many anchors that are. `ends`, the offset behind the
        last record of each partition, is asked of bronze when it is not given. Raises
        `LakehouseError`.
        """
        if ends is None:
            marks = high_water(self._lake, BRONZE).marks
            ends = {place: last + 1 for place, last in marks.items()}
        new = [place for place, end in sorted(ends.items()) if self._is_due(place, end)]
        files = BronzeFiles(self._lake) if new else None
        given = 0
        for place in new:
            if files is None or stopped():
                break
            for anchors in self._of(files, place, ends[place]):
                for sink in self._sinks:
                    sink.give(anchors)
                for one in anchors:
                    self._note(one)
                given += len(anchors)
        return given

    def _of(self, files: BronzeFiles, place: Partition, end: int) -> Iterator[list[Anchor]]:
        """The anchors of a partition up to `end`, some at a time."""
        whole, own_end = self._whole.get(place), self._is_end_due(place, end)
        begin = first_link(str(self._lake.cluster_id), *place)
        chain = Chain(begin) if whole is None else Chain(bytes.fromhex(whole.link), whole.end)
        for start in range(chain.at, end, RECORDS_AT_ONCE):
            stop = min(start + RECORDS_AT_ONCE, end)
            wanted = list(range(start + BLOCK_RECORDS, stop + 1, BLOCK_RECORDS))
            if stop == end and own_end:
                wanted.append(end)
            there, digests = self._published(place, wanted)
            if not there:
                return
            rows = files.rows(place, start, stop, NAMED_COLUMNS)
            names = block_names(rows, stop, there)
            yield [
                Anchor(
                    cluster_id=str(self._lake.cluster_id),
                    topic=place[0],
                    partition=place[1],
                    offset=one - 1,
                    link=chain.to(one, names).hex(),
                    digest=digests.get(one - 1),
                    at_ms=self._clock_ms(),
                )
                for one in there
            ]
            if len(there) < len(wanted):
                return

    def _is_due(self, place: Partition, end: int) -> bool:
        whole = self._whole.get(place)
        blocks = end // BLOCK_RECORDS - (0 if whole is None else whole.end // BLOCK_RECORDS)
        return blocks > 0 or self._is_end_due(place, end)

    def _is_end_due(self, place: Partition, end: int) -> bool:
        """Whether an end within a block is to be anchored."""
        last = self._last.get(place)
        if end % BLOCK_RECORDS == 0 or end == 0:
            return False
        if last is None:
            return True
        return last.end < end and self._clock_ms() - last.at_ms >= END_EVERY_S * 1_000

    def _published(self, place: Partition, ends: Sequence[int]) -> tuple[list[int], dict[int, str]]:
        """The ends that can be anchored, of commands with their digests: a command waits for its
        outcome, unless one of a later command has landed.
        """
        if place != (COMMANDS_TOPIC, 0) or not ends:
            return list(ends), {}
        filters = [("command_offset", ">=", ends[0] - 1)]
        rows = read(self._lake, DECISIONS, columns=["command_offset", "digest"], filters=filters)
        digests: dict[int, str] = {}
        for offset, digest in zip(*rows.to_pydict().values(), strict=True):
            digests.setdefault(offset, digest)
        newest = max(digests, default=-1)
        return [one for one in ends if one - 1 <= newest], digests

    def _note(self, one: Anchor) -> None:
        last = self._last.get(one.place)
        if last is None or one.end >= last.end:
            self._last[one.place] = one
        if one.is_whole and one.end > getattr(self._whole.get(one.place), "end", 0):
            self._whole[one.place] = one


def anchoring_of(config: LandConfig, lake: Lake) -> Anchoring:
    """As a landing job is configured. Raises `LakehouseError`."""
    sinks: list[Sink] = []
    if config.anchors_command:
        sinks.append(ToCommand(tuple(config.anchors_command)))
    if config.anchors_table:
        sinks.append(ToTable(config.anchors_table, config.anchors_storage_options))
    return Anchoring(lake, config.anchors_file or config.local_dir / OWN_FILE, sinks)
