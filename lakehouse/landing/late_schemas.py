"""Schemas that this release was not made with, found in folders while a job runs.

A newer controller or broker may write records of a schema that this process does not have. Its
files may be there all the same: a release that was installed under the running process, or a folder
that somebody copied them to.
Responsible for noticing that files have changed, for reading them, and for turning bytes into
records by them.
Refuses to know what becomes of the records, and trusts no file that cannot be read whole.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from msgspec import defstruct

import schemas
from events.codec import HEADER_BYTES, RECORD_BYTES_MAX, MalformedRecord, peek_fingerprint
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC

log = logging.getLogger("regent.lake.landing")

OWN_FOLDER = Path(schemas.__file__).parent
TOPIC_OF_GROUP = {
    "commands": COMMANDS_TOPIC,
    "outcomes": OUTCOMES_TOPIC,
    "broker_events": BROKER_EVENTS_TOPIC,
}

Stamp = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of every file."""


@dataclass(frozen=True, slots=True)
class LateSchema:
    """The schema of one kind of record, complete in itself."""

    kind: str
    topic: str
    document: Mapping[str, Any]
    decode: Callable[[bytes], Any]
    """The record in the bytes, with the attributes that the schema names. Raises
    `MalformedRecord`.
    """


class LateSchemas:
    """What the folders hold, read again when a file has changed.

    Invariants: what was found once stays known, even when its file goes.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(dict.fromkeys((OWN_FOLDER, *folders)))
        self._found: dict[str, LateSchema] = {}
        self._stamp: Stamp = ()
        self._lock = threading.Lock()
        self.version = 0
        """Grows whenever the folders were read."""

    def of(self, data: bytes) -> LateSchema | None:
        """What explains the bytes; None when no folder has it. Raises `MalformedRecord` for bytes
        that name no schema.
        """
        mark = peek_fingerprint(data)
        if mark not in self._found:
            self.look_again()
        return self._found.get(mark)

    def look_again(self) -> None:
        """Read the folders again if a file has changed."""
        with self._lock:
            stamp = tuple(entry for folder in self._folders for entry in _stamp_of(folder))
            if stamp == self._stamp:
                return
            for folder in self._folders:
                self._read(folder)
            self._stamp = stamp
            self.version += 1

    def _read(self, folder: Path) -> None:
        try:
            for kind, (group, document) in schemas.load_folder(folder).items():
                if group in TOPIC_OF_GROUP and (mark := _mark_of(document)) not in self._found:
                    self._found[mark] = LateSchema(
                        kind, TOPIC_OF_GROUP[group], document, _decoder(document)
                    )
        except Exception as error:
            # A file that is being copied; when it is whole its stamp differs.
            log.warning("schemas in %s cannot be read: %s: %s", folder, type(error).__name__, error)


def _stamp_of(folder: Path) -> Stamp:
    try:
        files = [(path, path.stat()) for path in sorted(folder.glob("*/*.avsc"))]
    except OSError:  # Gone between the two.
        return ((str(folder), -1, -1),)
    return tuple((str(path), found.st_size, found.st_mtime_ns) for path, found in files)


def _mark_of(document: Mapping[str, Any]) -> str:
    return bytes.fromhex(
        fingerprint(to_parsing_canonical_form(dict(document)), "CRC-64-AVRO")
    ).hex()


def _decoder(document: Mapping[str, Any]) -> Callable[[bytes], Any]:
    parsed = fastavro.parse_schema(dict(document))
    read = _reader(parsed, {})
    assert read is not None

    def decode(data: bytes) -> Any:
        if len(data) > RECORD_BYTES_MAX:
            raise MalformedRecord(f"record of {len(data)} bytes, limit {RECORD_BYTES_MAX}")
        body = BytesIO(data)
        body.seek(HEADER_BYTES)
        try:
            record = read(
                fastavro.schemaless_reader(
                    body, parsed, None, return_record_name=True, return_record_name_override=True
                )
            )
        except Exception as error:  # Hostile bytes fail inside fastavro in many ways.
            raise MalformedRecord(f"{type(error).__name__}: {error}") from error
        if body.tell() != len(data):
            raise MalformedRecord(f"{len(data) - body.tell()} bytes after the record")
        return record

    return decode


def _reader(schema: Any, named: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    """What turns fastavro's value into one like those of our own records; None when it is the
    same.
    """
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            by_name = {
                one["name"]: _reader(one, named)
                for one in branches
                if isinstance(one, dict) and "name" in one
            }
            return lambda value: by_name[value[0]](value[1]) if isinstance(value, tuple) else value  # type: ignore[misc]
        inner = _reader(branches[0], named)
        return inner and (lambda value: None if value is None else inner(value))
    if isinstance(schema, str):
        return named.get(schema)
    if schema["type"] == "array":
        item = _reader(schema["items"], named)
        return (lambda values: tuple([item(one) for one in values])) if item else tuple
    return _record_reader(schema, named) if schema["type"] == "record" else None


def _record_reader(
    schema: dict[str, Any], named: dict[str, Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    fields = [field["name"] for field in schema["fields"]]
    made = defstruct(schema["name"].rpartition(".")[2], fields, frozen=True)
    nested = {
        f["name"]: reader
        for f in schema["fields"]
        if (reader := _reader(f["type"], named)) is not None
    }

    def read(plain: dict[str, Any]) -> Any:
        return made(
            *(nested[name](plain[name]) if name in nested else plain[name] for name in fields)
        )

    named[schema["name"]] = read
    return read
