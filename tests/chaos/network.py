"""A network of the run's own, in which the way from one process to another can be cut, silently and
in one direction.

The whole run lives in a network namespace without a way out; the controllers and each broker have
one of their own in it, all joined by a bridge. A cut is a wrong hardware address for the peer, set
at the sender: packets leave and nobody gets them, no connection is closed. Nothing is left on the
machine: namespaces end with the last process in them.
Refuses to know who is cut from whom and what for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.processes import children
from tests.support.local_cluster import wait_until

INSIDE = "REGENT_CHAOS_NETWORK"
"""Set in the environment of a run that lives in a namespace of its own."""
CLIENTS, CONTROLLERS = "clients", "controllers"
PREFIX = "10.77.0."
NOWHERE = "02:00:00:00:00:99"
WAYS_IN = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))


def way_in() -> tuple[str, ...] | None:
    """The command that gives a process such a namespace; None where this user may not have one."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return None
    bridge = ("ip", "link", "add", "regent0", "type", "bridge")
    return next(
        (
            way
            for way in WAYS_IN
            if subprocess.run([*way, *bridge], capture_output=True, check=False).returncode == 0
        ),
        None,
    )


def go_inside() -> bool:
    """Run this program again in a namespace of its own; False when it is there already, or when the
    machine permits none.
    """
    way = None if INSIDE in os.environ else way_in()
    if way is not None:
        os.execvpe(way[0], [*way, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    return INSIDE in os.environ


class Network:
    """`clients` (with the name server and Kafka) are at the bridge itself, `controllers` and each
    of `brokers` in places of their own.
    """

    def __init__(self, home: Path, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self._address = {CLIENTS: f"{PREFIX}1", CONTROLLERS: f"{PREFIX}2"} | {
            n: f"{PREFIX}{11 + i}" for i, n in enumerate(brokers)
        }
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: Counter[tuple[str, str]] = Counter()
        _run("ip", "link", "set", "lo", "up")
        if subprocess.run(
            ["ip", "link", "show", "regent0"], capture_output=True, check=False
        ).returncode:
            _run("ip", "link", "add", "regent0", "type", "bridge")
            _run("ip", "address", "add", f"{self._address[CLIENTS]}/24", "dev", "regent0")
            _run("ip", "link", "set", "regent0", "up")
        for number, name in enumerate((CONTROLLERS, *brokers)):
            self._join(name, f"port{number}", home / "network.out")

    def _join(self, name: str, port: str, output: Path) -> None:
        holder = self._holders[name] = children.spawn(
            ["unshare", "--net", "sleep", "infinity"], output
        )
        inside, ours = Path(f"/proc/{holder.pid}/ns/net"), os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(inside) != ours, f"{name} has a network of its own")
        _run(
            "ip",
            "link",
            "add",
            port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(holder.pid),
        )
        _run("ip", "link", "set", port, "master", "regent0", "up")
        for words in (
            "link set lo up",
            f"address add {self._address[name]}/24 dev eth0",
            "link set eth0 up",
        ):
            _run(*self.prefix(name), "ip", *words.split())

    def prefix(self, place: str) -> list[str]:
        """Words before a command that shall run there."""
        holder = self._holders.get(place)
        return [] if holder is None else ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def places(self) -> dict[str, dict[str, Any]]:
        """Where the cluster's processes run, as `regent up --places` reads it."""
        here = {
            place: {"host": self._address[place], "prefix": self.prefix(place)}
            for place in self._holders
        }
        return {"controller": here.pop(CONTROLLERS), **here}

    @property
    def everybody(self) -> list[str]:
        """All places."""
        return list(self._address)

    @property
    def host(self) -> str:
        """Where everything else listens."""
        return self._address[CLIENTS]

    @contextmanager
    def cut(self, senders: Sequence[str], receivers: Sequence[str]) -> Iterator[None]:
        """What these send to those is lost; the other direction is untouched. A way that is cut
        twice is healed by the last one.
        """
        ways = [(one, other) for one in senders for other in receivers if one != other]
        for one, other in ways:
            self._cuts[one, other] += 1
            self._neighbour("replace", one, other, "lladdr", NOWHERE, "nud", "permanent")
        try:
            yield
        finally:
            for one, other in ways:
                self._cuts[one, other] -= 1
                if not self._cuts[one, other]:
                    self._neighbour("del", one, other)

    @contextmanager
    def apart(self, ones: Sequence[str], others: Sequence[str]) -> Iterator[None]:
        """Neither hears the other."""
        with self.cut(ones, others), self.cut(others, ones):
            yield

    def _neighbour(self, verb: str, sender: str, receiver: str, *words: str) -> None:
        device = "regent0" if sender == CLIENTS else "eth0"
        _run(
            *self.prefix(sender),
            "ip",
            "neighbour",
            verb,
            self._address[receiver],
            "dev",
            device,
            *words,
        )

    def end(self) -> None:
        children.stop_all(list(self._holders.values()), 0.0)
        for number in range(len(self._holders)):
            subprocess.run(["ip", "link", "del", f"port{number}"], capture_output=True, check=False)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
