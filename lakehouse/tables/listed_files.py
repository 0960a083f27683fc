"""The files of a table as Delta's log lists them, and what is wrong with those that lie there.

Responsible for one sentence that names table, file and offsets and says what to do, for whoever
could not read a table, and for finding files that are not as they are listed before anyone reads
them. Refuses to read rows for an answer. Why a table in an object store cannot be opened at all it
says as the library said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from lakehouse import wording
from lakehouse.errors import LakehouseError
from lakehouse.tables.file_system import file_system
from lakehouse.tables.specs import BRONZE, CLUSTER_ID, TableSpec
from lakehouse.tables.statistics import FooterFacts, contradictions, facts_of, said_in_log

if TYPE_CHECKING:
    from lakehouse.tables.lake import Lake

TROUBLES_TOLD_MAX = 3
RANGES_TOLD_MAX = 3
REASON_CHARS_MAX = 300
_PARQUET_MAGIC = b"PAR1"
LAST_CHECKPOINT = "_last_checkpoint"
DELETION_VECTORS, VECTOR_KIND = "deletionVectors", "add.deletionVector.storageType"
VERSION_CHARS = 20
"""Of a version in the name of a commit or a checkpoint."""

WAYS_OUT: Mapping[str, str] = {
    "bronze": (
        "put it back from a copy; 'regent verify' names what is missing without it. Without a "
        "copy keep these tables and land into a new folder: Kafka keeps commands and outcomes for "
        "ever"
    ),
    "silver": (
        "put it back from a copy, or stop the landing job, remove the table's folder and the job's "
        "checkpoint folder and start it: it fills the table again"
    ),
    "gold": "remove the table's folder and run 'regent lake gold': gold is made of what landed",
    "proof": "remove the table's folder: what is kept there is found again",
}
"""What to do about a file, by layer."""
STATISTICS_WAY_OUT = (
    "questions may pass its rows over; 'regent lake maintain --statistics' writes down what the "
    "files hold"
)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file that belongs to a table now."""

    path: Path
    name: str
    """Below the table's folder, as it is on the disk."""
    listed: str
    """The same as Delta's log spells it."""
    size_bytes: int
    """As Delta's log has it."""
    modified_ms: int
    partition: Mapping[str, str]
    said: Mapping[str, Any]
    """What Delta's log says of its rows (`statistics.said_in_log`)."""
    system: pa_fs.FileSystem
    """Where `name` leads to it, in a folder or an object store."""

    @contextmanager
    def parquet(self) -> Iterator[pq.ParquetFile]:
        """It, open. Raises OSError, pa.ArrowException."""
        with self.system.open_input_file(self.name) as raw, pq.ParquetFile(raw) as there:
            yield there


def listed_files(lake: Lake, table: TableSpec, opened: deltalake.DeltaTable) -> list[ListedFile]:
    """The files of the lake's cluster that belong to a table as it was opened."""
    system = file_system(lake, table)
    found = [
        ListedFile(
            Path(lake.uri(table)) / unquote(row["path"]),
            unquote(row["path"]),
            row["path"],
            row["size_bytes"],
            row["modification_time"],
            {
                name.removeprefix("partition."): value
                for name, value in row.items()
                if name.startswith("partition.")
            },
            said_in_log(row),
            system,
        )
        for row in pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    ]
    return [
        file
        for file in found
        if lake.cluster_id in (None, file.partition.get(CLUSTER_ID, lake.cluster_id))
    ]


def file_troubles(lake: Lake, table: TableSpec, opened: deltalake.DeltaTable) -> Iterator[str]:
    """In words, each file that is not what Delta's log says it is: gone, of another size, no
    Parquet file. Its rows are not looked at.
    """
    files = listed_files(lake, table, opened)
    for file in files:
        trouble = _trouble(file)
        if trouble is not None:
            yield _sentence(table, file, files, trouble)
    yield from _hiding_commits(lake, table, opened)


def false_statistics(lake: Lake, table: TableSpec, opened: deltalake.DeltaTable) -> Iterator[str]:
    """In words, each file of which Delta's log says what its own footer does not, so that readers
    pass rows over; a file that has no footer is `file_troubles`' business.
    """
    files = listed_files(lake, table, opened)
    for file in files:
        facts = footer_of(file) if file.said else None
        wrong = [] if facts is None else list(contradictions(file.said, facts))
        if wrong:
            more = f", and {len(wrong) - 1} more such" if len(wrong) > 1 else ""
            yield _sentence(table, file, files, f"{wrong[0]}{more}", STATISTICS_WAY_OUT)


def footer_of(file: ListedFile) -> FooterFacts | None:
    """What a file says of its rows, None where it cannot be read."""
    try:
        with file.parquet() as there:
            return facts_of(there.metadata)
    except (OSError, pa.ArrowException):
        return None


def cannot_be_read(lake: Lake, table: TableSpec, error: Exception) -> LakehouseError:
    """Why a table cannot be read, in one line: the files to blame where some are found, else what
    the library said.
    """
    told = [] if lake.folder is None else _cut_commits(lake, table) or _damaged(lake, table)
    if not told:
        return LakehouseError(f"table {table.name} cannot be read: {reason(error)}")
    more = f"; and {len(told) - TROUBLES_TOLD_MAX} more" if len(told) > TROUBLES_TOLD_MAX else ""
    return LakehouseError(
        f"table {table.name} cannot be read: {'; '.join(told[:TROUBLES_TOLD_MAX])}{more}"
    )


def reason(error: Exception) -> str:
    """What a library says, in one line and without its stack of numbered frames."""
    kept = []
    for line in str(error).splitlines():
        if line.strip().startswith("0: ") or line.strip() == "stack backtrace:":
            break
        kept.append(line)
    return " ".join(" ".join(kept).split())[:REASON_CHARS_MAX]


def way_out(table: TableSpec) -> str:
    """What to do about a file of a table."""
    return WAYS_OUT.get(table.layer, "put it back from a copy")


def unreadable(path: Path) -> str | None:
    """Why a Parquet file cannot be read to its end, None when it can."""
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except (OSError, pa.ArrowException) as error:
        return reason(error)
    return None


def _trouble(file: ListedFile) -> str | None:
    try:
        there = file.system.get_file_info(file.name)
        if there.type == pa_fs.FileType.NotFound:
            return "is gone"
        if there.size != file.size_bytes:
            return f"has {there.size} bytes, Delta's log says {file.size_bytes}"
        with file.system.open_input_file(file.name) as raw:
            if raw.read(len(_PARQUET_MAGIC)) != _PARQUET_MAGIC:
                return "is no Parquet file"
    except OSError as error:
        return f"cannot be read: {error.strerror or reason(error)}"
    return None


def _hiding_commits(lake: Lake, table: TableSpec, opened: deltalake.DeltaTable) -> Iterator[str]:
    """Deletion vectors, which no release writes: some readers leave rows out by them, others give
    them all. In an object store commits are looked at that no checkpoint holds.
    """
    system = file_system(lake, table)
    log = sorted(
        one.path
        for one in system.get_file_info(pa_fs.FileSelector("_delta_log", allow_not_found=True))
    )
    checkpoints = [one for one in log if one.endswith(".parquet") and ".checkpoint." in one]
    newest = checkpoints[-1] if checkpoints else ""
    commits = [one for one in log if one.endswith(".json")]
    if lake.folder is None:
        commits = [one for one in commits if Path(one).stem >= Path(newest).name[:VERSION_CHARS]]
    named = [one for one in commits if b'"deletionVector":' in _squeezed(system, one)]
    named += [one for one in checkpoints[-1:] if _has_vectors(system, one)]
    if named or DELETION_VECTORS in (opened.protocol().reader_features or ()):
        where = f"commit {Path(named[0]).name}" if named else "the log"
        yield (
            f"{where} of {table.name} has deletion vectors, which no release writes, and hides "
            f"rows from some readers: {way_out(table)}"
        )


def _squeezed(system: pa_fs.FileSystem, commit: str) -> bytes:
    """Without what JSON may have between a name and its value, and without values of nothing."""
    try:
        with system.open_input_file(commit) as raw:
            text: bytes = raw.read()
    except OSError:
        return b""
    return text.replace(b" ", b"").replace(b'"deletionVector":null', b"")


def _has_vectors(system: pa_fs.FileSystem, checkpoint: str) -> bool:
    try:
        with system.open_input_file(checkpoint) as raw, pq.ParquetFile(raw) as there:
            names = [there.schema.column(at).path for at in range(len(there.schema))]
            if VECTOR_KIND not in names:
                return False
            added = there.read(columns=[VECTOR_KIND])["add"].combine_chunks()
    except (OSError, pa.ArrowException):
        return False
    kinds = pc.struct_field(added, VECTOR_KIND.split(".")[1:])
    return bool(kinds.null_count < len(kinds))


def _sentence(
    table: TableSpec,
    file: ListedFile,
    files: Sequence[ListedFile],
    trouble: str,
    to_do: str | None = None,
) -> str:
    held = _held(table, file, files)
    found = f"{file.name} of {table.name}{held and f' ({held})'} {trouble}"
    return f"{found}: {to_do or way_out(table)}"


def _held(table: TableSpec, file: ListedFile, files: Sequence[ListedFile]) -> str:
    """What the file held, in words: by its own rows, else by what the others of its topic lack."""
    topic = file.partition.get("topic", table.topic or "")
    try:
        places = _offsets_by_partition(table, file)
        if not places and table is BRONZE:
            places = _lacking(table, file, files)
    except (OSError, pa.ArrowException):
        places = {}
    if not places:
        return f"written {wording.moment(file.modified_ms)} UTC"
    return ", ".join(
        f"{topic}-{partition} offsets {_in_words(ranges)}" for partition, ranges in places.items()
    )


_Ranges = list[tuple[int, int]]


def _offsets_by_partition(table: TableSpec, file: ListedFile) -> dict[int, _Ranges]:
    rows = _places(table, file)
    return {
        partition: [(int(offsets.min()), int(offsets.max()))] for partition, offsets in rows.items()
    }


def _lacking(table: TableSpec, file: ListedFile, files: Sequence[ListedFile]) -> dict[int, _Ranges]:
    """Holes in what the other files of its topic hold, and what follows their last record."""
    there: dict[int, list[np.ndarray]] = {}
    for other in files:
        if other is not file and other.partition == file.partition:
            for partition, offsets in _places(table, other).items():
                there.setdefault(partition, []).append(offsets)
    found: dict[int, _Ranges] = {}
    for partition, parts in sorted(there.items()):
        offsets = np.sort(np.concatenate([np.array([-1]), *parts]))
        gaps = np.flatnonzero(np.diff(offsets) > 1)
        holes = [(int(offsets[at]) + 1, int(offsets[at + 1]) - 1) for at in gaps]
        found[partition] = [*holes, (int(offsets[-1]) + 1, -1)]
    return found or {0: [(0, -1)]}


def _places(table: TableSpec, file: ListedFile) -> dict[int, np.ndarray]:
    """Offsets by partition; none when the file cannot be read or its table has no offsets."""
    names = [table.partition_column, table.offset_column]
    try:
        with file.parquet() as opened:
            if not set(names) <= set(opened.schema_arrow.names):
                return {}
            rows = opened.read(columns=names)
    except (OSError, pa.ArrowException):
        return {}
    return {
        partition: rows.filter(pc.equal(rows[names[0]], partition))[names[1]].to_numpy()
        for partition in sorted(filter(_is_number, pc.unique(rows[names[0]]).to_pylist()))
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int)


def _in_words(ranges: _Ranges) -> str:
    """`-1` as the last one stands for an end that nobody knows."""
    told = [
        f"{first} and what follows"
        if last < 0
        else f"{first} to {last}"
        if last > first
        else f"{first}"
        for first, last in ranges[-RANGES_TOLD_MAX:]
    ]
    return " or ".join(told)


def _cut_commits(lake: Lake, table: TableSpec) -> list[str]:
    """Commits of which a line is no JSON, and those that are gone from between others."""
    commits = sorted((Path(lake.uri(table)) / "_delta_log").glob("*.json"))
    behind = "put it back from a copy: without it nothing behind it can be read"
    checkpoint_way_out = (
        f"put it back from a copy; where all commits from 0 on are there, remove it and "
        f"{LAST_CHECKPOINT}: the table is read without"
    )
    log = Path(lake.uri(table)) / "_delta_log"
    last = _last_checkpoint(log)
    numbers = [int(one.stem) for one in commits if one.stem.isdigit()]
    if last is not None and numbers and numbers[0] > last:
        numbers = [last, *numbers]  # What it holds needs no commit.
    found = [
        f"commit {number:020}.json of {table.name} is gone: {behind}"
        for before, after in pairwise(numbers)
        for number in range(before + 1, after)
    ]
    found += [
        f"{one.name} of {table.name} is damaged: {checkpoint_way_out}"
        for one in sorted(log.glob("*.checkpoint.parquet"))
        if unreadable(one) is not None
    ]
    if last is not None and not list(log.glob(f"{last:020}.checkpoint*.parquet")):
        found.append(
            f"{LAST_CHECKPOINT} of {table.name} names the checkpoint of version {last}, which is "
            f"gone: {checkpoint_way_out}"
        )
    for commit in commits:
        if _is_json_lines(commit):
            continue
        way_out = (
            "put it back from a copy, or move it away: the table then ends one commit earlier, and "
            "without the landing job's checkpoint folder what was in it lands again"
            if commit is commits[-1]
            else behind
        )
        which = "its last one" if commit is commits[-1] else f"its last one is {commits[-1].name}"
        found.append(f"commit {commit.name} of {table.name} ({which}) is cut or damaged: {way_out}")
    return found


def _last_checkpoint(log: Path) -> int | None:
    """The version that the log names for its newest checkpoint; None where it names none."""
    try:
        return int(json.loads((log / LAST_CHECKPOINT).read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_json_lines(commit: Path) -> bool:
    try:
        for line in filter(None, commit.read_text(encoding="utf-8").splitlines()):
            json.loads(line)
    except (OSError, ValueError):
        return False
    return True


def _damaged(lake: Lake, table: TableSpec) -> list[str]:
    try:
        opened = deltalake.DeltaTable(lake.uri(table))
        found = list(file_troubles(lake, table, opened))
        if found:
            return found
        files = listed_files(lake, table, opened)
    except (DeltaError, OSError, ValueError, pa.ArrowException):
        return []
    return [
        _sentence(table, file, files, f"is damaged ({why})")
        for file in files
        if (why := unreadable(file.path)) is not None
    ]
