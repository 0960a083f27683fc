"""Codes of answers to a proposal."""

from __future__ import annotations

import pytest

from brokers.replica.alter_codes import (
    CODES_DEFINITE,
    CODES_OF_STATE,
    CODES_OUTDATED,
    refuses_for_good,
)


@pytest.mark.parametrize("code", sorted(CODES_DEFINITE))
def test_what_the_fold_refused_is_refused_for_good(code: int) -> None:
    assert refuses_for_good(code, 5, None, None)


@pytest.mark.parametrize("code", sorted(CODES_OF_STATE))
def test_a_refusal_of_the_state_says_nothing_unless_the_set_is_told(code: int) -> None:
    assert not refuses_for_good(code, 5, None, None)
    # perhaps by an earlier attempt of this very proposal
    assert not refuses_for_good(code, 5, None, 6)
    assert refuses_for_good(code, 5, (1, 2), 6)
    assert refuses_for_good(code, 5, None, 5)


@pytest.mark.parametrize("code", [1, 2007, 2008])
def test_other_codes_leave_it_open(code: int) -> None:
    assert not refuses_for_good(code, 5, (1, 2), 6)


def test_an_outdated_base_is_a_refusal_of_the_state() -> None:
    assert CODES_OUTDATED < CODES_OF_STATE
