"""A history in one file, and its proof without a lake.

One line of JSON for each command: its bytes, when the log took it, and what was published of it;
before them whose history it is, behind them how many there are with the digest of all and the
SHA-256 of the lines. Whoever has the release and the file folds it again; that the digest at its
end is the one that was decided, an anchor or a controller says.
Responsible for the file's shape. Refuses to hold a rule: it folds with the controllers' own fold.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from events import codec
from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.proof.anchors import Anchor, digests_held
from lakehouse.proof.entries import COMMAND, SAID, Entries
from lakehouse.proof.kept import RANGE_RECORDS
from lakehouse.proof.own_pass import judged
from lakehouse.proof.plan import Asked, Landed, plan, verdict
from lakehouse.proof.refold import prove
from lakehouse.proof.verdict import Verdict
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.lake import Lake

FORMAT = 1
WHAT_TO_DO = (
    "export the history once more, or get the file anew from where it comes: its last digest is "
    "that of an anchor, or of a controller at that offset"
)
ENTRIES_AT_ONCE = 10_000
LINE_BYTES_MAX = 16 * 1024 * 1024
"""A command and an outcome of a megabyte each fit in it."""

NO_LINE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What reading a line raises that is none."""


class Head(Struct, frozen=True, kw_only=True):
    """The first line."""

    history: int = FORMAT
    cluster_id: str
    commands: Annotated[int, Meta(lt=2**62)]


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One command; bytes in base64."""

    offset: Annotated[int, Meta(ge=0, lt=2**62)]
    timestamp_ms: int | None = None
    kind: str = ""
    """For people: of what kind it is, empty when this release cannot read it."""
    broker_name: str | None = None
    """For people: which set it is about."""
    digest: str | None = None
    """The digest of history behind it, as published."""
    command: str = ""
    outcome: str | None = None
    """The first record that was published of it."""


class Tail(Struct, frozen=True, kw_only=True):
    """The last line."""

    end: int
    """How many commands there are."""
    digest: str | None
    sha256: str
    """Of all lines before, in hex."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What a file holds."""

    file: str
    cluster_id: str
    commands: int
    digest: str | None

    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.commands} commands of cluster {self.cluster_id} and what was published of them "
            f"written to {self.file}, digest {self.digest}"
        )


def write_history(lake: Lake, path: Path) -> Written:
    """All that has landed of a cluster's history, in a file that is there whole or not at all.
    `.gz` at its end packs it.

    Raises `NotLanded`, `LakehouseError` when a record is missing, `FileExistsError`.
    """
    commands, outcomes = BronzeLog(lake, COMMANDS_TOPIC), BronzeLog(lake, OUTCOMES_TOPIC)
    commands.require_whole()
    if not commands.end:
        raise NotLanded(f"no commands have landed in {lake.root}: has `regent land` run?")
    if path.exists():
        raise FileExistsError(None, "there is such a file already", str(path))
    part = path.with_name(f"{path.name}.part")
    head, name = Head(cluster_id=str(lake.cluster_id), commands=commands.end), sha256()
    digest: str | None = None
    try:
        with _opened(part, "wb", is_packed=path.suffix == ".gz") as file:
            for line in _lines(head, commands, outcomes):
                data = msgspec.json.encode(line) + b"\n"
                name.update(data)
                file.write(data)
                digest = getattr(line, "digest", None) or digest
            tail = Tail(end=commands.end, digest=digest, sha256=name.hexdigest())
            file.write(msgspec.json.encode(tail) + b"\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Written(str(path), head.cluster_id, commands.end, digest)


def verify_file(path: Path, anchors: Iterable[Anchor] = ()) -> Verdict:
    """Fold the history in a file and compare with what was published; `anchors` of its cluster are
    held against the digests. Raises `LakehouseError` for a file that is none.
    """
    own = list(anchors)
    with _opened(path, "rb", is_packed=path.suffix == ".gz") as file:
        reading = _Reading(path, file, {one.offset for one in own})
        folded = {
            one.told.first // RANGE_RECORDS: one for one in prove(reading.entries(), RANGE_RECORDS)
        }
        told, _ = judged(folded, {})
    landed = Landed(RANGE_RECORDS, {}, {}, 0)
    made = plan(landed, Asked(0, max(reading.last, 0), everything=True), {})
    cluster_id = reading.head.cluster_id
    problems = list(reading.problems)
    if own and not any(one.cluster_id == cluster_id for one in own):
        others = ", ".join(sorted({one.cluster_id for one in own}))
        problems.append(f"it is of cluster {cluster_id}, the anchors are only of {others}")
    problems += [
        f"it says that it is of cluster {cluster_id}, and its commands are of cluster {name}"
        for name in sorted({one.cluster_id for one in told.values()} - {"", cluster_id})
    ]
    own = [one for one in own if one.cluster_id == cluster_id]
    found = verdict(landed, made, told, missing=reading.missing)
    beyond = max((one.end for one in own if one.topic == COMMANDS_TOPIC), default=0)
    notices = [f"{path} holds the history of cluster {cluster_id}"]
    if own:
        compared = sum(one.offset in reading.digests for one in own if one.digest)
        notices.append(f"{compared} anchors were held against it")
    if beyond > reading.head.commands:
        problems.append(
            f"it ends at command {reading.head.commands - 1}, anchored up to {beyond - 1}"
        )
    return dataclasses.replace(
        found,
        problems=[*problems, *found.problems],
        findings=list(digests_held(own, reading.digests, str(path))),
        notices=notices,
        source=str(path),
        what_to_do=WHAT_TO_DO,
    )


@contextmanager
def _opened(path: Path, mode: str, *, is_packed: bool) -> Iterator[IO[bytes]]:
    with ExitStack() as held:
        try:
            plain = held.enter_context(path.open(mode))
            file: Any = (
                held.enter_context(gzip.GzipFile(fileobj=plain, mode=mode)) if is_packed else plain
            )
        except OSError as error:
            raise LakehouseError(f"{path} cannot be opened: {error.strerror or error}") from error
        yield file


def _lines(head: Head, commands: BronzeLog, outcomes: BronzeLog) -> Iterator[Head | Line]:
    yield head
    published = _first_outcomes(outcomes)
    ahead = next(published, None)
    for record in commands.records():
        while ahead is not None and ahead[0] < record.offset:
            ahead = next(published, None)
        said = ahead if ahead is not None and ahead[0] == record.offset else None
        kind, broker_name = _about(record.value)
        yield Line(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            kind=kind,
            broker_name=broker_name,
            digest=None if said is None else said[1].digest.hex(),
            command=base64.b64encode(record.value or b"").decode(),
            outcome=None if said is None else base64.b64encode(said[2]).decode(),
        )


def _first_outcomes(outcomes: BronzeLog) -> Iterator[tuple[int, Outcome, bytes]]:
    """The first outcome of each command, ascending: a new leader repeats some."""
    last = -1
    for record in outcomes.landed():
        outcome = _decoded(record.value)
        if isinstance(outcome, Outcome) and outcome.command_offset > last:
            last = outcome.command_offset
            yield last, outcome, record.value or b""


def _about(value: bytes | None) -> tuple[str, str | None]:
    command = _decoded(value)
    return (
        "" if command is None else type(command).__name__,
        getattr(command, "broker_name", None),
    )


def _decoded(value: bytes | None) -> Any:
    try:
        return codec.decode(value or b"")
    except codec.CodecError:
        return None


class _Reading:
    """Goes through a file once."""

    def __init__(self, path: Path, file: IO[bytes], wanted: set[int]) -> None:
        """`wanted`: offsets of which the digest is kept. Raises `LakehouseError` for a file that
        is none.
        """
        self._path, self._file = path, file
        self._wanted = wanted
        self._name = sha256()
        self.problems: list[str] = []
        self.missing: list[tuple[int, int]] = []
        self.digests: dict[int, str] = {}
        self.last = -1
        """The last command before which none is missing."""
        self._last_digest: str | None = None
        first = self._next()
        try:
            self.head = msgspec.json.decode(first or b"", type=Head)
        except NO_LINE as error:
            raise LakehouseError(f"{path} is no history: {error}") from error
        if self.head.history != FORMAT or self.head.commands < 1:
            raise LakehouseError(
                f"{path} is a history of format {self.head.history}, this release reads {FORMAT}"
            )

    def entries(self) -> Iterator[Entries]:
        """For the fold, in the order of offsets."""
        every = self._entries()
        while rows := list(islice(every, ENTRIES_AT_ONCE)):
            offset, what, value = zip(*rows, strict=True)
            start, place = np.zeros(len(rows), np.int64), np.full(len(rows), -1)
            yield Entries(start, np.array(offset), np.array(what), place, list(value))

    def _entries(self) -> Iterator[tuple[int, int, bytes]]:
        """Offset, what it is, value."""
        expected = 0
        while expected < self.head.commands:
            raw = self._next()
            line = None if raw is None else self._line(raw)
            if line is None:
                self.missing.append((expected, self.head.commands - 1))
                self.problems.append(f"it is cut behind command {expected - 1}")
                return
            if line.offset != expected:
                self.missing.append((expected, line.offset - 1))
            if line.offset < expected:
                self.problems.append(f"command {line.offset} stands behind {expected - 1}")
                return
            if line.offset >= self.head.commands:
                self.problems.append(
                    f"command {line.offset} stands in it, and it says that it has "
                    f"{self.head.commands}"
                )
                return
            if self.last == line.offset - 1:
                self.last = line.offset
            expected = line.offset + 1
            yield from self._of(line)
        self._tail()

    def _of(self, line: Line) -> Iterator[tuple[int, int, bytes]]:
        try:
            command = base64.b64decode(line.command, validate=True)
            said = None if line.outcome is None else base64.b64decode(line.outcome, validate=True)
        except ValueError:
            self.problems.append(f"offset {line.offset}: its bytes are no base64")
            command, said = b"", None
        kind, broker_name = _about(command)
        if kind and (line.kind, line.broker_name) not in ((kind, broker_name), ("", None)):
            self.problems.append(
                f"offset {line.offset}: it is called {line.kind} of {line.broker_name}, and is "
                f"{kind} of {broker_name}"
            )
        yield line.offset, COMMAND, command
        if said is None:
            if line.digest is not None:
                self.problems.append(f"offset {line.offset}: its digest is that of no outcome")
            return
        outcome = _decoded(said)
        if not isinstance(outcome, Outcome) or outcome.command_offset != line.offset:
            self.problems.append(f"offset {line.offset}: what was published is no outcome of it")
            return
        digest = outcome.digest.hex()
        if line.digest != digest:
            self.problems.append(f"offset {line.offset}: its digest is not the published one")
        self._last_digest = digest
        if line.offset in self._wanted:
            self.digests[line.offset] = digest
        yield line.offset, SAID, said

    def _tail(self) -> None:
        name = self._name.hexdigest()
        raw = self._next()
        try:
            tail = msgspec.json.decode(raw or b"", type=Tail)
        except NO_LINE:
            self.problems.append("it is cut: its last line is missing")
            return
        if tail.sha256 != name or tail.end != self.head.commands:
            self.problems.append("its lines are not those that were written: SHA-256 differs")
        if tail.digest != self._last_digest:
            self.problems.append("the digest in its last line is not the last published one")
        if self._next() is not None:
            self.problems.append("something stands behind its last line")

    def _line(self, raw: bytes) -> Line | None:
        try:
            return msgspec.json.decode(raw, type=Line)
        except NO_LINE:
            return None

    def _next(self) -> bytes | None:
        """The next line with its end; None at the end, and where the file cannot be read."""
        try:
            raw = self._file.readline(LINE_BYTES_MAX)
        except (OSError, EOFError, gzip.BadGzipFile) as error:
            self.problems.append(f"it cannot be read on: {error}")
            return None
        self._name.update(raw)
        return raw or None
