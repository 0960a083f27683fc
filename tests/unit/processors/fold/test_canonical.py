"""The canonical form: compact, ordered, ASCII, and the same whatever the order of arrival."""

import json

from hypothesis import given
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from events.changes import (
    CHANGES,
    BrokerSetImported,
    ClusterStarted,
    MasterElected,
    SettingsChanged,
)
from events.envelope import ImportedReplica
from events.outcomes import CandidateVerdict, Outcome
from processors.fold.canonical import (
    DIGESTED_FIELDS,
    change_text,
    digested_bytes,
    outcome_text,
    set_text,
    state_text,
)
from processors.fold.state import BrokerSet, ControllerState, Replica

OUTCOME = Outcome(
    7,
    bytes(range(16)),
    "c",
    2,
    "ElectMaster",
    "b",
    "ärger",
    True,
    None,
    0,
    ("AT_RISK",),
    (MasterElected("b", 1, "h:1", 3, (1, 2), 4, 3),),
    (CandidateVerdict(1, None, True, True, False, 3, 9, 5, True, "CHOSEN"),),
    bytes(32),
    "n0",
    99,
    {"applied": 1},
)


def test_an_outcome_is_one_array_up_to_its_digest():
    assert outcome_text(OUTCOME) == (
        '[7,"000102030405060708090a0b0c0d0e0f","c",2,"ElectMaster","b","\\u00e4rger",true,null,0,'
        '["AT_RISK"],[["MasterElected","b",1,"h:1",3,[1,2],4,3]],'
        '[[1,null,true,true,false,3,9,5,true,"CHOSEN"]]]'
    )


def test_what_the_publisher_stamps_does_not_count():
    assert DIGESTED_FIELDS[-1] == "candidates"
    values = tuple(getattr(OUTCOME, name) for name in DIGESTED_FIELDS)
    assert digested_bytes(values).decode() == outcome_text(OUTCOME)


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
    later = ("at_risk", "imported", "remembered", "former", "minimums", "positions", "uncertain")
    assert BrokerSet.__struct_fields__[-7:] == later
    assert len(json.loads(set_text(broker_set))) == len(BrokerSet.__struct_fields__) - 7


def test_what_rules_2_added_stands_there_only_when_it_is_so():
    """Version 1 never sets it, and its digests were published."""
    text = set_text(BrokerSet("c", "b"))
    assert set_text(BrokerSet("c", "b", at_risk=True)) == text[:-1] + ",true]"
    assert set_text(BrokerSet("c", "b", imported=True)) == text[:-1] + ",false,true]"


def test_an_imported_replica_is_an_array_of_its_fields():
    change = BrokerSetImported("b", "c", 2, (ImportedReplica(1, "h:1"),), 1, 3, (1,), 4, 5, "j")
    assert change_text(change) == ('["BrokerSetImported","b","c",2,[[1,"h:1",""]],1,3,[1],4,5,"j"]')


def test_the_leaders_release_is_part_of_the_state_since_rules_2():
    first = ControllerState("c", rules_version=1, leader_release="r")
    assert json.loads(state_text(first))[-1] == []
    assert json.loads(state_text(replace(first, rules_version=2)))[-1] == "r"


def test_sets_ascend_by_name_whatever_order_they_came_in():
    a, b = BrokerSet("c", "a"), BrokerSet("c", "b")
    one = ControllerState("c", sets=Map({"a": a}).set("b", b))
    other = ControllerState("c", sets=Map({"b": b}).set("a", a))
    assert state_text(one) == state_text(other)
    assert [values[1] for values in json.loads(state_text(one))[-1]] == ["a", "b"]


def test_every_class_of_the_canonical_form_is_written_as_an_array_of_its_fields():
    for cls in (*CHANGES, Replica, BrokerSet, CandidateVerdict, ImportedReplica):
        assert cls.__struct_config__.array_like, cls
    assert [cls.__struct_config__.tag for cls in CHANGES] == [cls.__name__ for cls in CHANGES]


@given(st.text(max_size=20))
def test_texts_are_escaped_as_pythons_own_json_does(text):
    assert set_text(BrokerSet(text, "b")).startswith(json.dumps([text])[:-1])
