"""An outcome's bytes in their two parts: what the fold gives, and what its publisher stamped.

Whoever folds a command again knows the first part to the byte, and need not read what was published
to compare it: equal bytes are equal values.
Responsible for where the one part ends and for reading the other. Refuses to judge: bytes that are
written otherwise may say the same, and `codec.decode` reads them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from events.avro_reader import NAMESPACE, reader_of
from events.codec import HEADER_BYTES, RECORD_BYTES_MAX, encode, outcome_forms
from events.outcomes import Outcome

_DIGEST, _STATE_DIGEST = "digest", "state_digest"
_NO_STAMPS = bytes(3)
"""No publisher, time 0, no phases."""


class Stamps(Struct, frozen=True, gc=False):
    """What stands behind the digest of a published outcome (`events.outcomes.Outcome`)."""

    publisher: str
    published_at_ms: int
    phases: Mapping[str, int] = field(default_factory=dict)
    state_digest: bytes = b""


def unstamped(outcome: Outcome) -> bytes:
    """The bytes up to and with the digest that everybody writes who publishes this outcome, which
    nobody stamped yet. Raises `codec.MalformedRecord` for values without an encoding.
    """
    data = encode(outcome)
    return data[: -_ENDS[data[:HEADER_BYTES]] - len(outcome.state_digest)]


def stamps_behind(data: bytes, at: int) -> Stamps | None:
    """What stands in an outcome from `at`, the end of its digest, on; None when it must be asked
    `codec.decode` whether that can be read.
    """
    if len(data) > RECORD_BYTES_MAX:
        return None
    try:
        found: Stamps = _READERS[data[:HEADER_BYTES]](data, at)
    except Exception:  # Not as `encode` writes it, in one of many ways.
        return None
    return found


def _stamps_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    names = [one["name"] for one in schema["fields"]]
    behind = schema["fields"][names.index(_DIGEST) + 1 :]
    return {"type": "record", "name": f"{NAMESPACE}{Stamps.__name__}", "fields": behind}


def _end(schema: Mapping[str, Any]) -> int:
    """Bytes behind the digest where nothing was stamped, but for those of the state's digest."""
    return len(_NO_STAMPS) + (schema["fields"][-1]["name"] == _STATE_DIGEST)


_FORMS = outcome_forms()
HEADERS: tuple[bytes, ...] = tuple(_FORMS)
"""What the bytes of an outcome begin with, in every form that was released; its command's offset
follows.
"""
_ENDS = {header: _end(schema) for header, schema in _FORMS.items()}
_READERS: dict[bytes, Callable[[bytes, int], Any]] = {
    header: reader_of(_stamps_schema(schema), {Stamps.__name__: Stamps})
    for header, schema in _FORMS.items()
}
