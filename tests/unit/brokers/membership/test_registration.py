"""The registration of a broker: the states and the failure table of RULES 10.2 and 10.3,
row by row.
"""

import itertools

import pytest

from brokers.membership.registration import (
    ApplyBrokerId,
    AskNextBrokerId,
    DeleteTemp,
    Identity,
    Refused,
    RegisterBroker,
    Registered,
    RegisterState,
    Registration,
    TempIdentity,
    Wait,
    WriteIdentity,
    WriteTemp,
)

TEMP = TempIdentity("c", "b", 2, "h:1;1000")
IDENTITY = Identity("c", "b", 2, TEMP.register_check_code)


def fresh() -> Registration:
    return Registration("c", "b", "h:1", (f"{number:032x}" for number in itertools.count(1)))


def with_temp() -> Registration:
    registration = fresh()
    registration.start(None, TEMP)
    return registration


def test_a_first_start_asks_for_an_id_writes_applies_and_registers() -> None:
    registration = fresh()
    assert registration.start(None, None) == (AskNextBrokerId(),)
    code = f"h:1;1000;{1:032x}"
    assert registration.next_id_answered(0, 2, 1000) == (
        WriteTemp(TempIdentity("c", "b", 2, code)),
    )
    assert registration.temp_written(True) == (ApplyBrokerId(2, code, f"{1:032x}"),)
    assert registration.apply_answered(0) == (
        WriteIdentity(Identity("c", "b", 2, code), retried=False),
    )
    assert registration.identity_written(True) == (DeleteTemp(), RegisterBroker(2, f"{2:032x}"))
    assert registration.register_answered(0) == (Registered(2),)
    assert registration.state is RegisterState.REGISTERED and registration.check_code == code


def test_another_applicant_has_another_code_whatever_the_address_and_the_time() -> None:
    codes = set()
    for seed in (1, 2):
        registration = Registration(
            "c", "b", "h:1", (f"{number:032x}" for number in itertools.count(seed))
        )
        registration.start(None, None)
        registration.next_id_answered(0, 2, 1000)
        (asked,) = registration.temp_written(True)
        assert isinstance(asked, ApplyBrokerId)
        codes.add(asked.register_check_code)
    assert len(codes) == 2


@pytest.mark.parametrize(("code", "next_id"), [(None, None), (1, None), (2007, None), (0, None)])
def test_a_failed_1012_starts_again_at_1012(code: int | None, next_id: int | None) -> None:
    registration = fresh()
    registration.start(None, None)
    (effect,) = registration.next_id_answered(code, next_id, 1000)
    assert isinstance(effect, Wait)
    assert registration.retry() == (AskNextBrokerId(),)


def test_a_temp_file_that_cannot_be_written_leaves_nothing_behind() -> None:
    registration = fresh()
    registration.start(None, None)
    registration.next_id_answered(0, 2, 1000)
    effects = registration.temp_written(False)
    assert effects[0] == DeleteTemp() and isinstance(effects[1], Wait)
    assert registration.retry() == (AskNextBrokerId(),)


def test_an_id_taken_by_another_replica_is_given_up() -> None:
    registration = with_temp()
    effects = registration.apply_answered(2014)
    assert effects[0] == DeleteTemp() and isinstance(effects[1], Wait)
    assert registration.retry() == (AskNextBrokerId(),)


def test_an_unanswered_1013_keeps_the_temp_file_and_repeats_the_same_command() -> None:
    registration = fresh()
    (first,) = registration.start(None, TEMP)
    (effect,) = registration.apply_answered(None)
    assert isinstance(effect, Wait)
    assert registration.retry() == (first,)


@pytest.mark.parametrize("code", [1, 2, 2007])
def test_a_1013_refused_for_another_reason_keeps_the_check_code_under_a_new_command(
    code: int,
) -> None:
    registration = fresh()
    registration.start(None, TEMP)
    (effect,) = registration.apply_answered(code)
    assert isinstance(effect, Wait)
    assert registration.retry() == (ApplyBrokerId(2, "h:1;1000", f"{2:032x}"),)


def test_a_restart_with_a_temp_file_repeats_1013_with_its_check_code() -> None:
    assert fresh().start(None, TEMP) == (ApplyBrokerId(2, "h:1;1000", f"{1:032x}"),)


def test_an_identity_file_that_cannot_be_written_repeats_1013() -> None:
    registration = with_temp()
    registration.apply_answered(0)
    (effect,) = registration.identity_written(False)
    assert isinstance(effect, Wait)
    assert registration.retry() == (ApplyBrokerId(2, "h:1;1000", f"{2:032x}"),)
    assert registration.apply_answered(0) == (WriteIdentity(IDENTITY, retried=True),)


def test_with_both_files_the_identity_wins() -> None:
    assert fresh().start(IDENTITY, TEMP) == (DeleteTemp(), RegisterBroker(2, f"{1:032x}"))


@pytest.mark.parametrize("code", [1, 2007, 2010])
def test_a_refused_1003_repeats_1003_and_never_asks_for_an_id(code: int) -> None:
    registration = fresh()
    registration.start(IDENTITY, None)
    for attempt in range(2, 5):
        assert isinstance(registration.register_answered(code)[0], Wait)
        assert registration.retry() == (RegisterBroker(2, f"{attempt:032x}"),)


def test_an_unanswered_1003_repeats_the_same_command() -> None:
    registration = fresh()
    (first,) = registration.start(IDENTITY, None)
    registration.register_answered(None)
    assert registration.retry() == (first,)


def test_a_running_broker_unknown_to_the_controller_registers_once_more() -> None:
    registration = fresh()
    registration.start(IDENTITY, None)
    registration.register_answered(0)
    assert registration.reregister() == (RegisterBroker(2, f"{2:032x}"),)
    assert registration.reregister() == ()


@pytest.mark.parametrize(
    "found",
    [Identity("other", "b", 1), Identity("c", "other", 1), TempIdentity("c", "x", 1, "h;1")],
)
def test_files_of_another_broker_set_are_refused(found: Identity | TempIdentity) -> None:
    registration = fresh()
    identity = found if isinstance(found, Identity) else None
    temp = found if isinstance(found, TempIdentity) else None
    (effect,) = registration.start(identity, temp)
    assert isinstance(effect, Refused) and registration.retry() == ()
