"""REGISTER_BROKER as it comes over the wire, turned into a Registration.

Responsible for: header fields, checksum, the JSON body and the compressed one
(PROTOCOL 4.1, each within named limits.
Refuses to know: the route table and its rules.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Generic, TypeVar

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from processors.nameserver.records import DataVersion, Registration, TopicQueues

TABLES_MAX = 64
# Smaller ones are decoded as fast as they are recognised.
TEXT_BYTES_MIN = 16 * 1024
# As this project's brokers write it; what stands in front of the topics is the version alone.
_HEAD = re.compile(
    rb'\{"filterServerList":\[\],"topicConfigSerializeWrapper":\{"dataVersion":(\{[^{}\\]*\}),'
    rb'"mappingDataVersion":\{[^{}\\]*\},"topicConfigTable":'
)
# A name that comes twice: the later one counts, so such a rest says something of the version too.
_TWICE = (b'"dataVersion"', b'"topicConfigSerializeWrapper"')

Table = TypeVar("Table", bound=Mapping[str, object])
Body = tuple[DataVersion, dict[str, TopicQueues], tuple[str, ...] | None]
"""Version, topics, filter servers."""


class KnownTables(Generic[Table]):
    """The newest tables. They are shared: nobody may change one."""

    def __init__(self, limit: int = TABLES_MAX) -> None:
        self._limit = limit
        self._tables: OrderedDict[bytes, Table] = OrderedDict()

    @staticmethod
    def taken_apart(body: bytes) -> tuple[bytes, bytes] | None:
        """(text of the version, mark of the rest); None for a body of another form."""
        head = _HEAD.match(body) if len(body) >= TEXT_BYTES_MIN else None
        return (
            None
            if head is None
            else (head.group(1), blake2b(memoryview(body)[head.end() :], digest_size=16).digest())
        )

    def get(self, mark: bytes) -> Table | None:
        found = self._tables.get(mark)
        if found is not None:
            self._tables.move_to_end(mark)
        return found

    def keep(self, mark: bytes, body: bytes, table: Table) -> None:
        """`table` is what the rest of `body` holds."""
        head = _HEAD.match(body)
        if head is None or any(body.find(name, head.end()) >= 0 for name in _TWICE):
            return
        self._tables[mark] = table
        while len(self._tables) > self._limit:
            self._tables.popitem(last=False)


# A registration names every topic of a broker; 16 MiB hold far more than TOPICS_MAX of them.
BODY_BYTES_MAX = 16_777_216
TOPICS_MAX = 100_000
NAME_CHARACTERS_MAX = 255
TIMEOUT_MS_DEFAULT = 120_000
TIMEOUT_MS_MAX = 86_400_000
QUEUES_MAX = 65_535
FILTER_SERVERS_MAX = 64
_I64_MAX = 2**63 - 1
_I32 = struct.Struct(">i")
_ZLIB_MARK = 0x78


class BadRegistration(ValueError):
    """The registration cannot be read; one line says why."""


def decode_registration(
    request: RemotingCommand, known: KnownTables[dict[str, TopicQueues]] | None = None
) -> Registration:
    """The registration of a REGISTER_BROKER request. Raises BadRegistration. `known`: tables need
    not be decoded again.
    """
    ext, body = request.ext, request.body
    _check_crc(ext.get("bodyCrc32", "0"), body)
    # Java says compressed=false even when it compressed(PROTOCOL 4.1); no JSON
    # text begins so.
    if ext.get("compressed") == "true" or body[:1] == bytes((_ZLIB_MARK,)):
        version, topics, filter_servers = _decode_compressed(body)
    elif body:
        version, topics, filter_servers = (
            _decode_json(body) if known is None else _decode_known(body, known)
        )
    else:
        version, topics, filter_servers = DataVersion(), {}, ()
    acting = ext.get("enableActingMaster")
    return Registration(
        cluster_name=_name(ext, "clusterName"),
        broker_name=_name(ext, "brokerName"),
        broker_id=_number(ext.get("brokerId"), "brokerId", _I64_MAX),
        address=_name(ext, "brokerAddr"),
        ha_address=ext.get("haServerAddr", "")[:NAME_CHARACTERS_MAX],
        version=version,
        topics=topics,
        timeout_ms=max(
            1,
            _number(
                ext.get("heartbeatTimeoutMillis", TIMEOUT_MS_DEFAULT), "timeout", TIMEOUT_MS_MAX
            ),
        ),
        acting_master=None if acting is None else acting.lower() == "true",
        zone=ext.get("__ZONE_NAME", "")[:NAME_CHARACTERS_MAX],
        filter_servers=filter_servers,
    )


def decode_data_version(body: bytes) -> DataVersion:
    """A DataVersion body; an empty one is version 0. Raises BadRegistration."""
    return _version(_json(body)) if body else DataVersion()


def _check_crc(text: str, body: bytes) -> None:
    expected = _number(text, "bodyCrc32", 0xFFFFFFFF)
    if expected and expected != zlib.crc32(body) & 0x7FFFFFFF:
        raise BadRegistration("crc32 not match")


def _decode_known(body: bytes, known: KnownTables[dict[str, TopicQueues]]) -> Body:
    parts = known.taken_apart(body)
    if parts is None:
        return _decode_json(body)
    version, mark = parts
    topics = known.get(mark)
    if topics is not None:
        return _version(_json(version)), topics, ()
    decoded = _decode_json(body)
    known.keep(mark, body, decoded[1])
    return decoded


def _decode_json(body: bytes) -> Body:
    whole = _object(_json(body), "body")
    wrapper = _object(whole.get("topicConfigSerializeWrapper"), "topicConfigSerializeWrapper")
    table = _object(wrapper.get("topicConfigTable"), "topicConfigTable")
    if len(table) > TOPICS_MAX:
        raise BadRegistration(f"{len(table)} topics, allowed are {TOPICS_MAX}")
    topics = {_topic_name(name): _queues(_object(config, name)) for name, config in table.items()}
    filter_servers = _filter_servers(whole.get("filterServerList", []))
    return _version(wrapper.get("dataVersion")), topics, filter_servers


def _decode_compressed(body: bytes) -> Body:
    data = _inflate(body)
    text, position = _text(data, 0)
    version = _version(_json(text))
    count, position = _i32(data, position)
    if not 0 <= count <= TOPICS_MAX:
        raise BadRegistration(f"{count} topics, allowed are {TOPICS_MAX}")
    topics: dict[str, TopicQueues] = {}
    for _ in range(count):
        text, position = _text(data, position)
        # name, read queues, write queues, perm, filter type, attributes as JSON
        parts = text.decode("utf-8", "replace").split(" ", 5)
        if len(parts) < 4:
            raise BadRegistration("a topic with fewer than four parts")
        topics[_topic_name(parts[0])] = _queues(
            {"readQueueNums": parts[1], "writeQueueNums": parts[2], "perm": parts[3]}
        )
    # Static-topic mappings follow, which no route of ours needs.
    if position == len(data):
        return version, topics, ()
    text, position = _text(data, position)
    return version, topics, _filter_servers(_json(text))


def _filter_servers(value: object) -> tuple[str, ...] | None:
    """None: nothing is said of them."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > FILTER_SERVERS_MAX:
        raise BadRegistration(f"no list of at most {FILTER_SERVERS_MAX} filter servers")
    if not all(isinstance(one, str) and len(one) <= NAME_CHARACTERS_MAX for one in value):
        raise BadRegistration("a filter server that is no address")
    return tuple(value)


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise BadRegistration(f"the compressed body is broken: {error}") from None
    if len(data) > BODY_BYTES_MAX:
        raise BadRegistration(f"the body inflates to more than {BODY_BYTES_MAX} bytes")
    if not inflater.eof:
        raise BadRegistration("the compressed body ends early")
    return data


def _i32(data: bytes, position: int) -> tuple[int, int]:
    if position + 4 > len(data):
        raise BadRegistration("the compressed body ends early")
    return _I32.unpack_from(data, position)[0], position + 4


def _text(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _i32(data, position)
    if length < 0 or position + length > len(data):
        raise BadRegistration(f"a text of {length} bytes reaches beyond the compressed body")
    return data[position : position + length], position + length


def _json(data: bytes) -> object:
    try:
        return fastjson.loads(data, fastjson.TABLE_BYTES_MAX)
    except fastjson.JsonRejected as error:
        raise BadRegistration(str(error)) from None


def _version(value: object) -> DataVersion:
    fields = _object(value, "dataVersion")
    # Versions before 5.0 had no stateVersion.
    return DataVersion(
        _number(fields.get("stateVersion", 0), "stateVersion", _I64_MAX),
        _number(fields.get("counter", 0), "counter", _I64_MAX),
        _number(fields.get("timestamp", 0), "timestamp", _I64_MAX),
    )


def _queues(fields: Mapping[str, object]) -> TopicQueues:
    return TopicQueues(
        _number(fields.get("readQueueNums", 16), "readQueueNums", QUEUES_MAX),
        _number(fields.get("writeQueueNums", 16), "writeQueueNums", QUEUES_MAX),
        _number(fields.get("perm", 6), "perm", 15),
        _number(fields.get("topicSysFlag", 0), "topicSysFlag", 0x7FFFFFFF),
    )


def decode_route(body: bytes) -> dict[str, TopicQueues]:
    """Broker name to queues, of the body of REGISTER_TOPIC_IN_NAMESRV. Raises BadRegistration."""
    rows = _object(_json(body), "body").get("queueDatas")
    if not isinstance(rows, list) or len(rows) > TOPICS_MAX:
        raise BadRegistration("the body holds no list of queueDatas")
    found = {}
    for row in rows:
        fields = _object(row, "a queueData")
        name = fields.get("brokerName")
        if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise BadRegistration("a queueData without the name of its broker")
        found[name] = _queues(fields)
    return found


def _object(value: object, what: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRegistration(f"{what[:64]} is no object")
    return value


def _number(value: object, what: str, maximum: int) -> int:
    text = str(value).strip()
    if (
        isinstance(value, (bool, float))
        or not text.isascii()
        or not text.isdigit()
        or len(text) > 19
    ):
        raise BadRegistration(f"{what} is no number: {text[:32]!r}")
    if int(text) > maximum:
        raise BadRegistration(f"{what} is {text}, allowed are 0 to {maximum}")
    return int(text)


def _name(ext: Mapping[str, str], key: str) -> str:
    value = ext.get(key, "")
    if not 0 < len(value) <= NAME_CHARACTERS_MAX:
        raise BadRegistration(f"{key} is missing or longer than {NAME_CHARACTERS_MAX} characters")
    return value


def _topic_name(name: str) -> str:
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise BadRegistration(f"a topic name of {len(name)} characters")
    return name
