"""Stock mqadmin against a Java controller and against Regent's: the same commands, the same output.

Responsible for: one list of commands played on both sides, addresses and epochs made equal, and the
differences shown.
Refuses to know: why an output differs.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass

from tests.interop.java_client import first_message
from tests.interop.java_rocketmq import FAST_CONTROLLER_SETTINGS
from tests.interop.java_set import BROKER_SET, JavaSet, on_java, on_regent
from tests.interop.stage import Row, Stage

CLUSTER = "DefaultCluster"
TOPIC = "Beside"
SHRINK_WITHIN_S = 30.0
# RocketMQ's own keys (RULES 11.1) that an operator may look for; the kind, paths and
# network keys are each side's own.
KEYS = (
    "scanNotActiveBrokerInterval",
    "scanInactiveMasterInterval",
    "electMasterMaxRetryCount",
    "enableElectUncleanMaster",
    "notifyBrokerRoleChanged",
    "configBlackList",
)


@dataclass(frozen=True, slots=True)
class Played:
    """One command: its name here, and the output with what may differ made equal."""

    name: str
    output: list[str]


def run(stage: Stage) -> list[Row]:
    """Java first, alone on the machine; then Regent."""
    stage.drop_shared()
    with ExitStack() as stack:
        theirs = _play(stage, on_java(stage, stack))
    java = on_regent(stage)
    ours = _play(stage, java)
    rows = []
    for peer, own in zip(theirs, ours, strict=True):
        missing = [line for line in peer.output if line not in own.output]
        # The Java controller nests the members where mqadmin does not find them; ours it prints
        # (RULES 12).
        more = [
            line
            for line in own.output
            if line not in peer.output and not line.startswith("#Broker ")
        ]
        same = not missing and not more
        text = (
            (f"{len(own.output)} lines, the same")
            if same
            else f"only Java's: {missing}; only ours: {more}"
        )
        rows.append(Row(f"mqadmin {peer.name}", text[:600], same))
    stage.drop_shared()  # an id was cleaned away: the set is not what others expect
    return rows


def _play(stage: Stage, java: JavaSet) -> list[Played]:
    side = _Side(stage, java)
    view = java.whole()
    first_message(stage, java.name_servers, TOPIC)
    # Logs and epochs of both sides begin with bytes, whatever the first election found.
    java.whole()
    master, other = view.master_id or 0, next(one for one in view.ids if one != view.master_id)
    side.command("getControllerMetaData", "getControllerMetaData", "-a", side.controllers)
    side.command(
        "getSyncStateSet of a set", "getSyncStateSet", "-a", side.controllers, "-b", BROKER_SET
    )
    side.command(
        "getSyncStateSet of a cluster",
        "getSyncStateSet",
        "-a",
        side.controllers,
        "-c",
        CLUSTER,
        "-n",
        java.name_servers,
    )
    side.command(
        "getSyncStateSet of an unknown set",
        "getSyncStateSet",
        "-a",
        side.controllers,
        "-b",
        "no-such-set",
    )
    side.command("getBrokerEpoch", "getBrokerEpoch", "-n", java.name_servers, "-b", BROKER_SET)
    side.command(
        "haStatus of the master", "haStatus", "-n", java.name_servers, "-b", java.master().address
    )
    side.command(
        "haStatus of a slave", "haStatus", "-n", java.name_servers, "-b", java.broker(other).address
    )
    side.command("electMaster of the master", "electMaster", *side.elect(master))
    side.command("electMaster of an unknown id", "electMaster", *side.elect(77))
    side.command(
        "electMaster in an unknown set",
        "electMaster",
        "-a",
        side.controllers,
        "-b",
        "1",
        "-bn",
        "no-such-set",
        "-c",
        CLUSTER,
    )
    side.command("electMaster of a slave in sync", "electMaster", *side.elect(other))
    _settle(java, other)
    side.command(
        "cleanBrokerMetadata of a living id",
        "cleanBrokerMetadata",
        *side.clean(BROKER_SET, str(other)),
    )
    side.command(
        "cleanBrokerMetadata of an unknown set",
        "cleanBrokerMetadata",
        *side.clean("no-such-set", "1"),
    )
    side.command(
        "cleanBrokerMetadata without ids, a master lives",
        "cleanBrokerMetadata",
        "-a",
        side.controllers,
        "-bn",
        BROKER_SET,
        "-c",
        CLUSTER,
    )
    _lose_a_slave(java, side)
    side.command(
        "cleanBrokerMetadata of a dead id",
        "cleanBrokerMetadata",
        *side.clean(BROKER_SET, str(side.lost)),
    )
    side.command(
        "getSyncStateSet afterwards", "getSyncStateSet", "-a", side.controllers, "-b", BROKER_SET
    )
    side.config()
    return side.played


def _settle(java: JavaSet, master: int) -> None:
    """The elected one is master. A Java slave may stay on the demoted one (RULES 15): it is
    started anew.
    """
    java.wait("the elected one is master", lambda view: view.master_id == master)
    for one in java.brokers:
        if one.broker_id != master:
            one.kill()
            one.start(wait=False)
    java.whole()


def _lose_a_slave(java: JavaSet, side: _Side) -> None:
    victim = java.slaves()[-1]
    side.lost = victim.broker_id
    victim.kill()
    java.wait(
        "the dead slave is out of the set",
        lambda view: side.lost not in view.in_sync and not _alive(view, side.lost),
        SHRINK_WITHIN_S,
    )


def _alive(view: object, broker_id: int) -> bool:
    replica = view.replica(broker_id)  # type: ignore[attr-defined]
    return replica is not None and replica.alive


class _Side:
    """One of the two sides: plays commands and makes their output comparable."""

    def __init__(self, stage: Stage, java: JavaSet) -> None:
        self._stage, self._java = stage, java
        self.controllers = java.admin.addresses[0]
        self.played: list[Played] = []
        self.lost = 0

    def elect(self, broker_id: int) -> tuple[str, ...]:
        return ("-a", self.controllers, "-b", str(broker_id), "-bn", BROKER_SET, "-c", CLUSTER)

    def clean(self, name: str, ids: str) -> tuple[str, ...]:
        return ("-a", self.controllers, "-bn", name, "-b", ids, "-c", CLUSTER)

    def command(self, name: str, *words: str) -> None:
        done = self._stage.java.mqadmin(*words)
        self.played.append(Played(name, self._comparable(done.text)))

    def config(self) -> None:
        """getControllerConfig and updateControllerConfig: RocketMQ's keys, a change that shows, a
        key that is refused.
        """
        shown = self._stage.java.mqadmin("getControllerConfig", "-a", self.controllers).text
        found = dict(
            re.findall(
                r"^(\S+)\s+=\s+(."
                r"*)$",
                shown,
                re.MULTILINE,
            )
        )
        fast = {**found, **dict.fromkeys(FAST_CONTROLLER_SETTINGS, "as configured")}
        self.played.append(
            Played("getControllerConfig", [(f"{key} = {fast.get(key, 'MISSING')}") for key in KEYS])
        )
        self.command(
            "updateControllerConfig",
            "updateControllerConfig",
            "-a",
            self.controllers,
            "-k",
            "electMasterMaxRetryCount",
            "-v",
            "5",
        )
        shown = self._stage.java.mqadmin("getControllerConfig", "-a", self.controllers).text
        self.played.append(
            Played(
                "getControllerConfig after it",
                re.findall(r"^electMasterMaxRetryCount\s+=\s+.*$", shown, re.MULTILINE),
            )
        )
        self.command(
            "updateControllerConfig of a forbidden key",
            "updateControllerConfig",
            "-a",
            self.controllers,
            "-k",
            "configStorePath",
            "-v",
            "x",
        )
        self.command(
            "updateControllerConfig of an unknown key",
            "updateControllerConfig",
            "-a",
            self.controllers,
            "-k",
            "noSuchKey",
            "-v",
            "x",
        )

    def _comparable(self, text: str) -> list[str]:
        """Lines, each once and sorted, with brokers' and controllers' addresses named, times,
        epochs, offsets and rates taken out.
        """
        for one in self._java.brokers:
            found = one.identity()
            text = text.replace(one.address, f"broker-{found[2] if found else '?'}")
        for address in self._java.admin.addresses:
            text = text.replace(address, "controller")
        # what is said beside the code is free text
        text = re.sub(r"CODE: (\d+) +DESC:.*", r"CODE:_\1_", text)
        text = re.sub(r"#(ControllerGroup|ControllerLeaderId|Peer:)\s+\S+", r"#\1 given", text)
        # as many epochs as elections until the set was whole
        text = re.sub(r"(startOffset=)\d+", r"\1N", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
        text = re.sub(r"(Epoch|EPOCH|epoch)([^0-9\n]{0,12})\d+", r"\1\2N", text)
        text = re.sub(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\S*|\b\d{2,}\b|\b\d+\.\d+\b", "N", text)
        lines = {re.sub(r"\s+", " ", line).strip() for line in text.splitlines()}
        return sorted(line for line in lines if line and not re.match(r"at [\w.$]+\(", line))
