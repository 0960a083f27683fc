"""Slave acting master, sections 4.1 to 4.7: the way back into the set."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.ha_links import HaLink, Sought, match
from brokers.acting.messages import HaInfo, Registered
from brokers.acting.reverse_sync import MemberTables, Places, Tables, TimerCheckPoint, decide
from brokers.service.tables.data_version import DataVersion
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import ADDRESSES, HA, SILENT, ActingRig, group, ha_link, of, told_ha

OLD = 10**9
EXISTS = Table("4.1")
for _name, _shipped, _settings in (
    ("the-mode-is-on", True, {}),
    ("one-replica", False, {"total_replicas": 1}),
    ("skip", False, {"skip_pre_online": True}),
    ("the-mode-is-off", False, {"enabled": False}),
):

    def _isolated(settings: dict[str, object] = _settings) -> bool:
        rig = ActingRig(0, **settings)
        rig.start()
        return rig.core.isolated

    EXISTS.row(_name, shipped=_shipped)(_isolated)


@EXISTS.row(
    "once-for-each-start",
    shipped=False,
    ours=True,
    because="11.2 row 1: an expelled master that lives goes through it again",
)
def _() -> bool:
    rig = ActingRig(0).online(1)
    rig.hear(group(1), after_ms=20_000)
    return rig.core.isolated


ISOLATED = Table("4.2")


@ISOLATED.row("blocked-and-not-blocked", shipped=[[], [2, 2]])
def _() -> list[object]:
    rig = ActingRig(0)
    rig.start()
    rig.hear(group(0, 1))
    for _ in range(60):
        rig.tick(1_000)
    kinds = fx.Register | fx.SendHeartbeat | fx.SpecialServices | fx.ForgetMaster
    alive = [one.count for one in of(rig.hear(group(1)), fx.AliveReplicas)]
    return [[one for one in rig.done if isinstance(one, kinds)], [2, *alive]]


@ISOLATED.row("going-online-in-this-order", shipped=["SpecialServices", "Register", "WentOnline"])
def _() -> list[str]:
    rig = ActingRig(0)
    rig.start()
    rig.come_back(1)
    return [type(one).__name__ for one in rig.done][-3:]


LOOP = Table("4.3")


def outcome(rig: ActingRig) -> object:
    """None while the broker is isolated, else the smallest id that it goes by."""
    return None if rig.core.isolated else rig.core.min_id


@LOOP.row("1-no-answer", shipped=None)
def _() -> object:
    rig = ActingRig(0)
    rig.start()
    rig.hear(SILENT)
    rig.tick(600_000)
    return outcome(rig)


@LOOP.row(
    "2-an-empty-group",
    shipped=[0, 0],
    ours=[None, 0],
    because="11.2 row 10: a name server that has just begun is empty as well; after a grace it is",
)
def _() -> list[object]:
    rig = ActingRig(0)
    rig.start()
    rig.hear(group())
    first = outcome(rig)
    rig.hear(group(), after_ms=rig.config.grace_ms)
    return [first, outcome(rig)]


@LOOP.row("2-an-empty-group-of-a-name-server-that-is-not-new", shipped=0)
def _() -> object:
    rig = ActingRig(0)
    rig.start()
    rig.hear(group(up_ms=OLD))
    return outcome(rig)


@LOOP.row("2-an-empty-group-and-an-empty-store", shipped=0)
def _() -> object:
    rig = ActingRig(0, nothing_to_lose=True)
    rig.start()
    rig.hear(group())
    return outcome(rig)


@LOOP.row(
    "2-one-of-two-name-servers-cannot-answer",
    shipped=0,
    ours=None,
    because="4.3 step 2: it may know others",
)
def _() -> object:
    rig = ActingRig(0, ("n1", "n2"))
    rig.start()
    rig.hear(group(up_ms=OLD), "n1")
    rig.hear(SILENT, "n2")
    return outcome(rig)


@LOOP.row(
    "3-the-own-stale-id-is-none-of-the-others",
    shipped=["10.0.0.1:10911"],
    ours=[],
    because="4.4: RocketMQ's master pushes to itself",
)
def _() -> list[str]:
    rig = ActingRig(0)
    rig.start()
    return [one.address for one in of(rig.hear(group(0)), fx.PushHaInfo)]


@LOOP.row("4-a-slave-without-a-master-behind-another-one", shipped=[1, False])
def _() -> list[object]:
    rig = ActingRig(2, total_replicas=3)
    rig.start()
    rig.hear(group(1))
    return [outcome(rig), rig.core.acts]


@LOOP.row(
    "4-a-slave-without-a-master-in-front-of-who-acts",
    shipped=["online at once, delivers again what the other one did"],
    ours=[None, [True], 1, True],
    because="who acted tells its places first, as to a master",
)
def _() -> list[object]:
    rig = ActingRig(1, total_replicas=3)
    rig.start()
    rig.hear(group(2))
    found: list[object] = [
        outcome(rig),
        [one.info.comes_back for one in of(rig.done, fx.PushHaInfo)],
    ]
    rig.come_back(2)
    return [*found, outcome(rig), rig.core.delivers(rig.now_ms)]


MASTER = Table("4.4")


def pushed(rig: ActingRig, ok: bool = True) -> list[fx.Effect]:
    found: list[fx.Effect] = []
    for one in of(rig.done, fx.PushHaInfo):
        found += rig.note(rig.core.pushed(one.token, ok, rig.now_ms, 0.5))
    return found


def master(*others: int, **settings: object) -> ActingRig:
    rig = ActingRig(0, total_replicas=3, **settings)
    rig.start()
    rig.hear(group(*others, up_ms=OLD))
    return rig


@MASTER.row("a-pushes-to-each-member", shipped=[ADDRESSES[1], ADDRESSES[2]])
def _() -> list[str]:
    return [one.address for one in of(master(1, 2).done, fx.PushHaInfo)]


@MASTER.row("a-fails-and-is-tried-again", shipped=[1, 1])
def _() -> list[int]:
    rig = master(1)
    pushed(rig, ok=False)
    rig.done.clear()
    counts = []
    for after_ms in (2_000, 60_000):
        rig.tick(after_ms)
        counts.append(len(of(rig.done, fx.PushHaInfo)))
        rig.done.clear()
        rig.tick(20_000)
    return [min(one, 1) for one in counts]


@MASTER.row("b-waits-for-the-link", shipped=[0, 1])
def _() -> list[int]:
    rig = master(1)
    pushed(rig)
    before = len(of(rig.done, fx.FetchTables))
    rig.linked(1)
    return [before, len(of(rig.done, fx.FetchTables))]


@MASTER.row("b-no-link-for-10-s-begins-anew", shipped=[1, 2])
def _() -> list[int]:
    rig = master(1)
    pushed(rig)
    found = [len(of(rig.done, fx.PushHaInfo))]
    rig.tick(10_000)
    rig.tick(2_000)
    return [*found, len(of(rig.done, fx.PushHaInfo))]


@MASTER.row("c-fetch-fails-and-is-tried-again", shipped=[1, 2])
def _() -> list[int]:
    rig = master(1)
    pushed(rig)
    rig.linked(1)
    (fetch,) = of(rig.done, fx.FetchTables)
    found = [1]
    rig.core.fetched(fetch.token, None, rig.now_ms, 0.5)
    rig.tick(2_000)
    return [*found, len(of(rig.done, fx.FetchTables))]


@MASTER.row("all-done-goes-online-as-0", shipped=[0, True])
def _() -> list[object]:
    rig = ActingRig(0, total_replicas=3)
    rig.start()
    rig.come_back(1, 2)
    return [outcome(rig), rig.core.delivers(rig.now_ms)]


@MASTER.row(
    "weak-1-a-member-that-leaves-and-comes-is-not-skipped",
    shipped="skipped",
    ours=[ADDRESSES[2], ADDRESSES[1]],
    because="4.4: RocketMQ counts places in a list",
)
def _() -> list[str]:
    rig = master(2)
    pushed(rig)
    rig.hear(group(1, 2, up_ms=OLD))
    return [one.address for one in of(rig.done, fx.PushHaInfo)]


@MASTER.row(
    "weak-3-a-broken-member-holds-it-for-ever",
    shipped=None,
    ours=[0, (2,)],
    because="4.4: after a minute without an answer it goes on, and says without whom",
)
def _() -> object:
    rig = master(1, 2, not_active_ms=10_000)
    while rig.core.isolated and rig.now_ms < 1_090_000:
        rig.hear(group(1, 2, up_ms=OLD), after_ms=1_000)
        for one in of(rig.done, fx.PushHaInfo):
            ok = one.address == ADDRESSES[1]
            rig.note(rig.core.pushed(one.token, ok, rig.now_ms, 0.5))
        rig.linked(1)
        for fetch in of(rig.done, fx.FetchTables):
            rig.note(rig.core.fetched(fetch.token, Tables(), rig.now_ms, 0.5))
        for take in of(rig.done, fx.TakeTables):
            rig.note(rig.core.taken(take.token, True, rig.now_ms, 0.5))
    (over,) = [one for one in of(rig.done, fx.Report) if one.kind == "PreOnlineOver"]
    return [outcome(rig), over.fields["left_out"]]


SLAVE = Table("4.5")


def slave() -> ActingRig:
    rig = ActingRig(1)
    rig.start()
    rig.hear(group(0, up_ms=OLD))
    return rig


@SLAVE.row("1-asks-the-master", shipped=[ADDRESSES[0]])
def _() -> list[str]:
    return [one.address for one in of(slave().done, fx.AskHaInfo)]


@SLAVE.row("1-an-error", shipped=[None, 2])
def _() -> list[object]:
    rig = slave()
    told_ha(rig, None)
    rig.tick(3_000)
    return [outcome(rig), len(of(rig.done, fx.AskHaInfo))]


@SLAVE.row("2-takes-the-flushed-offset", shipped=[4_096])
def _() -> list[int]:
    found = told_ha(slave(), HaInfo(HA[0], 4_096, ADDRESSES[0]))
    return [one.offset for one in of(found, fx.StoreFlushedOffset)]


@SLAVE.row("3-no-link-address", shipped=0)
def _() -> object:
    rig = slave()
    told_ha(rig)
    return outcome(rig)


@SLAVE.row("4-waits-for-its-link-for-10-s", shipped=[None, 2])
def _() -> list[object]:
    rig = slave()
    told_ha(rig, HaInfo(HA[0], 0, ADDRESSES[0]))
    rig.tick(10_001)
    rig.tick(2_000)
    return [outcome(rig), len(of(rig.done, fx.AskHaInfo))]


@SLAVE.row(
    "4-the-peer-of-the-link",
    shipped=[0, 0],
    ours=[None, 0],
    because="4.5: a link to another master says nothing",
)
def _() -> list[object]:
    rig = slave()
    told_ha(rig, HaInfo(HA[0], 0, ADDRESSES[0]))
    rig.core.own_link(True, "10.9.9.9:1", rig.now_ms, rig.now_ms, 0.5)
    first = outcome(rig)
    rig.core.own_link(True, HA[0], rig.now_ms, rig.now_ms, 0.5)
    return [first, outcome(rig)]


TAKEN = Table("4.6")


def version(counter: int) -> DataVersion:
    return DataVersion(0, 1_000 + counter, counter)


def places(counter: int, **to: int) -> Places:
    return Places(version(counter), {(f"T@{name}", 0): place for name, place in to.items()})


def timer(counter: int | None, read_ms: int, offset: int) -> TimerCheckPoint:
    return TimerCheckPoint(read_ms, 0, 0, offset, None if counter is None else version(counter))


def taken(own: Tables, *theirs: Tables) -> object:
    members = [MemberTables(n, f"a:{n}", one) for n, one in enumerate(theirs, 1)]
    return decide(own, members)


def offsets_after(mine: Places, *theirs: Places) -> dict[str, int]:
    found = decide(
        Tables(offsets=mine), [MemberTables(n, "a", Tables(one)) for n, one in enumerate(theirs)]
    ).offsets
    return {key[0][2:]: place for key, place in (found or mine).places.items()}


TAKEN.row("newer-is-taken-own-keys-stay", shipped={"g": 9, "own": 3, "new": 1})(
    lambda: offsets_after(places(1, g=5, own=3), places(2, g=9, new=1))
)
TAKEN.row("older-is-not", shipped={"g": 5})(lambda: offsets_after(places(2, g=5), places(1, g=9)))
TAKEN.row("equal-versions-hide-500-commits", shipped={"g": 9})(
    lambda: offsets_after(places(1, g=5), places(1, g=9))
)
TAKEN.row(
    "equal-and-lower",
    shipped={"g": 5},
    ours={"g": 9},
    because="11.3: equal versions never take a place back",
)(lambda: offsets_after(places(1, g=9), places(1, g=5)))
TAKEN.row(
    "newer-and-lower",
    shipped={"g": 5},
    ours={"g": 9},
    because="a slave refuses resets: what is lower is older",
)(lambda: offsets_after(places(1, g=9), places(2, g=5)))
TAKEN.row("the-highest-version-of-several", shipped={"g": 12})(
    lambda: offsets_after(places(1, g=5), places(3, g=12), places(2, g=9))
)


@TAKEN.row("delay-offsets-the-same", shipped=[7, None])
def _() -> list[object]:
    def one(counter: int, place: int) -> Tables:
        return Tables(delays=Places(version(counter), {("", 3): place}))

    newer = decide(one(1, 5), [MemberTables(1, "a", one(2, 7))]).delays
    older = decide(one(2, 5), [MemberTables(1, "a", one(1, 7))]).delays
    assert newer is not None
    return [newer.places["", 3], older]


def timers_after(mine: TimerCheckPoint | None, theirs: TimerCheckPoint | None) -> object:
    found = decide(Tables(timers=mine), [MemberTables(1, "a", Tables(timers=theirs))]).timers
    return None if found is None else (found.read_ms, found.queue_offset)


TAKEN.row("timer-newer", shipped=(200, 30))(
    lambda: timers_after(timer(1, 100, 50), timer(2, 200, 30))
)
TAKEN.row("timer-older", shipped=None)(lambda: timers_after(timer(2, 100, 50), timer(1, 200, 30)))
TAKEN.row(
    "timer-equal",
    shipped=(200, 30),
    ours=None,
    because="11.3: each change makes a new version, so equal is the same",
)(lambda: timers_after(timer(1, 100, 50), timer(1, 200, 30)))
TAKEN.row("no-own-timer", shipped=None)(lambda: timers_after(None, timer(2, 200, 30)))
TAKEN.row(
    "the-member-has-no-timer",
    shipped="fails",
    ours=None,
    because="11.3: a missing check point is skipped",
)(lambda: timers_after(timer(1, 100, 50), None))
TAKEN.row("an-old-peer-says-no-version", shipped=None)(
    lambda: timers_after(timer(1, 100, 50), timer(None, 200, 30))
)

LINKS = Table("4.7")


def link(
    number: int, host: str, opened_ms: int = 0, announced: str | None = None, transfers: bool = True
) -> HaLink:
    return HaLink(number, host, opened_ms, transfers, opened_ms, announced)


def found(sought: list[Sought], *links: HaLink) -> dict[str, int]:
    return {address: one.link_id for address, one in match(sought, links).items()}


LINKS.row("by-the-address-of-its-host", shipped={"1.1.1.1:9": 1})(
    lambda: found([Sought("1.1.1.1:9")], link(1, "1.1.1.1"), link(2, "2.2.2.2"))
)
LINKS.row("a-link-that-does-not-transfer", shipped={})(
    lambda: found([Sought("1.1.1.1:9")], link(1, "1.1.1.1", transfers=False))
)
LINKS.row("a-name-of-a-host", shipped={}, ours={"b:9": 1}, because="4.7: names never match")(
    lambda: found([Sought("b:9", frozenset({"1.1.1.1"}))], link(1, "1.1.1.1"))
)
LINKS.row(
    "two-members-of-one-host",
    shipped={"1.1.1.1:8": 1, "1.1.1.1:9": 1},
    ours={"1.1.1.1:8": 1},
    because="4.7: one link serves one member",
)(lambda: found([Sought("1.1.1.1:8"), Sought("1.1.1.1:9")], link(1, "1.1.1.1")))
LINKS.row(
    "translated-addresses",
    shipped={},
    ours={"1.1.1.1:9": 2},
    because="4.7: a link that came after the push, and from no member's host",
)(lambda: found([Sought("1.1.1.1:9", told_ms=5)], link(1, "9.9.9.9", 4), link(2, "9.9.9.9", 6)))
LINKS.row(
    "a-member-says-which-is-its-own",
    shipped={"1.1.1.1:8": 2},
    ours={"1.1.1.1:8": 1},
    because="4.7: its own word counts more than where it comes from",
)(
    lambda: found(
        [Sought("1.1.1.1:8")], link(1, "9.9.9.9", announced="1.1.1.1:8"), link(2, "1.1.1.1", 3)
    )
)


@pytest.mark.parametrize(
    "row",
    EXISTS.rows + ISOLATED.rows + LOOP.rows + MASTER.rows + SLAVE.rows + TAKEN.rows + LINKS.rows,
)
def test_row(row: Row | Shown) -> None:
    row.check()


def test_a_late_answer_of_an_earlier_call_says_nothing() -> None:
    rig = master(1)
    (first,) = of(rig.done, fx.PushHaInfo)
    rig.tick(6_001)
    rig.tick(2_000)
    second = of(rig.done, fx.PushHaInfo)[-1]
    assert second.token != first.token
    assert not rig.core.pushed(first.token, True, rig.now_ms, 0.5)
    rig.core.pushed(second.token, True, rig.now_ms, 0.5)
    assert of(rig.link(ha_link(1, rig.now_ms)), fx.FetchTables)


def test_a_registration_that_names_no_master_does_not_move_a_slave() -> None:
    rig = ActingRig(1).online(0)
    assert not rig.register(Registered(ADDRESSES[0], None))
