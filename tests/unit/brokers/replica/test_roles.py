"""The table that turns a notice into a verdict."""

from __future__ import annotations

import pytest

from brokers.replica.roles import Role, RoleNotice, Standing, Verdict, judge

FENCED, MASTER, SLAVE = Role.FENCED, Role.MASTER, Role.SLAVE
ME, OTHER, THIRD = 1, 2, 3


def standing(
    role: Role, master: int | None, epoch: int, seen: int, *, trusted: bool = True
) -> Standing:
    return Standing(ME, role, master, epoch, seen, trusted)


def notice(
    master: int | None, epoch: int, *, members: tuple | None = (1, 2), at_risk: bool = False
) -> RoleNotice:
    return RoleNotice(
        master,
        master_epoch=epoch,
        members=members,
        set_epoch=None if members is None else 3,
        at_risk=at_risk,
    )


@pytest.mark.parametrize(
    ("stands", "told", "verdict"),
    [
        # news above everything known
        (standing(FENCED, None, 0, 0), notice(ME, 1), Verdict.LEAD),
        (standing(FENCED, None, 0, 0), notice(OTHER, 1), Verdict.FOLLOW),
        (standing(SLAVE, OTHER, 4, 4), notice(ME, 5), Verdict.LEAD),
        (standing(MASTER, ME, 4, 4), notice(ME, 5), Verdict.LEAD),
        (standing(MASTER, ME, 4, 4), notice(OTHER, 5), Verdict.FOLLOW),
        (standing(SLAVE, OTHER, 4, 4), notice(THIRD, 5), Verdict.FOLLOW),
        (standing(SLAVE, OTHER, 4, 4), notice(OTHER, 5), Verdict.FOLLOW),
        (standing(SLAVE, OTHER, 4, 4), notice(None, 5), Verdict.FENCE),
        (standing(MASTER, ME, 4, 4), notice(None, 5), Verdict.FENCE),
        # the same epoch
        (standing(MASTER, ME, 4, 4), notice(ME, 4), Verdict.REFRESH),
        (standing(SLAVE, OTHER, 4, 4), notice(OTHER, 4), Verdict.REFRESH),
        (standing(MASTER, ME, 4, 4), notice(OTHER, 4), Verdict.IGNORE),
        (standing(SLAVE, OTHER, 4, 4), notice(ME, 4), Verdict.IGNORE),
        (standing(MASTER, ME, 4, 4), notice(None, 4), Verdict.IGNORE),
        (standing(FENCED, OTHER, 4, 4), notice(OTHER, 4), Verdict.FOLLOW),
        (standing(FENCED, ME, 4, 4), notice(ME, 4), Verdict.ASK_ELECTION),
        (standing(FENCED, None, 4, 4), notice(None, 4), Verdict.ASK_ELECTION),
        # older ones
        (standing(MASTER, ME, 4, 4), notice(OTHER, 3), Verdict.IGNORE),
        (standing(SLAVE, OTHER, 4, 4), notice(ME, 3), Verdict.IGNORE),
        (standing(FENCED, None, 4, 4), notice(OTHER, 3), Verdict.IGNORE),
        # a former life has seen epoch 4
        (standing(FENCED, None, 0, 4), notice(ME, 3), Verdict.IGNORE),
        (standing(FENCED, None, 0, 4), notice(OTHER, 3), Verdict.IGNORE),
        (standing(FENCED, None, 0, 4), notice(ME, 4), Verdict.ASK_ELECTION),
        (standing(FENCED, None, 0, 4), notice(OTHER, 4), Verdict.FOLLOW),
        (standing(FENCED, None, 0, 4), notice(None, 4), Verdict.ASK_ELECTION),
        (standing(FENCED, None, 0, 4), notice(ME, 5), Verdict.LEAD),
        # a fresh set
        (standing(FENCED, None, 0, 0), notice(None, 0), Verdict.ASK_ELECTION),
        # promotions that need more
        (standing(SLAVE, OTHER, 4, 4, trusted=False), notice(ME, 5), Verdict.VETO),
        (standing(SLAVE, OTHER, 4, 4, trusted=False), notice(ME, 5, at_risk=True), Verdict.LEAD),
        (standing(SLAVE, OTHER, 4, 4, trusted=False), notice(OTHER, 5), Verdict.FOLLOW),
        (standing(SLAVE, OTHER, 4, 4), notice(ME, 5, members=None), Verdict.ASK_STATE),
    ],
)
def test_every_row_of_the_table(stands: Standing, told: RoleNotice, verdict: Verdict) -> None:
    assert judge(stands, told) is verdict


def test_every_verdict_has_a_row() -> None:
    rows = test_every_row_of_the_table.pytestmark[0].args[1]
    assert {row[2] for row in rows} == set(Verdict)
