"""Pops and acknowledgements as a client makes them, and what it reads of the answers
(PROTOCOL 4.9).

Refuses to know: who pops, what becomes of the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokers.remoting.command import RemotingCommand
from brokers.service.popping.handles import Handle
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import StoredMessage, decode_messages


def pop_request(topic: str = "T", group: str = "g", **changes: object) -> RemotingCommand:
    """A 200050 of one message or more, which does not wait."""
    ext: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 10_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }
    return RemotingCommand.request(
        200050, {name: str(value) for name, value in {**ext, **changes}.items()}
    )


@dataclass(slots=True)
class Gotten:
    """A popped message and the handle by which its client acknowledges it."""

    body: bytes
    record: StoredMessage
    handle: Handle
    properties: dict[str, str] = field(default_factory=dict)


def gotten(answer: RemotingCommand, broker_name: str = "b") -> list[Gotten]:
    """The messages of an answer with code 0, as Java's client reads it. ValueError: what it says of
    them contradicts itself.
    """
    starts: dict[tuple[str, str], int] = {}
    offsets: dict[tuple[str, str], list[int]] = {}
    for entry in answer.ext["startOffsetInfo"].split(";"):
        kind, queue_id, place = entry.split(" ")
        if (kind, queue_id) in starts:
            raise ValueError(f"two check points of {kind} {queue_id}")
        starts[kind, queue_id] = int(place)
    for entry in answer.ext["msgOffsetInfo"].split(";"):
        kind, queue_id, listed = entry.split(" ")
        offsets[kind, queue_id] = [int(one) for one in listed.split(",")]
    found = []
    for record in decode_messages(answer.body):
        properties = decode_properties(record.fields.properties)
        if "POP_CK" in properties:
            fields = properties["POP_CK"].split(" ")
            key = fields[4], fields[6]
            start, kind = int(fields[0]), fields[4]
        else:
            key, kind = ("0", str(record.fields.queue_id)), "0"
            start = starts[key]
        if record.queue_offset not in offsets[key]:
            raise ValueError(f"nothing says that {record.queue_offset} of {key} was popped")
        handle = Handle(
            start,
            int(answer.ext["popTime"]),
            int(answer.ext["invisibleTime"]),
            int(answer.ext["reviveQid"]),
            kind,
            broker_name,
            record.fields.queue_id,
            record.queue_offset,
        )
        if properties.get("POP_CK", handle.text()) != handle.text():
            raise ValueError(f"{properties['POP_CK']} is not {handle.text()}")
        found.append(Gotten(bytes(record.fields.body), record, handle, properties))
    if sum(map(len, offsets.values())) != len(found):
        raise ValueError(f"{len(found)} messages, and other places")
    return found


def ack_request(
    handle: Handle, topic: str = "T", group: str = "g", code: int = 200051, **changes: object
) -> RemotingCommand:
    ext: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic if handle.kind == "0" else f"%RETRY%{group}_{topic}",
        "queueId": handle.queue_id,
        "extraInfo": handle.text(),
        "offset": handle.offset,
    }
    return RemotingCommand.request(
        code, {name: str(value) for name, value in {**ext, **changes}.items()}
    )
