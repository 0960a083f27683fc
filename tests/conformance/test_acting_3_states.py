"""Slave acting master, sections 3.2 to 3.4: who acts, what that switches, what a slave serves."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.messages import MinIdNotice, Registered
from brokers.acting.served import How, at_a_slave, slave_pull
from brokers.acting.special import SWITCHES, Special, Step
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import ADDRESSES, HA, SILENT, ActingRig, group, of, told_ha

TURNS = Table("3.2")


def services(effects: list[fx.Effect]) -> list[bool]:
    return [one.on for one in of(effects, fx.SpecialServices)]


@TURNS.row("state-1-a-master-delivers-whoever-is-seen", shipped=[True, []])
def _() -> list[object]:
    rig = ActingRig(0)
    rig.start()
    rig.come_back(1)
    begun = services(rig.done)[-1]
    rig.register()
    rig.done.clear()
    for others in ((1,), (1, 2), (2,), ()):
        rig.hear(group(0, *others))
    return [begun, services(rig.done)]


def slave(own_id: int, *before: int) -> ActingRig:
    return ActingRig(own_id, total_replicas=3).online(*before)


@TURNS.row("state-2-of-0-and-1-broker-1-does-not-act", shipped=False)
def _() -> bool:
    rig = slave(1, 0)
    rig.hear(group(0, 1, 2))
    return rig.core.acts


@TURNS.row("state-3-of-1-and-2-broker-1-acts", shipped=True)
def _() -> bool:
    rig = slave(1, 0, 2)
    rig.hear(group(1, 2))
    return rig.core.acts


@TURNS.row("state-4-of-1-and-2-broker-2-does-not-act", shipped=False)
def _() -> bool:
    rig = slave(2, 0, 1)
    rig.hear(group(1, 2))
    return rig.core.acts


@TURNS.row("state-5-of-2-alone-or-2-and-3-broker-2-acts", shipped=[True, True])
def _() -> list[bool]:
    found = []
    for left in ((2,), (2, 3)):
        rig = slave(2, 0, 1, 3)
        rig.hear(group(*left))
        found.append(rig.core.acts)
    return found


@TURNS.row("state-6-nobody-answers-or-the-group-is-empty", shipped=[True, True])
def _() -> list[bool]:
    found = []
    for heard in (SILENT, group()):
        rig = slave(1, 0)
        rig.hear(group(1))
        rig.hear(heard)
        found.append(rig.core.acts)
    return found


@TURNS.row(
    "state-6-and-delivers-while-nobody-answers",
    shipped=[True, True],
    ours=[True, False],
    because="11.2 row 1: after 10 s another one may act, so it waits until it is confirmed",
)
def _() -> list[bool]:
    rig = slave(1, 0)
    rig.hear(group(1))
    found = []
    for pause_ms in (9_000, 2_000):
        rig.hear(SILENT, after_ms=pause_ms)
        rig.tick()
        found.append(rig.core.delivers(rig.now_ms))
    return found


def poll_loses_master(rig: ActingRig) -> list[fx.Effect]:
    rig.register(Registered(ADDRESSES[0], HA[0]))
    return rig.hear(group(1, 2))


@TURNS.row("order-the-minimum-leaves", shipped=[True, ADDRESSES[0]])
def _() -> list[object]:
    effects = poll_loses_master(slave(1, 0, 2))
    services_on, forget = (
        one for one in effects if isinstance(one, fx.SpecialServices | fx.ForgetMaster)
    )
    return [services_on.on, forget.address]  # type: ignore[union-attr]


@TURNS.row("order-the-master-is-back", shipped=[False, "ask", "pulls"])
def _() -> list[object]:
    rig = slave(1, 0)
    rig.hear(group(1))
    names = {fx.AskHaInfo: "ask", fx.RerunHeldPulls: "pulls"}
    found = rig.hear(group(0, 1))
    return [
        one.on if isinstance(one, fx.SpecialServices) else names[type(one)]
        for one in found
        if isinstance(one, fx.SpecialServices | fx.AskHaInfo | fx.RerunHeldPulls)
    ]


@TURNS.row("the-master-says-where-it-takes-links", shipped=[fx.FollowMaster(ADDRESSES[0], HA[0])])
def _() -> list[object]:
    rig = slave(1, 0)
    rig.hear(group(1))
    rig.hear(group(0, 1))
    from brokers.acting.messages import HaInfo

    return list(told_ha(rig, HaInfo(HA[0], 0, ADDRESSES[0])))


@TURNS.row(
    "caller-905-the-minimum-left",
    shipped=["acts"],
    ours=["asks", "acts"],
    because="11.2 row 7: one name server alone may be wrong, so all are asked first",
)
def _() -> list[str]:
    rig = slave(1, 0)
    effects = rig.note(
        rig.core.min_id_notice(MinIdNotice(1, ADDRESSES[1], ADDRESSES[0]), rig.now_ms)
    )
    found = ["asks"] if of(effects, fx.AskMembers) else []
    rig.hear(group(1))
    return [*found, "acts"] if rig.core.acts else found


@TURNS.row(
    "caller-905-a-smaller-id-registered",
    shipped=[False, fx.FollowMaster(ADDRESSES[0], HA[0]), fx.RerunHeldPulls()],
)
def _() -> list[object]:
    rig = slave(1, 0)
    rig.hear(group(1))
    notice = MinIdNotice(0, ADDRESSES[0], None, HA[0])
    effects = rig.core.min_id_notice(notice, rig.now_ms)
    return [one.on if isinstance(one, fx.SpecialServices) else one for one in effects]


@TURNS.row("caller-905-offline-address-of-another-one", shipped=[])
def _() -> list[fx.ForgetMaster]:
    rig = slave(2, 0, 1)
    rig.register(Registered(ADDRESSES[0], HA[0]))
    rig.hear(group(1, 2))
    rig.register(Registered(ADDRESSES[1], HA[1]))
    notice = MinIdNotice(0, ADDRESSES[0], "10.9.9.9:1", HA[0])
    return of(rig.core.min_id_notice(notice, rig.now_ms), fx.ForgetMaster)


@TURNS.row("the-same-id-under-another-address-is-ignored", shipped=[[], 0])
def _() -> list[object]:
    rig = slave(1, 0)
    effects = rig.hear(group(1, _0="10.9.9.9:10911"))
    kinds = fx.SpecialServices | fx.ForgetMaster | fx.FollowMaster | fx.AskHaInfo
    return [[one for one in effects if isinstance(one, kinds)], rig.core.min_id]


@TURNS.row("a-failed-question-is-mended-by-the-next-registration", shipped=[[], [HA[0]]])
def _() -> list[object]:
    rig = slave(1, 0)
    rig.hear(group(1))
    rig.hear(group(0, 1))
    asked = told_ha(rig, None)
    mended = rig.register(Registered(ADDRESSES[0], HA[0]))
    return [asked, [one.ha_address for one in of(mended, fx.FollowMaster)]]


@TURNS.row(
    "quirk-an-answer-without-a-master-forgets-it-in-silence",
    shipped=[],
    ours=[ADDRESSES[0]],
    because="3.2 step 3 quirk: the link to a dead master would be tried for ever",
)
def _() -> list[str]:
    rig = slave(1, 0)
    rig.register(Registered(ADDRESSES[0], HA[0]))
    rig.register(Registered())
    return [one.address for one in of(rig.hear(group(1)), fx.ForgetMaster)]


SWITCH = Table("3.3")
_ROWS = {
    Special.LEVELS: ((Step.LOAD_PLACES, Step.CLAMP, Step.START), (Step.STOP, Step.PERSIST)),
    Special.TIMERS: (
        (Step.READ_TIME_FROM_CHECK_POINT, Step.DEQUEUE),
        (Step.READ_TIME_FROM_CHECK_POINT, Step.HOLD_DEQUEUE),
    ),
    Special.TRANSACTIONS: ((Step.START,), (Step.STOP,)),
    Special.REVIVAL: ((Step.START,), (Step.STOP,)),
    Special.PLUGINS: ((Step.TELL,), (Step.TELL,)),
}
for _service, _steps in _ROWS.items():
    SWITCH.row(_service.name.lower(), shipped=_steps)(
        lambda service=_service: (SWITCHES[service].on, SWITCHES[service].off)
    )
SWITCH.row(
    "initial-flags", shipped={Special.TIMERS: [True, False], Special.REVIVAL: [True, False]}
)(
    lambda: {
        service: [switch.initially_on(0), switch.initially_on(1)]
        for service, switch in SWITCHES.items()
        if switch.starts_as_master
    }
)

SERVED = Table("3.4")


def at(*codes: int, **settings: object) -> set[tuple[str, int]]:
    known: dict[str, object] = {"slave_read": True, "local_master": False, "address": "1.2.3.4"}
    found = (at_a_slave(code, **(known | settings)) for code in codes)  # type: ignore[arg-type]
    return {(one.how.name, one.code) for one in found}


_CODES = {
    "pull-from-a-slave-that-is-not-read": ((11, 361), {("REFUSED", 2)}, {"slave_read": False}),
    "pull": ((11, 361), {("SERVED", 0)}, {}),
    "pop": ((200050, 200051, 200151, 200053), {("ESCAPES", 0)}, {}),
    "send": ((10, 310, 320), {("REFUSED", 14)}, {}),
    "end-of-transaction": ((37,), {("REFUSED", 11)}, {}),
    "send-back-alone": ((36,), {("REFUSED", 1)}, {}),
    "send-back-beside-a-master": ((36,), {("LOCAL_MASTER", 1)}, {"local_master": True}),
    "locks-and-offsets": ((41, 42, 29, 30, 31, 32, 15, 14), {("SERVED", 0)}, {}),
    "reset": ((222,), {("REFUSED", 1)}, {}),
    "recall": ((370,), {("REFUSED", 11)}, {}),
    "replies-are-pushed": ((324, 325), {("PUSHED", 0)}, {}),
}
for _name, (_codes, _expected, _settings) in _CODES.items():
    SERVED.row(_name, shipped=_expected)(
        lambda codes=_codes, settings=_settings: at(*codes, **settings)
    )
SERVED.row(
    "topics-and-groups-by-tools",
    shipped={("SERVED", 0)},
    ours={("REFUSED", 1)},
    because="S19: what is answered as done stays, and this would be gone with the master's return",
)(lambda: at(17, 18, 215, 200, 225, 207))


@SERVED.row("send-back-names-the-address", shipped="no master available along with 1.2.3.4")
def _() -> str:
    return at_a_slave(36, slave_read=True, local_master=False, address="1.2.3.4").remark


SERVED.row("out-of-range-is-softened", shipped=[20, 21])(
    lambda: [
        slave_pull(21, own_id=1, min_id=1, far_behind=True, checks_offsets=checks).code
        for checks in (False, True)
    ]
)
SERVED.row("suggestion-far-behind-and-near", shipped=[1, 0])(
    lambda: [slave_pull(0, own_id=1, min_id=1, far_behind=far).suggests for far in (True, False)]
)
SERVED.row("suggestion-of-a-slave-that-is-not-read", shipped=0)(
    lambda: slave_pull(0, own_id=1, min_id=1, far_behind=True, slave_read=False).suggests
)
SERVED.row(
    "back-to-the-master-that-lives",
    shipped=[(19, 0), (0, 0)],
    ours=[(20, 0), (0, 0)],
    because="3.4: standalone brokers of RocketMQ take their own id for the smallest one",
)(
    lambda: [
        (found.code, found.suggests)
        for found in (slave_pull(code, own_id=1, min_id=0, far_behind=False) for code in (19, 0))
    ]
)


@pytest.mark.parametrize("row", TURNS.rows + SWITCH.rows + SERVED.rows)
def test_row(row: Row | Shown) -> None:
    row.check()


def test_every_way_to_serve_is_used() -> None:
    assert {How.READ_ENABLED, How.PUSHED, How.LOCAL_MASTER} < set(How)
