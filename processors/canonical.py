"""
One byte sequence for each state and outcome, the same on every machine (design D2).

Responsible for the canonical form: compact ASCII JSON arrays, fields in declared order, maps
sorted by key. Refuses to know digests and files. Changing a form here changes every digest.
"""

from dataclasses import fields
from json.encoder import encode_basestring_ascii as _quoted
from operator import attrgetter
from typing import Any

from events.changes import CHANGES, Change
from events.outcomes import CandidateVerdict, Outcome
from processors.state import BrokerSet, ControllerState, Replica


def outcome_text(outcome: Outcome) -> str:
    """Return the digested part of an outcome: everything before `digest`."""
    return _array(
        [
            _scalar(outcome.command_offset),
            _scalar(outcome.command_id),
            _quoted(outcome.cluster_id),
            _scalar(outcome.term),
            _quoted(outcome.kind),
            _scalar(outcome.broker_name),
            _quoted(outcome.cause),
            _scalar(outcome.accepted),
            _scalar(outcome.refusal),
            _scalar(outcome.code),
            _array([_quoted(label) for label in outcome.labels]),
            _array([change_text(change) for change in outcome.changes]),
            _array([_VERDICT(verdict) for verdict in outcome.candidates]),
        ]
    )


def change_text(change: Change) -> str:
    """Return a change: its kind, then its fields."""
    name = type(change).__name__
    return f'["{name}",{_CHANGE[type(change)](change)}]'


def set_text(broker_set: BrokerSet) -> str:
    """Return everything that the fold knows of one set."""
    return _SET(broker_set)


def state_text(state: ControllerState) -> str:
    """Return the whole state; sets ascend by name."""
    return _array(
        [
            _quoted(state.cluster_id),
            _scalar(state.term),
            _scalar(state.leader_id),
            _scalar(state.leader_address),
            _scalar(state.rules_version),
            _scalar(dict(state.settings)),
            _scalar(state.fingerprints),
            _array([set_text(state.sets[name]) for name in sorted(state.sets)]),
        ]
    )


def _array(parts: list[str]) -> str:
    return f"[{','.join(parts)}]"


def _scalar(value: Any) -> str:
    """Return a field value; a type without a canonical form is a mistake of ours."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is int:
        return repr(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is tuple or kind is list:
        return f"[{','.join([_scalar(one) for one in value])}]"
    if kind is bytes:
        return f'"{value.hex()}"'
    if kind is Replica:
        return _REPLICA(value)
    if isinstance(value, dict):
        pairs = [f"[{_quoted(key)},{_scalar(value[key])}]" for key in sorted(value)]
        return f"[{','.join(pairs)}]"
    raise TypeError(f"no canonical form for {kind.__name__}")


def _writer(cls: type) -> Any:
    """Return what writes the fields of a dataclass, in declared order, as one array."""
    get = attrgetter(*(field.name for field in fields(cls)))
    if len(fields(cls)) == 1:
        return lambda value: f"[{_scalar(get(value))}]"
    return lambda value: f"[{','.join([_scalar(one) for one in get(value)])}]"


_REPLICA = _writer(Replica)
_SET = _writer(BrokerSet)
_VERDICT = _writer(CandidateVerdict)
_CHANGE = {cls: _writer(cls) for cls in CHANGES}
