"""Refusals and their codes."""

import pytest

from processors.fold.refusals import RESPONSE_CODES, Decision, Refusal


@pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name)
def test_every_refusal_has_a_response_code_that_is_not_success(refusal):
    assert RESPONSE_CODES[refusal] != 0
    assert Decision(refusal).code == RESPONSE_CODES[refusal]


def test_what_is_not_refused_has_the_code_of_success():
    assert Decision().code == 0


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal.MASTER_EPOCH_FENCED, 2000),
        (Refusal.SET_EPOCH_FENCED, 2001),
        (Refusal.NOT_THE_MASTER, 2002),
        (Refusal.REPLICA_UNKNOWN, 2003),
        (Refusal.MASTER_NOT_AVAILABLE, 2004),
        (Refusal.REPLICA_NOT_ALIVE, 2006),
        (Refusal.STALE_TERM, 2007),
        (Refusal.CLEAN_IS_ALIVE, 2009),
        (Refusal.NEED_TO_BE_REGISTERED, 2010),
        (Refusal.MASTER_STILL_EXIST, 2011),
        (Refusal.ELECT_MASTER_FAILED, 2012),
        (Refusal.SET_UNCHANGED, 2013),
        (Refusal.BROKER_ID_INVALID, 2014),
    ],
)
def test_codes_are_those_of_rocketmq(refusal, code):
    """RULES 2.2."""
    assert RESPONSE_CODES[refusal] == code
