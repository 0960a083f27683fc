"""One byte sequence for each state and outcome, the same on every machine (design D2).

Responsible for the canonical form: compact ASCII JSON arrays, fields in declared order, maps
as pairs sorted by key. Refuses to know digests and files. Changing a form here changes every
digest that was ever published.

The classes say `array_like`, changes `tag` too, so that msgspec writes this form from the objects
themselves: a tenth of the time that Python needs to take them apart first.
"""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import structs
from msgspec.json import Encoder

from events.changes import CHANGES, Change
from events.outcomes import Outcome
from processors.fold.state import BrokerSet, ControllerState

# Everything of an outcome that stands before its digest.
DIGESTED_FIELDS = Outcome.__struct_fields__[:13]
_COMMAND_ID, _CHANGES = DIGESTED_FIELDS.index("command_id"), DIGESTED_FIELDS.index("changes")


def outcome_text(outcome: Outcome) -> str:
    """Return the digested part of an outcome."""
    return digested_bytes(_digested(outcome)).decode("ascii")


def digested_bytes(values: tuple[Any, ...]) -> bytes:
    """Return the same from the values of `DIGESTED_FIELDS`, as the digest takes it in."""
    plain = list(values)
    plain[_COMMAND_ID] = values[_COMMAND_ID].hex()
    for change in values[_CHANGES]:
        if type(change) in _WITH_MAPS:
            plain[_CHANGES] = [_without_maps(change) for change in values[_CHANGES]]
            break
    return _ascii(_encode(plain))


def change_text(change: Change) -> str:
    """Return a change: its kind, then its fields."""
    return _ascii(_encode(_without_maps(change))).decode("ascii")


def set_text(broker_set: BrokerSet) -> str:
    """Return everything that the fold knows of one set."""
    return set_bytes(broker_set).decode("ascii")


def set_bytes(broker_set: BrokerSet) -> bytes:
    """Return the same, as the digest takes it in."""
    text = _ascii(_encode(broker_set))
    # What came with later rules is left out where it says nothing: what was published has to stay.
    if (
        broker_set.remembered
        or broker_set.former
        or broker_set.minimums
        or broker_set.positions
        or broker_set.uncertain
    ):
        return text
    text = text[: -len(_NO_MEMORY)] + b"]"
    if broker_set.imported:
        return text
    return text[: -len(",false]") if broker_set.at_risk else -len(",false,false]")] + b"]"


def state_text(state: ControllerState) -> str:
    """Return the whole state; sets ascend by name."""
    values = [
        state.cluster_id,
        state.term,
        state.leader_id,
        state.leader_address,
        state.rules_version,
        sorted(state.settings.items()),
        state.fingerprints,
        [json.loads(set_bytes(state.sets[name])) for name in sorted(state.sets)],
    ]
    return _text([*values, state.leader_release] if state.rules_version > 1 else values)


def _without_maps(change: Change) -> Any:
    """Return what is encoded for a change: itself, unless it has a map to be sorted."""
    if type(change) not in _WITH_MAPS:
        return change
    values = (sorted(v.items()) if isinstance(v, Mapping) else v for v in structs.astuple(change))
    return (type(change).__name__, *values)


def _ascii(text: bytes) -> bytes:
    """Return the same JSON with escapes for what is not printable ASCII, as Python's own writes
    it.
    """
    if text.isascii() and _DELETE not in text:
        return text
    return _text(json.loads(text)).encode("ascii")


_NO_MEMORY = b",[],[],[],[],[]]"
# As a number: to look for bytes in bytes takes four times as long.
_DELETE = 0x7F
_encode = Encoder().encode
_text = json.JSONEncoder(
    ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_digested = attrgetter(*DIGESTED_FIELDS)
_KINDS: tuple[Any, ...] = CHANGES
_WITH_MAPS = frozenset(cls for cls in _KINDS if "settings" in cls.__struct_fields__)
