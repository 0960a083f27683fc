"""The body of a send batch: units with a body and properties each.

Responsible for: the byte layout of PROTOCOL 3.10. Every bad input ends in
RecordError.
Refuses to know: what is stored of a unit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from brokers.store.log.properties import PROPERTIES_BYTES_MAX
from brokers.store.log.records import RecordError

BATCH_UNITS_MAX = 65_536

_UNIT_HEAD = struct.Struct(">iiiii")
_U16 = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class BatchUnit:
    """One message of a send batch: user flag, body, properties text as sent."""

    flag: int
    body: bytes
    properties: bytes


def decode_batch(data: bytes) -> list[BatchUnit]:
    """Units of a send-batch body (3.10). RecordError on truncated, oversized or inconsistent bytes,
    or when empty.
    """
    units: list[BatchUnit] = []
    at = 0
    while at < len(data):
        if len(units) == BATCH_UNITS_MAX:
            raise RecordError(f"more than {BATCH_UNITS_MAX} messages in a batch")
        if len(data) - at < 22:
            raise RecordError("batch unit is cut short")
        size, _, _, flag, body_bytes = _UNIT_HEAD.unpack_from(data, at)
        body_at, end = at + 20, at + size
        properties_at = body_at + body_bytes + 2
        if body_bytes < 0 or size < 22 or end > len(data) or properties_at > end:
            raise RecordError("batch unit runs past its end")
        properties_bytes = _U16.unpack_from(data, properties_at - 2)[0]
        if properties_bytes > PROPERTIES_BYTES_MAX or properties_at + properties_bytes != end:
            raise RecordError("batch unit lengths do not add up")
        units.append(
            BatchUnit(
                flag, bytes(data[body_at : properties_at - 2]), bytes(data[properties_at:end])
            )
        )
        at = end
    if not units:
        raise RecordError("batch is empty")
    return units


def encode_batch(units: list[BatchUnit]) -> bytes:
    """Send-batch body; magic and CRC words are 0 as Java clients send them."""
    parts: list[bytes] = []
    for unit in units:
        size = 22 + len(unit.body) + len(unit.properties)
        parts.append(_UNIT_HEAD.pack(size, 0, 0, unit.flag, len(unit.body)))
        parts += (unit.body, _U16.pack(len(unit.properties)), unit.properties)
    return b"".join(parts)
