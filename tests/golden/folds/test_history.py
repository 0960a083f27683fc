"""The golden history: bytes of the log whose digests and state never change (design D3)."""

import json
from pathlib import Path

import pytest

from events.changes import CHANGES, BrokerSetImported, MasterAtRisk
from events.codec import decode, encode
from events.commands import COMMANDS
from events.outcomes import LABELS
from processors import canonical
from processors.decide_refusals import Refusal
from processors.fold import Folder
from processors.state import check_invariants

HERE = Path(__file__).parent
LINES = [json.loads(line) for line in (HERE / "history.jsonl").read_text("ascii").splitlines()]
EXPECTED = json.loads((HERE / "expected.json").read_text("ascii"))


@pytest.fixture(scope="module")
def outcomes():
    folder = Folder()
    found = []
    for line in LINES:
        found.append(folder.apply(line["offset"], bytes.fromhex(line["record"])).outcome)
        assert check_invariants(folder.state) == []
    return found


def test_every_digest_is_what_it_was(outcomes):
    for line, outcome in zip(LINES, outcomes, strict=True):
        assert outcome.digest.hex() == line["digest"], (line["offset"], line["note"])


def test_the_state_at_the_end_is_what_it_was():
    folder = Folder()
    for line in LINES:
        folder.apply(line["offset"], bytes.fromhex(line["record"]))
    assert folder.digest.hex() == EXPECTED["digest"]
    assert canonical.state_text(folder.state) == EXPECTED["state"]


def test_the_history_has_every_kind_of_command_change_refusal_and_label(outcomes):
    assert {o.kind for o in outcomes} >= {cls.__name__ for cls in COMMANDS} - {"ImportBrokerSet"}
    assert {type(c) for o in outcomes for c in o.changes} == set(CHANGES) - {MasterAtRisk, BrokerSetImported}
    refusals = {refusal.name for refusal in Refusal if not refusal.name.startswith("IMPORT_")}
    assert {o.refusal for o in outcomes} - {None} == refusals
    assert {label for o in outcomes for label in o.labels} == set(LABELS)


def test_every_outcome_has_bytes(outcomes):
    for outcome in outcomes:
        assert decode(encode(outcome)) == outcome
