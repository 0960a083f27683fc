import pytest

from events.changes import (
    CHANGES,
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    BrokerSetImported,
    ClusterStarted,
    LeadershipClaimed,
    MasterAtRisk,
    MasterCleared,
    MasterElected,
    MembersRemembered,
    MinimumTold,
    PositionsShown,
    RulesActivated,
    SetDoubted,
    SettingsChanged,
    SyncStateSetAltered,
)
from events.envelope import ImportedReplica, MemberPosition
from events.outcomes import LABELS
from lakehouse.tables.columns import record_json
from lakehouse.wording import (
    LABEL_WORDS,
    brokers,
    change_line,
    changes_of,
    duration,
    labels,
    members,
    moment,
    text_table,
)

LINES = [
    (ClusterStarted("c", 1, {}, ()), "cluster c, rules 1"),
    (LeadershipClaimed(2, "n1", "h:1", "0.1"), "n1 leads in term 2"),
    (BrokerIdApplied("b", "c", 3, "h:1", "code", 4), "id 3 given away"),
    (
        BrokerRegistered("b", 3, "h:1", None, None, False, 1, 2, True, 1),
        "3 at h:1 (unclean, restarted master)",
    ),
    (MasterElected("b", 2, "h:2", 5, (2, 3), 8, 5), "master 2 in epoch 5, set {2,3} epoch 8"),
    (MasterAtRisk("b", 5), "epoch 5 may lack acknowledged messages"),
    (
        MembersRemembered("b", (1,), (1, 2)),
        "remembered: {1} may be elected too; ever members {1,2}",
    ),
    (MinimumTold("b", 2, 3), "broker 2 acknowledges with 3 members or more"),
    (PositionsShown("b", (MemberPosition(2, 3, 700),)), "shown to hold: 2 epoch 3 to 700"),
    (
        SetDoubted("b", (1, 2), 1_005, 9, 1_005),
        "uncertain: {1,2} have to report what they hold, epoch 1005 has no master",
    ),
    (
        BrokerSetImported("b", "c", 4, (ImportedReplica(1, "h:1"),), 1, 5, (1,), 8, 5, "h:9878"),
        "imported from h:9878: replicas {1}, master 1 in epoch 5, set {1} epoch 8, next id 4",
    ),
    (MasterCleared("b", 2, 5, "UNCLEAN", 5), "no master (was 2): UNCLEAN"),
    (
        SyncStateSetAltered("b", (1, 2), 9, (1,), (3,), "PROPOSED", (), 5),
        "set {1,2} epoch 9 (+1 -3, PROPOSED)",
    ),
    (BrokersCleaned("b", (1, 2), False), "cleaned {1,2}"),
    (SettingsChanged({"a": "1"}), "settings a=1"),
    (RulesActivated(2, ()), "rules 2"),
]


@pytest.mark.parametrize(("change", "line"), LINES, ids=lambda item: type(item).__name__)
def test_every_change_has_its_line(change: object, line: str) -> None:
    [plain] = changes_of(record_json((change,)))
    assert change_line(plain) == line


def test_no_kind_of_change_is_left_out() -> None:
    assert {type(change) for change, _ in LINES} == set(CHANGES)


def test_a_kind_of_a_newer_release_is_shown_by_name() -> None:
    assert change_line({"kind": "Painted"}) == "Painted"


def test_times_and_sets_are_short() -> None:
    assert moment(1_767_225_600_042) == "2026-01-01 00:00:00.042"
    assert moment(0) == moment(None) == "-"
    assert (duration(180), duration(12_340), duration(None)) == ("180 ms", "12.3 s", "-")
    assert (members((1, 3)), members(None)) == ("{1,3}", "{}")


def test_columns_of_text_are_even() -> None:
    assert text_table(("a", "bb"), [("ccc", 1)], " ") == " a    bb\n ccc  1"


def test_every_label_has_its_words_and_an_unknown_one_stays_as_it_is() -> None:
    assert sorted(LABEL_WORDS) == sorted(LABELS)
    assert labels(["AT_RISK", "LATER"]) == "[messages may be missing, LATER]" and labels([]) == ""


def test_brokers_are_named_one_or_each() -> None:
    assert (brokers([]), brokers([2]), brokers([2, 3])) == (
        "",
        "broker 2",
        "each of the brokers 2, 3",
    )
