"""`regent restart`: brokers of a local cluster anew, one after the other, so that no send fails for
it; of sets without controllers those of a master go to the other set meanwhile.

Responsible for: the order (slaves first, the master last), that the set is whole before the next
one is taken, and that one such command works on a cluster at a time.
Refuses to know: how a broker ends (a master hands over first) and who starts it again (the
supervisor).
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from infra.cluster.acting_running import ActingCluster, set_of
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.cluster.majority_running import MajorityCluster
from infra.cluster.options import ACTING, MAJORITY
from infra.cluster.plan import MASTER_ID
from infra.cluster.running import DemoCluster, SetView
from infra.cluster.view import mode_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem
from infra.waiting import told

LIMIT_S = 60.0
ACTING_LIMIT_S = 120.0
"""A master waits a minute for a slave that does not answer before it leads without it."""
LEAVES_WITHIN_S = 180.0
"""A master stays for clients with an old route: for drain_ms at most, a minute by default."""
ASK_WITHIN_S = 30.0
PATIENCE_S = 10.0
"""A set that is well is whole before; what else is waited for is told."""
LOCK = "restart.lock"
FEW = {
    1: "one replica alone: nobody takes over, and sends fail until it is back",
    2: "two replicas: sends wait while one of them is away, and fail when that outlasts their "
    "timeout (3 s by default); with three none does",
}
"""By the number of replicas: what the promise that no send fails does not cover."""


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent restart`."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--rolling",
        action="store_true",
        help=(
            "every broker, one after the other, the master last; of sets without controllers a "
            "slave is read from while the master is away, and sends go to the other set"
        ),
    )
    which.add_argument(
        "--broker", metavar="NAME", help=("this one only, as 'regent status' names it")
    )
    add_dir(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restart them and say how long each took."""
    folder = DataFolder(arguments.dir.absolute())
    cluster = DemoCluster(folder, lambda: None)
    names = [one["name"] for one in cluster.processes("broker")]
    if not names:
        raise Problem(
            "no broker runs in this cluster, others run them",
            "Ask each to end (SIGTERM) and start it again, the master of a set last.",
            EXIT_USAGE,
        )
    if arguments.broker is not None and arguments.broker not in names:
        raise Problem(
            f"no broker {arguments.broker!r} is here", f"There are {', '.join(names)}.", EXIT_USAGE
        )
    chosen, say = [arguments.broker] if arguments.broker else names, partial(print, flush=True)
    with folder.only_one(LOCK, "a restart of brokers"):
        mode = mode_of(folder.require()["options"])
        if mode == MAJORITY:
            restart_majority(
                MajorityCluster(folder, lambda: None), chosen, partial(_renew, folder), say
            )
        elif mode == ACTING:
            restart_acting(
                ActingCluster(folder, lambda: None), chosen, partial(_renew, folder), say
            )
        else:
            restart(cluster, chosen, partial(_renew, folder), say)
    return EXIT_DONE


def _renew(folder: DataFolder, process: dict[str, Any]) -> None:
    """The supervisor asks this process to end, if nobody has yet."""
    wish = {"action": "renew", "name": process["name"], "pid": process["pid"]}
    try:
        folder.ask(wish, ASK_WITHIN_S)
    except Problem as problem:
        if "unknown request" not in problem.what:
            raise
        os.kill(process["pid"], signal.SIGTERM)  # a supervisor of an earlier release


def restart(
    cluster: DemoCluster,
    names: Sequence[str],
    end: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """One after the other, first those that are leaving already. Problem when the set does not
    become whole again: the others are left as they are.
    """
    if warning := FEW.get(len(cluster.processes("broker"))):
        say(warning)
    left = [*(name for name in _leaving(cluster) if name not in names), *names]
    view = _whole(cluster, except_for=_leaving(cluster))
    while left:
        master = cluster.process_at(view.master_address or "")["name"]
        name = next_of(left, master, _leaving(cluster))
        left.remove(name)
        began = time.monotonic()
        _anew(cluster, name, end, say)
        view = _whole(cluster)
        say(
            f"{name}: restarted and in sync after {time.monotonic() - began:.1f} s; replica "
            f"{view.master_id} is master, epoch {view.master_epoch}"
        )


def restart_acting(
    cluster: ActingCluster,
    names: Sequence[str],
    end: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """The same in a folder of sets with fixed ids, one set after the other: a slave acts while the
    master is away, or another one is elected, where controllers adopted the set. Problem when a set
    does not become whole again.
    """
    for broker_set in dict.fromkeys(map(set_of, names)):
        left = [name for name in names if set_of(name) == broker_set]
        what = f"{broker_set} with its master and every slave"
        while left:
            cluster.wait(what, partial(cluster.is_whole, broker_set), ACTING_LIMIT_S)
            master, is_led = cluster.master_of(broker_set), cluster.is_led(broker_set)
            name = next_of(left, master or f"{broker_set}-{MASTER_ID}", _leaving(cluster))
            left.remove(name)
            if name == master and not is_led:
                say(
                    f"{name} is the master of {broker_set}: until it is back a slave is read from, "
                    "and sends go to the other set"
                )
            began = time.monotonic()
            _anew(cluster, name, end, say)
            cluster.wait(what, partial(cluster.is_whole, broker_set), ACTING_LIMIT_S)
            so = "whole and in sync" if is_led else "whole"
            say(f"{name}: restarted, {broker_set} {so} after {time.monotonic() - began:.1f} s")


def restart_majority(
    cluster: MajorityCluster,
    names: Sequence[str],
    end: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """The same of a set that replicates by majority, its leader last. Problem when a member does
    not come back: the others are left as they are.
    """
    left, what = list(names), "a leader whom every member follows"
    while left:
        cluster.wait(what, cluster.is_whole, LIMIT_S)
        name = next_of(left, str(cluster.look()["leader"]), _leaving(cluster))
        left.remove(name)
        began = time.monotonic()
        _anew(cluster, name, end, say)
        cluster.wait(what, cluster.is_whole, LIMIT_S)
        seconds, now = time.monotonic() - began, cluster.look()
        say(
            f"{name}: restarted, and has everything after {seconds:.1f} s; {now['leader']} leads "
            f"term {now['term']}"
        )


def next_of(left: Sequence[str], master: str, leaving: Collection[str] = ()) -> str:
    """Who is leaving already, then slaves as they come, the present master when it is alone."""
    going = (name for name in left if name in leaving)
    return next(going, next((name for name in left if name != master), left[0]))


def _anew(
    cluster: DemoCluster,
    name: str,
    end: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """Returns when its new process is ready."""
    process = _process(cluster, name)
    gone = _Leaving(cluster, process, say).gone
    end(process)
    cluster.wait(f"the restart of {name}", gone, LEAVES_WITHIN_S)


def _process(cluster: DemoCluster, name: str) -> dict[str, Any]:
    return next(one for one in cluster.processes("broker") if one["name"] == name)


def _leaving(cluster: DemoCluster) -> list[str]:
    """Brokers that were asked to end and have not: by a restart that was interrupted."""
    return [one["name"] for one in cluster.processes("broker") if one.get("leaving")]


class _Leaving:
    """One broker between the request to stop and its new process."""

    def __init__(
        self, cluster: DemoCluster, process: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._name = process["name"]
        self._old_pid = process["pid"]
        self._starts = process.get("restarts", 0) + 1
        self._say = say
        self._said = self._ended = False

    def gone(self) -> bool:
        """The new process is ready. Says once why the old one still stays, and that the new one
        does not come up.
        """
        now = _process(self._cluster, self._name)
        if now["pid"] == self._old_pid and not self._said:
            status = self._cluster.broker_status(str(now["address"])) or {}
            if (left_ms := status.get("leaves_in_ms")) is not None:
                self._said = True
                self._say(
                    f"{self._name}: passes on what clients with an old route still send, for "
                    f"{left_ms / 1000:.0f} s at least"
                )
        if now.get("restarts", 0) > self._starts and not self._ended:
            self._ended = True
            self._say(
                f"{self._name}: its new process ended with exit code {now['last_exit']} and is "
                f"started again; its log is {self._cluster.folder.log_of(self._name)}"
            )
        return now["state"] == "ready" and now["pid"] not in (None, self._old_pid)


def _has_everything(cluster: DemoCluster, name: str) -> bool:
    """It holds what was acknowledged when this began: a set may still name a member whose link is
    gone.
    """
    view = cluster.view()
    master = (
        cluster.broker_status(view.master_address)
        if view is not None and view.master_address
        else None
    )
    own = cluster.broker_status(str(_process(cluster, name)["address"]))
    if master is None or own is None:
        return False
    follows = own["role"] != "FENCED" and own["master_epoch"] == master["master_epoch"]
    return bool(follows and own["ready"] and own["log_end"] >= master["confirm_offset"])


def _whole(cluster: DemoCluster, except_for: Collection[str] = ()) -> SetView:
    """The set, once every replica is in sync and holds what was acknowledged."""
    brokers = cluster.processes("broker")
    what = "a set with a master and every replica in sync"
    with told(f"waiting for {what}", PATIENCE_S):
        view = cluster.wait_for_view(
            what, lambda view: view.is_whole and len(view.members) >= len(brokers), LIMIT_S
        )
        for name in (one["name"] for one in brokers if one["name"] not in except_for):
            cluster.wait(f"copying to {name}", partial(_has_everything, cluster, name), LIMIT_S)
    return view
