"""The messages a send stores, as the log takes them (PROTOCOL 4.3).

Responsible for: one message or a batch of them, what the broker adds and removes, where a message
was born. Refuses to know: whether it may be stored, the store, the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import FORWARDED_FOR
from brokers.service.sending.delayed import as_stored as with_level
from brokers.service.sending.half import as_half
from brokers.service.sending.request import (
    MARK_POP,
    MARK_TRANSACTION,
    REGION_ID,
    SendRequest,
    has_property,
    is_transactional,
    joined_properties,
    property_value,
    stored_properties,
)
from brokers.service.sending.usual import UsualSend
from brokers.store.log.batch_units import decode_batch
from brokers.store.log.records import MessageFields, host_bytes

LOCALHOST = host_bytes("127.0.0.1", 0)


class MessageMaker:
    """`store_host`: this broker's address as stored. `as_stored(message)`: the form in which a
    single message goes into the log; ValueError.
    """

    def __init__(
        self,
        cluster_name: str,
        store_host: bytes,
        as_stored: Callable[[MessageFields], MessageFields] = with_level,
    ) -> None:
        self._as_stored = as_stored
        self._added = (
            f"MSG_REGION\x01{REGION_ID}\x02TRACE_ON\x01true\x02CLUSTER\x01{cluster_name}\x02"
        )
        self._store_host = store_host

    def messages(
        self, connection: Connection, request: RemotingCommand, send: SendRequest, queue_id: int
    ) -> list[MessageFields]:
        """In the order of the batch, a delayed one in the form in which it waits. RecordError,
        ValueError: not storable.
        """
        born_host = _born_host(connection, request)
        if send.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
            # As RocketMQ does, and its recorded log shows: what the request carries goes behind
            # each message's own.
            common = stored_properties(send.properties, self._added)
            units = decode_batch(request.body)
            for unit in units:
                if has_property(unit.properties.decode("utf-8", "replace"), MARK_TRANSACTION):
                    raise ValueError("a transaction message cannot be one of a batch")
            return [
                MessageFields(
                    send.topic,
                    queue_id,
                    unit.body,
                    joined_properties(unit.properties, common),
                    send.born_ms,
                    born_host,
                    self._store_host,
                    unit.flag,
                    send.sys_flag,
                    send.reconsume_times,
                )
                for unit in units
            ]
        properties = send.properties
        if MARK_POP in properties:
            properties = _without(properties, MARK_POP)
        message = MessageFields(
            send.topic,
            queue_id,
            request.body,
            stored_properties(properties, self._added),
            send.born_ms,
            born_host,
            self._store_host,
            send.flag,
            send.sys_flag,
            send.reconsume_times,
        )
        if is_transactional(properties):
            return [as_half(message, property_value(properties, "UNIQ_KEY"))]
        return [self._as_stored(message)]

    def usual(self, connection: Connection, send: UsualSend, body: bytes) -> MessageFields | None:
        """The one message of a usual send; None when its properties are too long."""
        try:
            properties = stored_properties(send.properties, self._added)
        except ValueError:
            return None
        return MessageFields(
            send.topic,
            send.queue_id,
            body,
            properties,
            send.born_ms,
            _born_at(connection),
            self._store_host,
        )


def _born_host(connection: Connection, request: RemotingCommand) -> bytes:
    peer = request.ext.get(FORWARDED_FOR)
    return _born_at(connection) if peer is None else packed_peer(peer)


def _born_at(connection: Connection) -> bytes:
    known = connection.attributes.get("born_host")
    if known is None:
        known = connection.attributes["born_host"] = packed_peer(connection.peer)
    assert isinstance(known, bytes)
    return known


def packed_peer(peer: str) -> bytes:
    """The stored form of `ip:port`; the local host when the text is no numeric address."""
    host, _, port = peer.rpartition(":")
    try:
        return host_bytes(host.strip("[]"), int(port) & 0xFFFF)
    except ValueError:
        return LOCALHOST


def _without(properties: str, key: str) -> str:
    return "".join(
        f"{entry}\x02"
        for entry in properties.split("\x02")
        if entry and not entry.startswith(f"{key}\x01")
    )


_TAIL = struct.Struct(">HIIH")  # pid, hash, ms, counter


class UniqueKeys:
    """Keys of one process: `host` is 4 or 16 packed address bytes, `salt` tells processes with one
    pid apart.
    """

    def __init__(self, host: bytes, pid: int, salt: int) -> None:
        self._host = host
        self._pid = pid & 0xFFFF
        self._salt = salt & 0xFFFFFFFF
        self._counter = 0

    def next_key(self, wall_ms: int) -> str:
        """A new key: 32 characters, 56 with an IPv6 host; unique while a process makes at most
        65,536 per ms.
        """
        self._counter = (self._counter + 1) & 0xFFFF
        return (
            (self._host + _TAIL.pack(self._pid, self._salt, wall_ms & 0xFFFFFFFF, self._counter))
            .hex()
            .upper()
        )
