"""Records of the commit log: messages version 1 and 2, blank records, offset message ids.

Responsible for: the byte layouts of PROTOCOL 3.2, 3.3 and 5.5. Every bad input
ends in RecordError.
Refuses to know: files, positions in a log beyond the number written into a record, queues.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from brokers.store.log.properties import PROPERTIES_BYTES_MAX, tags_code

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194

BLANK_BYTES_MIN = 8
BODY_BYTES_MAX = 4 * 1024 * 1024
TOPIC_BYTES_MAX_V1 = 127
TOPIC_BYTES_MAX_V2 = 0xFFFF
# 91 bytes of a v1 message with IPv4 hosts and nothing in it.
MESSAGE_BYTES_MIN = 91

SYS_FLAG_COMPRESSED = 0x1
SYS_FLAG_TRANSACTION_MASK = 0xC
SYS_FLAG_PREPARED = 0x4
SYS_FLAG_COMMIT = 0x8
SYS_FLAG_ROLLBACK = 0xC
SYS_FLAG_BORN_HOST_V6 = 0x10
SYS_FLAG_STORE_HOST_V6 = 0x20
HOSTS_V6 = SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6

_HEAD = struct.Struct(">iIIiiqqiq")  # up to and with bornTimestamp
# everything in front of the body, with two IPv4 hosts
_BEFORE_BODY_V4 = struct.Struct(">iIIiiqqiq8sq8siqi")
_MIDDLE = struct.Struct(">iqi")  # reconsumeTimes, preparedTransactionOffset, body length
_I64 = struct.Struct(">q")
_U16 = struct.Struct(">H")
_SIZE_AND_MAGIC = struct.Struct(">iI")
_HOST_LENGTHS = (8, 20)
# Of a message with two IPv4 hosts.
BODY_AT_V4 = 88


class RecordError(Exception):
    """The bytes are not a complete, valid record. `reason` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MessageFields(Struct, frozen=True, gc=False):
    """A message to be stored: everything that is known before its place is. A compiled record:
    every send makes one.

    Hosts are packed (see `host_bytes`): 4 or 16 address bytes and an i32 port. Times are ms since
    1970.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    born_ms: int
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


class StoredMessage(Struct, frozen=True, gc=False):
    """A message read back: its fields and what the log added. `size` and offsets in bytes, times in
    ms since 1970.
    """

    fields: MessageFields
    size: int
    version: int
    body_crc: int
    queue_offset: int
    physical_offset: int
    store_ms: int


class Record(NamedTuple):
    """What the dispatcher needs of a message. A tuple because millions of them are made."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_ms: int
    sys_flag: int
    properties: bytes = b""


def host_bytes(address: str, port: int) -> bytes:
    """Packed host of the stored form. ValueError when `address` is not a numeric IPv4 or IPv6
    address.
    """
    return ipaddress.ip_address(address).packed + struct.pack(">i", port)


def host_text(host: bytes) -> str:
    """`ip:port` of a packed host (IPv6 in brackets)."""
    address = ipaddress.ip_address(bytes(host[:-4]))
    port = struct.unpack(">i", host[-4:])[0]
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    """Upper-case hex of host and offset: 32 characters, 56 for an IPv6 host (5.5)."""
    return f"{_host_digits(store_host)}{physical_offset & 0xFFFFFFFFFFFFFFFF:016X}"


@lru_cache(maxsize=64)
def _host_digits(host: bytes) -> str:
    return host.hex().upper()


def parse_offset_message_id(text: str) -> tuple[bytes, int]:
    """(packed store host, physical offset) of an offset message id. RecordError when it is none."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise RecordError("offset message id is not hex") from None
    if len(data) not in (16, 28):
        raise RecordError("offset message id has the wrong length")
    return data[:-8], _I64.unpack(data[-8:])[0]


def body_checksum(body: bytes | memoryview) -> int:
    """CRC32 with the sign bit cleared, as the Java side stores it."""
    return crc32(body) & 0x7FFFFFFF


@lru_cache(maxsize=4096)
def _topic_block(topic: str) -> tuple[int, bytes]:
    name = topic.encode("utf-8", "surrogateescape")
    if not name:
        raise RecordError("topic is empty")
    if len(name) <= TOPIC_BYTES_MAX_V1:
        return MAGIC_V1, bytes((len(name),)) + name
    if len(name) > TOPIC_BYTES_MAX_V2:
        raise RecordError("topic is too long")
    return MAGIC_V2, _U16.pack(len(name)) + name


def message_size(message: MessageFields) -> int:
    """Bytes of the stored form. RecordError when a limit of 3.2 is exceeded."""
    body, properties = len(message.body), len(message.properties)
    if body > BODY_BYTES_MAX:
        raise RecordError(f"body of {body} bytes is above {BODY_BYTES_MAX}")
    if properties > PROPERTIES_BYTES_MAX:
        raise RecordError(f"properties of {properties} bytes are above {PROPERTIES_BYTES_MAX}")
    topic = len(_topic_block(message.topic)[1])
    return 74 + len(message.born_host) + len(message.store_host) + body + topic + properties


def encode_message(
    message: MessageFields,
    size: int,
    queue_offset: int,
    physical_offset: int,
    store_ms: int,
    body_crc: int | None = None,
) -> bytes:
    """Stored form of `message` at its place; `size` must come from `message_size`.

    The host-length bits of sysFlag are set from the hosts. Prepared and rollback messages store
    queue offset 0. `body_crc` is computed unless given (a re-encoded record keeps the one it had).
    """
    return b"".join(encode_parts(message, size, queue_offset, physical_offset, store_ms, body_crc))


def encode_parts(
    message: MessageFields,
    size: int,
    queue_offset: int,
    physical_offset: int,
    store_ms: int,
    body_crc: int | None = None,
) -> tuple[bytes, bytes | memoryview, bytes]:
    """As `encode_message`: what stands before the body, the body itself, not copied, and what
    stands behind it.
    """
    magic, topic = _topic_block(message.topic)
    born_host, store_host, body, properties = (
        message.born_host,
        message.store_host,
        message.body,
        message.properties,
    )
    crc = crc32(body) & 0x7FFFFFFF if body_crc is None else body_crc
    behind = topic + _U16.pack(len(properties)) + properties
    if len(born_host) == 8 == len(store_host):
        try:
            before = _BEFORE_BODY_V4.pack(
                size,
                magic,
                crc,
                message.queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                message.sys_flag & ~HOSTS_V6,
                message.born_ms,
                born_host,
                store_ms,
                store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                len(body),
            )
        except struct.error as error:
            raise RecordError(f"a number does not fit its field: {error}") from None
    else:
        before = _before_body(
            message, (size, magic, crc), (queue_offset, physical_offset), store_ms
        )
    return before, body, behind


def _before_body(
    message: MessageFields, head: tuple[int, int, int], place: tuple[int, int], store_ms: int
) -> bytes:
    """With hosts of any kind."""
    born_host, store_host = message.born_host, message.store_host
    if len(born_host) not in _HOST_LENGTHS or len(store_host) not in _HOST_LENGTHS:
        raise RecordError("host is not 8 or 20 bytes")
    sys_flag = message.sys_flag & ~HOSTS_V6
    if len(born_host) == 20:
        sys_flag |= SYS_FLAG_BORN_HOST_V6
    if len(store_host) == 20:
        sys_flag |= SYS_FLAG_STORE_HOST_V6
    try:
        packed = _HEAD.pack(
            *head, message.queue_id, message.flag, *place, sys_flag, message.born_ms
        )
        middle = _MIDDLE.pack(
            message.reconsume_times, message.prepared_transaction_offset, len(message.body)
        )
    except struct.error as error:
        raise RecordError(f"a number does not fit its field: {error}") from None
    return b"".join((packed, born_host, _I64.pack(store_ms), store_host, middle))


def encode_stored(stored: StoredMessage) -> bytes:
    """The bytes that `decode_message` read."""
    place = stored.queue_offset, stored.physical_offset, stored.store_ms
    return encode_message(stored.fields, stored.size, *place, body_crc=stored.body_crc)


class _Layout(NamedTuple):
    """Where the parts of one message lie, relative to the buffer. Only made when lengths add up to
    the total size.
    """

    head: tuple[int, ...]
    store_ms: int
    born_host_at: int
    store_host_at: int
    middle_at: int
    body_at: int
    topic_at: int
    properties_at: int
    end: int


def _layout(data: bytes | memoryview, at: int) -> _Layout:
    """Lengths of the message at `at`, checked against its total size and the buffer (3.8).
    RecordError otherwise.
    """
    if len(data) - at < MESSAGE_BYTES_MIN:
        raise RecordError("record is shorter than any message")
    head = _HEAD.unpack_from(data, at)
    size, magic, sys_flag = head[0], head[1], head[7]
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise RecordError("magic is not that of a message")
    end = at + size
    if size < MESSAGE_BYTES_MIN or end > len(data):
        raise RecordError("record is incomplete")
    store_ms_at = at + 48 + (20 if sys_flag & SYS_FLAG_BORN_HOST_V6 else 8)
    middle_at = store_ms_at + 8 + (20 if sys_flag & SYS_FLAG_STORE_HOST_V6 else 8)
    body_at = middle_at + 16
    if body_at > end:
        raise RecordError("record ends inside its header")
    body_bytes = _MIDDLE.unpack_from(data, middle_at)[2]
    topic_at = body_at + body_bytes + (1 if magic == MAGIC_V1 else 2)
    if body_bytes < 0 or topic_at > end:
        raise RecordError("body runs past the record")
    topic_bytes = (
        data[topic_at - 1] if magic == MAGIC_V1 else _U16.unpack_from(data, topic_at - 2)[0]
    )
    if magic == MAGIC_V1 and topic_bytes > TOPIC_BYTES_MAX_V1:
        raise RecordError("topic of a version 1 record is too long")
    properties_at = topic_at + topic_bytes + 2
    if properties_at > end:
        raise RecordError("topic runs past the record")
    properties_bytes = _U16.unpack_from(data, properties_at - 2)[0]
    if properties_bytes > PROPERTIES_BYTES_MAX or properties_at + properties_bytes != end:
        raise RecordError("lengths do not add up to the size of the record")
    store_ms = _I64.unpack_from(data, store_ms_at)[0]
    return _Layout(
        head, store_ms, at + 48, store_ms_at + 8, middle_at, body_at, topic_at, properties_at, end
    )


def _body_end(layout: _Layout) -> int:
    return layout.topic_at - (1 if layout.head[1] == MAGIC_V1 else 2)


def _check_body(data: bytes | memoryview, layout: _Layout) -> None:
    if layout.body_at == _body_end(layout):
        return  # as Java: an empty body has no checksum to fail
    if crc32(memoryview(data)[layout.body_at : _body_end(layout)]) & 0x7FFFFFFF != layout.head[2]:
        raise RecordError("body does not match its checksum")


@lru_cache(maxsize=4096)
def _topic_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def read_record(data: bytes, at: int, *, check_body: bool) -> Record:
    """What the dispatcher needs of the message at `at` of `data`. RecordError when it is not
    complete and valid.
    """
    layout = _layout(data, at)
    if check_body:
        _check_body(data, layout)
    size, _, _, queue_id, _, queue_offset, physical_offset, sys_flag, _ = layout.head
    topic = _topic_text(bytes(data[layout.topic_at : layout.properties_at - 2]))
    properties = bytes(data[layout.properties_at : layout.end])
    code = tags_code(properties, topic, layout.store_ms)
    return Record(
        physical_offset,
        size,
        topic,
        queue_id,
        queue_offset,
        code,
        layout.store_ms,
        sys_flag,
        properties,
    )


def decode_message(data: bytes, at: int = 0, *, check_body: bool = True) -> StoredMessage:
    """The whole message at `at` of `data`. RecordError when it is not complete and valid."""
    usual = _usual_message(data, at, check_body=check_body) if type(data) is bytes else None
    return decode_carefully(data, at, check_body=check_body) if usual is None else usual


def _usual_message(data: bytes, at: int, *, check_body: bool) -> StoredMessage | None:
    """A message of version 1 with IPv4 hosts, in one go; None: it is another one, or not valid."""
    if len(data) - at < MESSAGE_BYTES_MIN:
        return None
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_bytes,
    ) = _BEFORE_BODY_V4.unpack_from(data, at)
    end, body_at = at + size, at + BODY_AT_V4
    topic_at = body_at + body_bytes + 1
    if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or not body_at < topic_at <= end <= len(data):
        return None
    properties_at = topic_at + data[topic_at - 1] + 2
    if not topic_at + 2 <= properties_at <= end or properties_at - topic_at - 2 > (
        TOPIC_BYTES_MAX_V1
    ):
        return None
    properties_bytes = data[properties_at - 2] << 8 | data[properties_at - 1]
    body, properties = data[body_at : topic_at - 1], data[properties_at:end]
    if properties_bytes != len(properties) or properties_bytes > PROPERTIES_BYTES_MAX:
        return None
    if check_body and body and crc32(body) & 0x7FFFFFFF != crc:
        return None
    topic = _topic_text(data[topic_at : properties_at - 2])
    fields = MessageFields(
        topic,
        queue_id,
        body,
        properties,
        born_ms,
        born_host,
        store_host,
        flag,
        sys_flag,
        reconsume_times,
        prepared_offset,
    )
    return StoredMessage(fields, size, 1, crc, queue_offset, physical_offset, store_ms)


def decode_carefully(data: bytes, at: int = 0, *, check_body: bool = True) -> StoredMessage:
    """`decode_message` of a message of any form, and of what is none."""
    layout = _layout(data, at)
    if check_body:
        _check_body(data, layout)
    size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms = layout.head
    reconsume_times, prepared_offset, _ = _MIDDLE.unpack_from(data, layout.middle_at)
    fields = MessageFields(
        topic=_topic_text(bytes(data[layout.topic_at : layout.properties_at - 2])),
        queue_id=queue_id,
        body=bytes(data[layout.body_at : _body_end(layout)]),
        properties=bytes(data[layout.properties_at : layout.end]),
        born_ms=born_ms,
        born_host=bytes(data[layout.born_host_at : layout.store_host_at - 8]),
        store_host=bytes(data[layout.store_host_at : layout.middle_at]),
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_offset,
    )
    version = 1 if magic == MAGIC_V1 else 2
    return StoredMessage(fields, size, version, crc, queue_offset, physical_offset, layout.store_ms)


def decode_messages(data: bytes) -> list[StoredMessage]:
    """Messages that follow each other without gap, as a pull answers them (3.11). RecordError on
    anything else.
    """
    found: list[StoredMessage] = []
    at = 0
    while at < len(data):
        message = decode_message(data, at)
        found.append(message)
        at += message.size
    return found


def size_and_magic(data: bytes, at: int) -> tuple[int, int]:
    """First two words of the record at `at`; 8 bytes must be there."""
    return _SIZE_AND_MAGIC.unpack_from(data, at)


def has_queue_entry(sys_flag: int) -> bool:
    """Whether a message shows in its queue: prepared and rollback messages do not (3.5)."""
    return sys_flag & SYS_FLAG_TRANSACTION_MASK not in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)


def encode_blank(bytes_left: int) -> bytes:
    """The 8 bytes that close a file with `bytes_left` bytes to its end (3.3)."""
    return _SIZE_AND_MAGIC.pack(bytes_left, MAGIC_BLANK)
