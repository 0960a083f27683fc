"""Forming, leadership, settings and rules: design D3 and D6."""

import pytest

from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ChangeSettings, ClusterFormed
from processors.fold.folder import ReleaseTooOld
from processors.fold.rules import RULES_VERSION, SETTING_DEDUPE_WINDOW, SETTING_UNCLEAN
from tests.support.control_history import CLUSTER_ID, FIRST_FINGERPRINTS, History

NEW_SCHEMA = "00" * 8


def form(history: History, settings=None, fingerprints=COMMAND_FINGERPRINTS, version=1, **envelope):
    return history.do(
        ClusterFormed(history.envelope(**envelope), version, settings or {}, fingerprints)
    )


def activate(history: History, version: int, *more: str):
    marks = (*COMMAND_FINGERPRINTS, *more)
    return history.do(ActivateRules(history.envelope(), version, marks))


def test_record_0_forms_the_cluster_without_a_leader():
    history = History(formed=False)
    outcome = form(history, {SETTING_UNCLEAN: "true"})
    state = history.folder.state
    assert outcome.accepted
    assert (outcome.cluster_id, state.cluster_id) == (CLUSTER_ID, CLUSTER_ID)
    assert (state.term, state.leader_id, state.unclean_allowed) == (0, None, True)


def test_of_two_that_form_the_second_is_refused():
    history = History(formed=False)
    assert form(history).accepted
    assert form(history).refusal == "ALREADY_FORMED"
    assert form(history, cluster_id="other").refusal == "ALREADY_FORMED"
    assert history.folder.state.cluster_id == CLUSTER_ID


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"cluster_id": ""}, "WRONG_CLUSTER"),
        ({"settings": {"enableElectUncleanMasters": "true"}}, "INVALID_SETTING"),
        ({"settings": {SETTING_UNCLEAN: "yes"}}, "INVALID_SETTING"),
        ({"fingerprints": ()}, "INVALID_FINGERPRINTS"),
        ({"fingerprints": ("xyz",)}, "INVALID_FINGERPRINTS"),
        ({"fingerprints": ("G" * 16,)}, "INVALID_FINGERPRINTS"),
    ],
    ids=str,
)
def test_a_cluster_that_could_not_go_on_is_not_formed(values, refusal):
    history = History(formed=False)
    assert form(history, **values).refusal == refusal
    assert form(history).accepted


def test_a_claim_with_the_expected_term_wins_and_moves_the_term():
    history = History(led=False)
    outcome = history.claim(0)
    state = history.folder.state
    assert (outcome.accepted, outcome.term) == (True, 1)
    assert (state.term, state.leader_id, state.leader_address) == (1, "n1", "n1:9878")


def test_of_two_claims_on_one_term_the_second_is_refused():
    history = History(led=False)
    assert history.claim(0, "n1").accepted
    outcome = history.claim(0, "n2")
    assert (outcome.code, outcome.refusal) == (2007, "TERM_MOVED")
    assert history.folder.state.leader_id == "n1"


@pytest.mark.parametrize("expected", [-1, 1, 5])
def test_a_claim_from_another_term_is_refused(expected):
    assert History(led=False).claim(expected).refusal == "TERM_MOVED"


def test_a_setting_changes_and_the_others_stay():
    history = History()
    history.setting(SETTING_DEDUPE_WINDOW, "50")
    history.setting(SETTING_UNCLEAN, "true")
    assert history.folder.state.dedupe_window_offsets == 50
    assert history.folder.state.unclean_allowed


def test_a_setting_that_has_the_value_already_changes_nothing():
    outcome = History().setting(SETTING_UNCLEAN, "false")
    assert outcome.accepted
    assert outcome.changes == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unknown", "1"),
        (SETTING_UNCLEAN, "True"),
        (SETTING_DEDUPE_WINDOW, "0"),
        (SETTING_DEDUPE_WINDOW, "-1"),
        (SETTING_DEDUPE_WINDOW, "1000001"),
        (SETTING_DEDUPE_WINDOW, "1" * 5000),
        (SETTING_DEDUPE_WINDOW, "²"),
        (SETTING_DEDUPE_WINDOW, ""),
    ],
)
def test_a_setting_that_rules_cannot_read_is_refused(name, value):
    outcome = History().setting(name, value)
    assert (outcome.code, outcome.refusal) == (2005, "INVALID_SETTING")


def test_one_bad_setting_refuses_all():
    history = History()
    bad = {SETTING_UNCLEAN: "true", "unknown": "1"}
    assert not history.do(ChangeSettings(history.envelope(), bad)).accepted
    assert not history.folder.state.unclean_allowed
    assert not history.do(ChangeSettings(history.envelope(), {})).accepted


def test_more_schemas_become_active_under_the_same_rules():
    history = History()
    assert activate(history, RULES_VERSION, NEW_SCHEMA).accepted
    assert NEW_SCHEMA in history.folder.state.fingerprints


def test_rules_that_are_not_newer_are_refused():
    history = History()
    assert activate(history, RULES_VERSION).refusal == "RULES_NOT_NEWER"
    assert activate(history, 1, NEW_SCHEMA).refusal == "RULES_NOT_NEWER"


def test_an_active_schema_stays_active():
    history = History()
    outcome = history.do(ActivateRules(history.envelope(), 2, COMMAND_FINGERPRINTS[1:]))
    assert outcome.refusal == "INVALID_FINGERPRINTS"


def test_rules_that_this_release_does_not_have_stop_it():
    """D3: going on would decide otherwise than a newer release."""
    history = History()
    with pytest.raises(
        ReleaseTooOld, match=("rules 7.* rules 1, 2, 3; release 0.1.0 of controller n0")
    ):
        activate(history, 7)
    with pytest.raises(ReleaseTooOld, match="rules 7.*a newer release has it"):
        form(History(formed=False), version=7)


def test_d3_rules_7_are_not_judged_by_us_at_all():
    """What they need and which settings they know, only they can tell."""
    with pytest.raises(ReleaseTooOld, match="rules 7"):
        form(History(formed=False), {"setting of tomorrow": "1"}, (), version=7)


def test_rules_2_need_the_schemas_of_their_release():
    history = History(rules=1)
    outcome = history.do(ActivateRules(history.envelope(), 2, FIRST_FINGERPRINTS))
    assert outcome.refusal == "INVALID_FINGERPRINTS"
    outcome = form(History(formed=False), fingerprints=FIRST_FINGERPRINTS, version=2)
    assert outcome.refusal == "INVALID_FINGERPRINTS"


def test_an_upgrade_goes_one_way():
    history = History(rules=1)
    assert history.setting("commandsPerSetPerSecond", "5").refusal == "INVALID_SETTING"
    assert activate(history, 2).accepted
    assert history.folder.state.rules_version == 2
    assert history.setting("commandsPerSetPerSecond", "5").accepted
    assert (
        history.do(ActivateRules(history.envelope(), 1, COMMAND_FINGERPRINTS)).refusal
        == "RULES_NOT_NEWER"
    )
