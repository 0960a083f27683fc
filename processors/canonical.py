"""
One byte sequence for each state and outcome, the same on every machine (design D2).

Responsible for the canonical form: compact ASCII JSON arrays, fields in declared order, maps
as pairs sorted by key. Refuses to know digests and files. Changing a form here changes every
digest that was ever published.
"""

from collections.abc import Callable, Mapping
from json import JSONEncoder
from operator import attrgetter
from typing import Any

from events.changes import CHANGES, Change
from events.outcomes import CandidateVerdict, Outcome
from processors.state import BrokerSet, ControllerState, Replica

# Everything of an outcome that stands before its digest.
DIGESTED_FIELDS = Outcome.__struct_fields__[:13]


def outcome_text(outcome: Outcome) -> str:
    """Return the digested part of an outcome."""
    return digested_text(_digested(outcome))


def digested_text(values: tuple[Any, ...]) -> str:
    """Return the same from the values of `DIGESTED_FIELDS`."""
    command_offset, command_id, *plain, changes, candidates = values
    texts = [(type(change).__name__, *_CHANGE[type(change)](change)) for change in changes]
    verdicts = [_verdict(candidate) for candidate in candidates]
    return _text([command_offset, command_id.hex(), *plain, texts, verdicts])


def change_text(change: Change) -> str:
    """Return a change: its kind, then its fields."""
    return _text((type(change).__name__, *_CHANGE[type(change)](change)))


def set_text(broker_set: BrokerSet) -> str:
    """Return everything that the fold knows of one set."""
    return _text(_set_values(broker_set))


def state_text(state: ControllerState) -> str:
    """Return the whole state; sets ascend by name."""
    return _text(
        [
            state.cluster_id,
            state.term,
            state.leader_id,
            state.leader_address,
            state.rules_version,
            sorted(state.settings.items()),
            state.fingerprints,
            [_set_values(state.sets[name]) for name in sorted(state.sets)],
        ]
    )


def _values(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the field values out of a record, in declared order."""
    names = cls.__struct_fields__
    if len(names) == 1:
        return lambda value: (getattr(value, names[0]),)
    return attrgetter(*names)


def _change_values(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return the same for a change; only those with a map need a closer look."""
    get = _values(cls)
    if "settings" not in cls.__struct_fields__:
        return get
    return lambda value: tuple(
        sorted(one.items()) if isinstance(one, Mapping) else one for one in get(value)
    )


def _set_values(broker_set: BrokerSet) -> list[Any]:
    values = list(_broker_set(broker_set))
    values[_REPLICAS_INDEX] = [_replica(replica) for replica in broker_set.replicas]
    return values


_text = JSONEncoder(
    ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_digested = attrgetter(*DIGESTED_FIELDS)
_replica = _values(Replica)
_broker_set = _values(BrokerSet)
_verdict = _values(CandidateVerdict)
_REPLICAS_INDEX = BrokerSet.__struct_fields__.index("replicas")
_CHANGE = {cls: _change_values(cls) for cls in CHANGES}
