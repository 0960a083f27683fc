"""Records and their bytes: Avro single-object encoding (marker, fingerprint, body).

Responsible for turning each record class into bytes and back, and for refusing bytes that
are not exactly one known record. Only this module, `avro_reader`, `avro_writer` and `outcome_bytes`
know Avro; it knows no rule, and not which schemas a cluster has made active.
"""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from msgspec.structs import asdict

import schemas
from events.avro_reader import Reader, reader_of
from events.avro_writer import Writer, writer_of
from events.broker_events import BROKER_EVENTS, BrokerEvent, BrokerEventHeader
from events.changes import CHANGES
from events.commands import COMMANDS, Command
from events.envelope import Envelope, ImportedReplica, MemberPosition, ReplicaEvidence
from events.outcomes import CandidateVerdict, Outcome

MARKER = b"\xc3\x01"
FINGERPRINT_BYTES = 8
HEADER_BYTES = len(MARKER) + FINGERPRINT_BYTES
# Below Kafka's default limit of one message, so that what can be encoded can be appended.
RECORD_BYTES_MAX = 1_000_000
# An outcome repeats parts of its command: so there is room for it.
COMMAND_BYTES_MAX = 250_000

Record = Command | Outcome | BrokerEvent


class CodecError(Exception):
    """Bytes that are not a record, or a record that has no bytes."""


class MalformedRecord(CodecError):
    """The bytes are not exactly one record, or a field cannot be encoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownFingerprint(CodecError):
    """The bytes name a schema that this release does not have."""

    def __init__(self, fingerprint_hex: str) -> None:
        super().__init__(f"no schema with fingerprint {fingerprint_hex}")
        self.fingerprint_hex = fingerprint_hex


class _Codec:
    """Everything needed for one record class. What reads it is made when first needed: to make all
    of them took a sixth of a second of every start, and few processes read more than a few kinds.
    """

    __slots__ = ("bytes_max", "from_plain", "header", "read", "schema", "to_plain")

    def __init__(self, header: bytes, bytes_max: int, schema: Any) -> None:
        self.header = header
        self.bytes_max = bytes_max
        self.schema = schema
        self.to_plain: Callable[[Any], dict[str, Any]] = _record_writer(schema)
        self.from_plain: Callable[[Any], Any] = _record_reader(schema)
        self.read: Reader = self._first_read

    def _first_read(self, data: bytes, at: int) -> Any:
        self.read = reader_of(self.schema, _CLASSES)
        return self.read(data, at)


def encode(record: Record) -> bytes:
    """Return the bytes of `record`. Raises `MalformedRecord` for values without an encoding."""
    codec = _codec_of(record)
    if codec is None:
        raise MalformedRecord(f"{type(record).__name__} is not a record")
    try:
        data = (_WRITERS.get(codec.header) or _writer(codec))(record)
    except Exception:  # Not as our own processes make it: whether it has bytes, fastavro says.
        data = _encode_slowly(record, codec)
    if len(data) > codec.bytes_max:
        raise MalformedRecord(f"record of {len(data)} bytes, limit {codec.bytes_max}")
    return data


def _writer(codec: _Codec) -> Writer:
    """Return what writes this form. Made when first needed: few processes write more than a few
    kinds.
    """
    writer = _WRITERS[codec.header] = writer_of(codec.schema, _CLASSES, codec.header)
    return writer


def _encode_slowly(record: Record, codec: _Codec) -> bytes:
    out = BytesIO()
    out.write(codec.header)
    try:
        fastavro.schemaless_writer(out, codec.schema, codec.to_plain(record))
    except Exception as error:  # fastavro's failures have no common type.
        raise MalformedRecord(f"{type(record).__name__}: {error}") from error
    return out.getvalue()


def decode(data: bytes) -> Record:
    """Return the record in `data`. Raises `UnknownFingerprint` or `MalformedRecord`."""
    codec = _BY_HEADER.get(data[:HEADER_BYTES])
    if codec is None:
        raise UnknownFingerprint(peek_fingerprint(data))
    return _decode_as(codec, data)


def _decode_as(codec: _Codec, data: bytes) -> Any:
    if len(data) > codec.bytes_max:
        raise MalformedRecord(f"record of {len(data)} bytes, limit {codec.bytes_max}")
    try:
        return codec.read(data, HEADER_BYTES)
    except Exception:  # Not as `encode` writes it: what it is, fastavro says.
        return _decode_slowly(data, codec)


def _decode_slowly(data: bytes, codec: _Codec) -> Record:
    body = BytesIO(data)
    body.seek(HEADER_BYTES)
    try:
        plain = fastavro.schemaless_reader(
            body, codec.schema, None, return_record_name=True, return_record_name_override=True
        )
        record = codec.from_plain(plain)
    except Exception as error:  # Hostile bytes fail inside fastavro in many ways.
        raise MalformedRecord(f"{type(error).__name__}: {error}") from error
    if body.tell() != len(data):
        raise MalformedRecord(f"{len(data) - body.tell()} bytes after the record")
    return record


def _codec_of(record: Record) -> _Codec | None:
    """Return the first released form that holds `record`: older releases beside us read that
    one.
    """
    cls: type = type(record)
    if cls is Outcome:
        return _oldest_codec(record)
    for codec, missing in _EARLIER_COMMANDS.get(cls, ()):
        if all(getattr(record, name) in _NOT_TOLD for name in missing):
            return codec
    return _BY_CLASS.get(cls)


def _oldest_codec(outcome: Any) -> _Codec | None:
    """Return the first released form that holds it: older releases beside us read that form."""
    kinds = frozenset(map(type, outcome.changes))
    if outcome.state_digest:
        return _BY_CLASS[Outcome]
    found = _FORMS.get(kinds)
    if found is None:
        found = next((codec for codec, known in _OUTCOMES if kinds <= known), None)
        if found is not None:
            _FORMS[kinds] = found
    return found


def peek_fingerprint(data: bytes) -> str:
    """Return the fingerprint named in `data`, as hex. Raises `MalformedRecord`."""
    if len(data) < HEADER_BYTES or data[: len(MARKER)] != MARKER:
        raise MalformedRecord("no single-object marker and fingerprint")
    return data[len(MARKER) : HEADER_BYTES].hex()


def fingerprint_of(record_or_type: Any) -> str:
    """Return the fingerprint of a class's newest form, or of a record's own: 16 hex digits in the
    order of the bytes.
    """
    is_class = isinstance(record_or_type, type)
    codec = _BY_CLASS[record_or_type] if is_class else _codec_of(record_or_type)
    if codec is None:
        raise MalformedRecord(f"{type(record_or_type).__name__} is not a record")
    return codec.header[len(MARKER) :].hex()


def command_decoders() -> dict[bytes, Callable[[bytes], Any]]:
    """Return header -> `decode` for such bytes, of every form of every command, former ones too,
    for readers that looked at it.
    """
    codecs = [*(_BY_CLASS[cls] for cls in COMMANDS), *_FORMER_COMMANDS]
    return {codec.header: partial(_decode_as, codec) for codec in codecs}


def outcome_forms() -> dict[bytes, Any]:
    """Return header -> schema of every form of an outcome that was released."""
    return {codec.header: codec.schema for codec in (*_EARLIER_OUTCOMES, _BY_CLASS[Outcome])}


def _plain_writer(schema: Any) -> Callable[[Any], Any] | None:
    """Return what turns a field value into what fastavro writes; None when it is the same."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            return _union_writer(branches)
        inner = _plain_writer(branches[0])
        return inner and (lambda value: None if value is None else inner(value))
    if isinstance(schema, str):
        return _RECORD_WRITERS.get(schema)
    if schema["type"] == "array":
        item = _plain_writer(schema["items"])
        return (lambda value: [item(one) for one in value]) if item else list
    if schema["type"] == "map":
        return dict
    return _record_writer(schema) if schema["type"] == "record" else None


def _union_writer(branches: list[Any]) -> Callable[[Any], Any]:
    """Return the writer of a union of records: each value is named, so nothing is guessed."""
    writers = {b["name"].removeprefix("regent."): (b["name"], _record_writer(b)) for b in branches}

    def write(value: Any) -> tuple[str, dict[str, Any]]:
        name, writer = writers[type(value).__name__]
        return name, writer(value)

    return write


def _record_writer(schema: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    nested = [(f["name"], w) for f in schema["fields"] if (w := _plain_writer(f["type"]))]

    def write(value: Any) -> dict[str, Any]:
        plain = asdict(value)
        for name, writer in nested:
            plain[name] = writer(plain[name])
        return plain

    _RECORD_WRITERS[schema["name"]] = write
    return write


def _plain_reader(schema: Any) -> Callable[[Any], Any] | None:
    """Return what turns fastavro's value into a field value; None when it is the same."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            readers = {b["name"]: _record_reader(b) for b in branches}
            return lambda named: readers[named[0]](named[1])
        inner = _plain_reader(branches[0])
        return inner and (lambda value: None if value is None else inner(value))
    if isinstance(schema, str):
        return _RECORD_READERS.get(schema)
    if schema["type"] == "array":
        item = _plain_reader(schema["items"])
        return (lambda values: tuple([item(one) for one in values])) if item else tuple
    return _record_reader(schema) if schema["type"] == "record" else None


def _record_reader(schema: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    cls = _CLASSES[schema["name"].removeprefix("regent.")]
    nested = [(f["name"], r) for f in schema["fields"] if (r := _plain_reader(f["type"]))]

    def read(plain: dict[str, Any]) -> Any:
        for name, reader in nested:
            plain[name] = reader(plain[name])
        return cls(*plain.values())

    _RECORD_READERS[schema["name"]] = read
    return read


def _kinds_of(codec: _Codec) -> frozenset[type]:
    """Return the kinds of changes that this form of an outcome can hold."""
    field = next(one for one in codec.schema["fields"] if one["name"] == "changes")
    return frozenset(_CLASSES[b["name"].removeprefix("regent.")] for b in field["type"]["items"])


def _build(cls: type, schema: dict[str, Any] | None = None) -> _Codec:
    schema = schemas.load(cls.__name__) if schema is None else schema
    parsed: Any = fastavro.parse_schema(schema)
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    limit = COMMAND_BYTES_MAX if cls in COMMANDS else RECORD_BYTES_MAX
    return _Codec(MARKER + mark, limit, parsed)


_RECORD_WRITERS: dict[str, Callable[[Any], dict[str, Any]]] = {}
_RECORD_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {}
RECORD_CLASSES: tuple[type, ...] = (*COMMANDS, Outcome, *BROKER_EVENTS)
_PARTS: tuple[type, ...] = (
    Envelope,
    ReplicaEvidence,
    ImportedReplica,
    MemberPosition,
    CandidateVerdict,
    BrokerEventHeader,
)
_CLASSES = {cls.__name__: cls for cls in (*RECORD_CLASSES, *CHANGES, *_PARTS)}
_BY_CLASS: dict[type, _Codec] = {cls: _build(cls) for cls in RECORD_CLASSES}
_EARLIER_OUTCOMES = [_build(Outcome, schema) for schema in schemas.earlier("Outcome").values()]


def _earlier_commands(cls: Any) -> tuple[tuple[_Codec, tuple[str, ...]], ...]:
    """Return each former form of a command, oldest first, with the fields that it does not have."""
    forms = [_build(cls, schema) for schema in schemas.earlier(cls.__name__).values()]
    forms.sort(key=lambda codec: len(codec.schema["fields"]))
    return tuple((codec, cls.__struct_fields__[len(codec.schema["fields"]) :]) for codec in forms)


# Later fields of a command stand at its end and are null or empty where they are not given.
_NOT_TOLD = (None, ())
_EARLIER_COMMANDS = {cls: forms for cls in COMMANDS if (forms := _earlier_commands(cls))}
_FORMER_COMMANDS = [codec for forms in _EARLIER_COMMANDS.values() for codec, _ in forms]
_BY_HEADER: dict[bytes, _Codec] = {
    codec.header: codec for codec in (*_BY_CLASS.values(), *_EARLIER_OUTCOMES, *_FORMER_COMMANDS)
}


# Those that hold less came before those that hold more.
_OUTCOMES = sorted(
    ((codec, _kinds_of(codec)) for codec in (*_EARLIER_OUTCOMES, _BY_CLASS[Outcome])),
    key=lambda form: len(form[1]),
)
# By the kinds of changes: asked once for each set of them, not for each outcome.
_FORMS: dict[frozenset[type], _Codec] = {}
_WRITERS: dict[bytes, Writer] = {}

# What a `ClusterFormed` of this release makes active.
COMMAND_FINGERPRINTS: tuple[str, ...] = tuple(
    sorted(head[len(MARKER) :].hex() for head in command_decoders())
)
