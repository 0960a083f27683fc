"""The canonical form: compact, ordered, ASCII, and the same whatever the order of arrival."""

import json

from immutables import Map

from events.changes import ClusterStarted, MasterElected, SettingsChanged
from events.outcomes import CandidateVerdict, Outcome
from processors.canonical import (
    DIGESTED_FIELDS,
    change_text,
    digested_text,
    outcome_text,
    set_text,
    state_text,
)
from processors.state import BrokerSet, ControllerState, Replica

OUTCOME = Outcome(
    7, bytes(range(16)), "c", 2, "ElectMaster", "b", "ärger", True, None, 0, ("AT_RISK",),
    (MasterElected("b", 1, "h:1", 3, (1, 2), 4, 3),),
    (CandidateVerdict(1, None, True, True, False, 3, 9, 5, True, "CHOSEN"),),
    bytes(32), "n0", 99, {"applied": 1},
)  # fmt: skip


def test_an_outcome_is_one_array_up_to_its_digest():
    assert outcome_text(OUTCOME) == (
        '[7,"000102030405060708090a0b0c0d0e0f","c",2,"ElectMaster","b","\\u00e4rger",true,null,0,'
        '["AT_RISK"],[["MasterElected","b",1,"h:1",3,[1,2],4,3]],'
        '[[1,null,true,true,false,3,9,5,true,"CHOSEN"]]]'
    )


def test_what_the_publisher_stamps_does_not_count():
    assert DIGESTED_FIELDS[-1] == "candidates"
    values = tuple(getattr(OUTCOME, name) for name in DIGESTED_FIELDS)
    assert digested_text(values) == outcome_text(OUTCOME)


def test_maps_are_pairs_in_the_order_of_their_keys():
    one, other = {"b": "2", "a": "1"}, {"a": "1", "b": "2"}
    assert change_text(SettingsChanged(one)) == '["SettingsChanged",[["a","1"],["b","2"]]]'
    assert change_text(SettingsChanged(one)) == change_text(SettingsChanged(other))
    started = change_text(ClusterStarted("c", 1, one, ("f",)))
    assert started == '["ClusterStarted","c",1,[["a","1"],["b","2"]],["f"]]'


def test_a_set_has_all_its_fields_in_declared_order():
    broker_set = BrokerSet("c", "b", 2, (Replica(1, "h:1", 'co"de'),))
    assert set_text(broker_set) == (
        '["c","b",2,[[1,"h:1","co\\"de",null,null,true,false,false,-1,-1]],'
        "null,0,[],0,0,false,false,[],false]"
    )
    assert len(json.loads(set_text(broker_set))) == len(BrokerSet.__struct_fields__)


def test_sets_ascend_by_name_whatever_order_they_came_in():
    a, b = BrokerSet("c", "a"), BrokerSet("c", "b")
    one = ControllerState("c", sets=Map({"a": a}).set("b", b))
    other = ControllerState("c", sets=Map({"b": b}).set("a", a))
    assert state_text(one) == state_text(other)
    assert [values[1] for values in json.loads(state_text(one))[-1]] == ["a", "b"]
