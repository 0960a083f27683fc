"""The golden histories: bytes of the log whose digests and state never change (design D3)."""

import json
from pathlib import Path

import pytest

from events.changes import (
    CHANGES,
    BrokerSetImported,
    MasterAtRisk,
    MembersRemembered,
    MinimumTold,
    PositionsShown,
    SetDoubted,
    SyncStateSetAltered,
)
from events.codec import decode, encode
from events.commands import COMMANDS
from events.outcomes import LABEL_REMEMBERED, LABELS
from processors.fold import canonical
from processors.fold.folder import Folder, ReleaseTooOld
from processors.fold.refusals import Refusal
from processors.fold.snapshot_codec import dump, load
from processors.fold.state import check_invariants

HERE = Path(__file__).parent
STORIES = ("", "-2", "-upgrade", "-3")
TOLD = ("rules 1", "rules 2", "upgrade", "rules 3")
REFUSALS = {refusal.name for refusal in Refusal}
OF_IMPORTS = {"IMPORT_UNKNOWN", "IMPORT_INVALID", "IMPORT_CONFLICT"}
OF_MEMORY = {MembersRemembered, MinimumTold, PositionsShown}
OF_DOUBTS = {"DOUBT_INVALID"}
KINDS = {cls.__name__ for cls in COMMANDS}


def lines_of(story: str) -> list[dict[str, str]]:
    text = (HERE / f"history{story}.jsonl").read_text("ascii")
    return [json.loads(line) for line in text.splitlines()]


def outcomes_of(story: str):
    folder = Folder()
    found = []
    for line in lines_of(story):
        found.append(folder.apply(line["offset"], bytes.fromhex(line["record"])).outcome)
        assert check_invariants(folder.state) == []
    return found


@pytest.mark.parametrize("story", STORIES, ids=TOLD)
def test_every_digest_is_what_it_was(story):
    for line, outcome in zip(lines_of(story), outcomes_of(story), strict=True):
        assert outcome.digest.hex() == line["digest"], (line["offset"], line["note"])


@pytest.mark.parametrize("story", STORIES, ids=TOLD)
def test_the_state_at_the_end_is_what_it_was(story):
    folder = Folder()
    for line in lines_of(story):
        folder.apply(line["offset"], bytes.fromhex(line["record"]))
    expected = json.loads((HERE / f"expected{story}.json").read_text("ascii"))
    assert folder.digest.hex() == expected["digest"]
    assert canonical.state_text(folder.state) == expected["state"]


@pytest.mark.parametrize(
    ("story", "no_kinds", "no_changes", "no_refusals"),
    [
        (
            "",
            {"ImportBrokerSet", "DoubtBrokerSet"},
            {MasterAtRisk, BrokerSetImported, SetDoubted, *OF_MEMORY},
            OF_IMPORTS | OF_DOUBTS,
        ),
        ("-2", {"DoubtBrokerSet"}, {SetDoubted, *OF_MEMORY}, {"IMPORT_UNKNOWN"} | OF_DOUBTS),
    ],
    ids=TOLD[:2],
)
def test_a_history_has_every_command_change_refusal_and_label(
    story, no_kinds, no_changes, no_refusals
):
    outcomes = outcomes_of(story)
    assert {o.kind for o in outcomes} >= KINDS - no_kinds
    assert {type(c) for o in outcomes for c in o.changes} == set(CHANGES) - no_changes
    assert {o.refusal for o in outcomes} - {None} == REFUSALS - no_refusals
    assert {label for o in outcomes for label in o.labels} == set(LABELS) - {LABEL_REMEMBERED}


def test_the_upgrade_happens_in_the_middle():
    folder, versions, unknown = Folder(), [], 0
    for line in lines_of("-upgrade"):
        outcome = folder.apply(line["offset"], bytes.fromhex(line["record"])).outcome
        versions.append(folder.state.rules_version)
        unknown += outcome.refusal in ("UNKNOWN_SCHEMA", "IMPORT_UNKNOWN")
    assert versions == sorted(versions)
    assert (versions[0], versions[-1], unknown) == (1, 2, 2)


def test_the_third_history_remembers_waits_and_compares():
    outcomes = outcomes_of("-3")
    assert {SetDoubted, *OF_MEMORY} <= {
        type(change) for outcome in outcomes for change in outcome.changes
    }
    labels = {label for outcome in outcomes for label in outcome.labels}
    assert {LABEL_REMEMBERED, "AT_RISK"} <= labels
    said = {row.verdict for outcome in outcomes for row in outcome.candidates}
    assert {"WAITING", "AWAITED", "WAIT_OVER"} <= said
    reasons = {c.reason for o in outcomes for c in o.changes if isinstance(c, SyncStateSetAltered)}
    assert {"LOSS_PROVEN", "WENT_BACK"} <= reasons
    assert {
        "UNKNOWN_SCHEMA",
        "INVALID_FINGERPRINTS",
        "CLEAN_IS_ALIVE",
        "INVALID_REGISTRATION",
        *OF_DOUBTS,
    } <= {outcome.refusal for outcome in outcomes}


def test_a_release_that_knows_rules_2_stops_where_rules_3_begin():
    folder = Folder(supported_rules=(1, 2))
    with pytest.raises(ReleaseTooOld, match=r"rules 3, this release has rules 1, 2; .* has it"):
        for line in lines_of("-3"):
            folder.apply(line["offset"], bytes.fromhex(line["record"]))
    assert folder.state.rules_version == 2


@pytest.mark.parametrize("story", STORIES[1:3], ids=TOLD[1:3])
def test_a_release_that_knows_rules_1_alone_stops_where_rules_2_begin(story):
    folder = Folder(supported_rules=(1,))
    with pytest.raises(ReleaseTooOld, match=r"rules 2, this release has rules 1; .* has it"):
        for line in lines_of(story):
            folder.apply(line["offset"], bytes.fromhex(line["record"]))
    assert folder.state.rules_version < 2


def test_the_first_history_is_the_same_to_a_release_that_knows_rules_1_alone():
    folder = Folder(supported_rules=(1,))
    for line in lines_of(""):
        assert (
            folder.apply(line["offset"], bytes.fromhex(line["record"])).outcome.digest.hex()
            == line["digest"]
        )


@pytest.mark.parametrize("story", STORIES, ids=TOLD)
def test_a_snapshot_anywhere_in_it_changes_nothing(story):
    lines, folder = lines_of(story), Folder()
    for line in lines:
        folder.apply(line["offset"], bytes.fromhex(line["record"]))
        folder = load(dump(folder))
    assert folder.digest.hex() == lines[-1]["digest"]


@pytest.mark.parametrize("story", STORIES, ids=TOLD)
def test_every_outcome_has_bytes(story):
    for outcome in outcomes_of(story):
        assert decode(encode(outcome)) == outcome


def test_outcomes_under_rules_1_have_the_bytes_they_always_had():
    """So a controller of the first release, running beside this one, reads them."""
    marks = {encode(outcome)[2:10].hex() for outcome in outcomes_of("")}
    assert marks == {"c9d8fa550e432cc1"}
