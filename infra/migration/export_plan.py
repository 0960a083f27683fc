"""The way back: a broker set of ours becomes one of a fresh RocketMQ controller, without touching
a broker's disk.

Responsible for: judging whether a set may go, what the Java controller must show afterwards, the
proof by the brokers alone, and the operator's steps.
Refuses to know: sockets, and how requests are sent; which requests they are stands in
`export_requests`.

Two controllers must never decide about one set. So ours stop after the Java controller was driven
there; what changed in between is found by asking the brokers (`proof`). There only our master can
be elected, whoever arrives first, and it holds everything acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.migration.export_requests import (
    Ask,
    Goal,
    clean_requests,
    drive_count,
    drive_requests,
    forget_requests,
)
from infra.migration.plan import (
    BrokerFacts,
    Check,
    JavaSet,
    Step,
    failed,
    masters_check,
    reached_check,
)

EPOCH_MARGIN = 10
"""How far above ours both epochs go: a failover between reading here and stopping our controllers
must not pass them.
"""
JAVA_EPOCH_MAX = 2_147_483_647
REQUESTS_MAX = 100_000
"""A Java controller counts by ones: every id, epoch and set epoch on the way is a request. This
many are a matter of minutes.
"""
REQUESTS_MOST = 1_000_000
"""More are never sent: all of a set's requests are held in memory, and its brokers wait.
"""
FRESH, DONE, OCCUPIED = "fresh", "done", "occupied"


@dataclass(frozen=True, slots=True)
class SetPlan:
    """What exporting one set means. `drive` goes over one connection; after it is closed,
    `clean`.
    """

    goal: Goal | None
    name: str
    presence: str
    checks: tuple[Check, ...]
    forget: tuple[Ask, ...] = ()
    drive: tuple[Ask, ...] = ()
    clean: tuple[Ask, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Nothing forbids it."""
        return not failed(self.checks)


def goal_of(
    name: str, here: Mapping[str, Any], brokers: Mapping[str, BrokerFacts | None]
) -> Goal | None:
    """Return what is to be reached for our document `here` of a set; None when it has no master to
    begin with.
    """
    if here["tombstone"] or here["master"] is None:
        return None
    ours = {one["id"]: one["address"] for one in here["replicas"] if one["registered"]}
    if here["master"] not in ours:
        return None
    told = [
        one.last_epoch for address in ours.values() if (one := brokers.get(address)) is not None
    ]
    highest = max([here["master_epoch"], here["highest_epoch_seen"], *told])
    java = frozenset(one["id"] for one in here["replicas"] if not one["is_regent"])
    return Goal(
        here["cluster"],
        name,
        here["master"],
        here["next_broker_id"],
        ours,
        highest + EPOCH_MARGIN,
        here["sync_state_set_epoch"] + EPOCH_MARGIN,
        java,
    )


def plan_set(
    name: str,
    here: Mapping[str, Any] | None,
    brokers: Mapping[str, BrokerFacts | None],
    there: JavaSet | None,
    now_ms: int,
    *,
    replace: bool = False,
    requests_max: int = REQUESTS_MAX,
) -> SetPlan:
    """Judge one set and say what to send.

    `there`: what the Java controller has of that name, None for nothing; `replace`: it may be
    forgotten there; `now_ms`: wall clock, for check codes and `invokeTime`; `requests_max`: more
    are not sent.
    """
    goal = None if here is None else goal_of(name, here, brokers)
    checks = list(_here_checks(name, here, brokers))
    if goal is None:
        return SetPlan(None, name, FRESH, tuple(checks))
    presence = FRESH if there is None else DONE if not _missing(goal, there) else OCCUPIED
    checks += [_place_check(goal, there, presence, replace), _range_check(goal)]
    if presence != DONE and checks[-1].ok:
        checks.append(_length_check(goal, requests_max))
    if presence == DONE or failed(checks):
        return SetPlan(goal, name, presence, tuple(checks))
    forget = () if there is None else forget_requests(goal, there, now_ms)
    return SetPlan(
        goal,
        name,
        presence,
        tuple(checks),
        forget,
        drive_requests(goal, now_ms),
        clean_requests(goal, now_ms),
    )


def _here_checks(
    name: str, here: Mapping[str, Any] | None, brokers: Mapping[str, BrokerFacts | None]
) -> list[Check]:
    if here is None or here["tombstone"]:
        return [
            Check(
                "here", False, f"{name}: no such set here", "'regent controller sets' lists them."
            )
        ]
    master = next((one for one in here["replicas"] if one["id"] == here["master"]), None)
    calm = master is not None and master["alive"] and not here.get("master_restarted")
    wanted = [(one["id"], one["address"]) for one in here["replicas"] if one["registered"]]
    down = [
        one["id"]
        for one in here["replicas"]
        if one["registered"] and brokers.get(one["address"]) is None
    ]
    ids = " ".join(map(str, down))
    return [
        Check(
            "master alive",
            calm,
            f"{name}: master {here['master']} is "
            f"{'alive' if calm else 'not there, or an election is due'}",
            "Let the set have a living master first ('regent controller set' shows why it has "
            "none).",
        ),
        reached_check(
            name,
            wanted,
            {address: brokers.get(address) for _, address in wanted},
            f"Start it, or forget it: 'regent controller clean {name} {ids}'.",
        ),
        masters_check(name, master["address"] if master else "nobody", brokers),
    ]


def _place_check(goal: Goal, there: JavaSet | None, presence: str, replace: bool) -> Check:
    if presence != OCCUPIED or there is None:
        return Check(
            "place",
            True,
            f"{goal.name}: "
            f"{'nothing of it there yet' if presence == FRESH else 'there already, as wanted'}",
        )
    if there.anyone_alive:
        return Check(
            "place",
            False,
            f"{goal.name}: that controller already runs a set of this name",
            "Its brokers heartbeat there: nothing is to be exported, or it is another "
            "set. (What an export that broke off left behind ends within half a minute.)",
        )
    missing = "; ".join(_missing(goal, there))
    return Check(
        "place",
        replace,
        f"{goal.name}: that controller knows such a set already ({missing})",
        "None of its brokers lives there. To forget it there and begin anew, add --replace.",
    )


def _range_check(goal: Goal) -> Check:
    ok = (
        goal.epoch < JAVA_EPOCH_MAX - EPOCH_MARGIN
        and goal.set_epoch < JAVA_EPOCH_MAX - EPOCH_MARGIN
    )
    return Check(
        "range",
        ok,
        f"{goal.name}: epochs {goal.epoch} and {goal.set_epoch} to be reached",
        "A Java controller counts no further.",
    )


def _length_check(goal: Goal, requests_max: int) -> Check:
    count, allowed = drive_count(goal), min(requests_max, REQUESTS_MOST)
    more = (
        f"Allow it with --requests-max {count}; while it runs it says how far it is and how long "
        "it will take."
    )
    none = (
        f"More than {REQUESTS_MOST} are never sent: its ids or epochs are too high for a "
        "controller that counts by ones."
    )
    return Check(
        "length",
        count <= allowed,
        f"{goal.name}: {count} requests lead there, {allowed} are allowed",
        more if count <= REQUESTS_MOST else none,
    )


# -- what must stand afterwards --------------------------------------------------------------------


def _missing(goal: Goal, there: JavaSet) -> list[str]:
    """What keeps the Java controller from holding the set as the goal wants it; empty when it does.

    Margins are left out: after a first run ours may have moved on a little, below what was reached.
    """
    found = {one.broker_id: one.address for one in there.replicas}
    missing = []
    if there.master_id is not None:
        missing.append(f"it has master {there.master_id} there")
    if there.sync_state_set != (goal.master_id,):
        missing.append(f"in sync there {list(there.sync_state_set)}, wanted only {goal.master_id}")
    if found != dict(goal.addresses):
        missing.append(f"replicas there {found}, here {dict(goal.addresses)}")
    if there.next_broker_id < goal.next_broker_id:
        missing.append(f"next id there {there.next_broker_id}, here {goal.next_broker_id}")
    if (
        there.master_epoch <= goal.epoch - EPOCH_MARGIN
        or there.sync_state_set_epoch < goal.set_epoch - EPOCH_MARGIN
    ):
        missing.append(f"epochs there {there.master_epoch} and {there.sync_state_set_epoch}")
    return missing


def verify(goal: Goal, there: JavaSet | None) -> Check:
    """The Java controller holds what was wanted."""
    if there is None:
        return Check(
            "exported",
            False,
            f"{goal.name}: the set is not there",
            "Look into that controller's log, then run again with --replace.",
        )
    missing = _missing(goal, there)
    text = "; ".join(missing) or (
        f"next id {there.next_broker_id}, epoch {there.master_epoch}, set epoch "
        f"{there.sync_state_set_epoch}, only {goal.master_id} can be elected"
    )
    return Check("exported", not missing, f"{goal.name}: {text}", "Run again with --replace.")


def proof(
    name: str, there: JavaSet | None, brokers: Mapping[str, BrokerFacts | None]
) -> list[Check]:
    """Whether brokers may be given the Java controller; asked when ours decide nothing any more."""
    if there is None:
        return [
            Check(
                "exported",
                False,
                f"{name}: the set is not there",
                "Start Regent's controllers again and export it.",
            )
        ]
    again = (
        f"Start Regent's controllers again, then 'regent controller export --sets {name} "
        "--replace'."
    )
    only = there.replica(there.sync_state_set[0]) if len(there.sync_state_set) == 1 else None
    address = "nobody" if only is None else only.address
    wanted = [(one.broker_id, one.address) for one in there.replicas]
    # A broker that has arrived already is one epoch further, with that very master.
    limit = there.master_epoch if there.master_id is None else there.master_epoch + 1
    ahead = [
        (f"{one.address}: {one.last_epoch}")
        for one in brokers.values()
        if one and one.last_epoch >= limit
    ]
    return [
        reached_check(name, wanted, brokers, "Start it, or wait until it is up, then check again."),
        Check(
            "only the master",
            only is not None or there.master_id is not None,
            f"{name}: in sync there {list(there.sync_state_set)}",
            again,
        ),
        masters_check(name, address if only else _master_address(there), brokers),
        Check(
            "epochs",
            not ahead,
            f"{name}: epoch {there.master_epoch} there; not below: {', '.join(ahead) or 'nobody'}",
            again,
        ),
    ]


def _master_address(there: JavaSet) -> str:
    master = there.replica(there.master_id)
    return "nobody" if master is None else master.address


def steps(
    goals: Sequence[Goal], java: Sequence[str], regent: Sequence[str], to_address: str
) -> list[Step]:
    """What the operator does, in this order. `java`, `regent`: the controllers of either side."""
    names, target = ",".join(goal.name for goal in goals), ";".join(java)
    check = (
        f"regent controller export --to {to_address} --sets {names} --check --controller "
        f"'{';'.join(regent)}'"
    )
    return [
        Step(
            "Drive the Java controller there (no broker hears of it).",
            (
                (
                    f"regent controller export --to {to_address} --sets {names} --controller "
                    f"'{';'.join(regent)}'"
                ),
            ),
            "every set is 'exported' or 'there already'",
        ),
        Step(
            f"Stop every Regent controller ({', '.join(regent)}). Brokers serve on; until they "
            "have arrived there nobody elects. Start no broker in this time."
        ),
        Step(
            "Prove by the brokers that nothing changed in between.",
            (check,),
            "all checks ok; otherwise it says the way back",
        ),
        *_moves(goals, java, target),
        Step(
            "Wait until each set has its master and members there, then they are run from there.",
            (check,),
            "master, arrived: all",
        ),
        Step(
            "Put the new address into whatever deploys the brokers. Way back before the brokers "
            "were told: start Regent's controllers again. Afterwards: 'regent controller import'."
        ),
    ]


def _moves(goals: Sequence[Goal], java: Sequence[str], target: str) -> list[Step]:
    """How the brokers of each kind hear of their new controllers."""
    told = [
        f"mqadmin updateBrokerConfig -b {goal.addresses[one]} -k controllerAddr -v '{target}'"
        for goal in goals
        for one in _masters_first(goal)
        if one in goal.java_brokers
    ]
    own = [
        (f"{goal.name} {one} at {goal.addresses[one]}")
        for goal in goals
        for one in _masters_first(goal)
        if one not in goal.java_brokers
    ]
    moves = (
        [
            Step(
                "Tell each Java broker its new controllers. It reads them within 120 s, without a "
                "restart, and keeps them in its configuration file. When the master has arrived "
                "it is elected in a new epoch; for a few seconds sends are refused, until a slave "
                "is in sync there.",
                tuple(told),
            )
        ]
        if told
        else []
    )
    if own:
        moves.append(
            Step(
                f"Regent's own brokers: set controllers = {list(java)} in the configuration, "
                f"restart the master first, then the slaves: {'; '.join(own)}."
            )
        )
    return moves


def _masters_first(goal: Goal) -> list[int]:
    return sorted(goal.addresses, key=lambda one: (one != goal.master_id, one))
