"""Outcomes and their parts."""

import schemas
from events.outcomes import LABELS, CandidateVerdict, Outcome


def test_fields_of_class_and_schema_have_the_same_names_in_the_same_order():
    for cls in (Outcome, CandidateVerdict):
        fields = [field["name"] for field in schemas.load(cls.__name__)["fields"]]
        assert list(cls.__struct_fields__) == fields


def test_what_the_publisher_stamps_stands_behind_the_digest():
    names = list(Outcome.__struct_fields__)
    assert names[names.index("digest") :] == [
        "digest",
        "publisher",
        "published_at_ms",
        "phases",
        "state_digest",
    ]


def test_every_label_is_documented():
    labels = next(f for f in schemas.load("Outcome")["fields"] if f["name"] == "labels")
    assert all(label in labels["doc"] for label in LABELS)
