"""Replicas that lost what they held and do not know it: nobody may follow them."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

from events.changes import SyncStateSetAltered
from tests.chaos.armed import UNCLEAN, Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.damage_lines import broker_id_of
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.kill_lines import leads_within
from tests.chaos.left_out_lines import without_risk
from tests.chaos.line import Line
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.local_cluster import wait_until

ALONE_S = 5.0
SHOWN_S = 2.0
"""By then heartbeats have told the controllers what was acknowledged since the backup, also on a
busy machine.
"""


def identity_alone(stage: BrokerStage) -> str:
    """The disk of a slave, then of the master, is replaced, and its identity put back; it says that
    it is unclean, and the master dies as soon as it has come back.
    """
    armed, hit = Armed(stage), []
    for of_master in (False, True):
        victim = stage.master() if of_master else stage.slaves()[0]
        before = armed.log_now(victim)
        with armed.killed(victim):
            identity = (armed.store(victim) / "brokerIdentity").read_bytes()
            armed.empty(victim)
            armed.store(victim).mkdir(parents=True, exist_ok=True)
            (armed.store(victim) / "brokerIdentity").write_bytes(identity)
        armed.must_say(before, victim, UNCLEAN)
        master = stage.master()
        with armed.killed(master):
            stage.wait_for(1.0)
        stage.cluster.whole()
        stage.flows(20)
        hit.append(victim)
    return (
        f"{' and '.join(hit)} came back with an identity and nothing else, the master died then; "
        "nobody followed an empty log"
    )


def backup_restored(of_stopped: bool, stage: BrokerStage) -> str:
    """One of the two members of the set goes back to a backup of its folder; it is found out, and
    the master dies.
    """
    armed, (victim, third) = Armed(stage), stage.slaves()
    backup = _backup(armed, victim, of_stopped)
    with without_risk(stage):
        with armed.killed(third):
            epoch = stage.cluster.set_view(
                f"{third} left the set", lambda view: len(view.in_sync) == 2
            ).in_sync_epoch
            stage.flows(20)
            with armed.killed(victim):
                _restore(armed, victim, backup)
            wait_left(stage, broker_id_of(armed, victim), epoch)
            with armed.killed(stage.master()):
                stage.wait_for(1.0)
        stage.cluster.whole()
    return (
        f"{victim} went back to a backup of a {'stopped' if of_stopped else 'running'} broker and "
        "had to leave, the master died then"
    )


def backup_first(stage: BrokerStage) -> str:
    """Both members of the set die, and the one that went back to a backup is the first to come
    back, alone: only what it had shown to the controllers speaks against it.
    """
    armed, master, (victim, third) = Armed(stage), stage.master(), stage.slaves()
    backup = _backup(armed, victim, of_stopped=True)
    stage.wait_for(SHOWN_S)
    with without_risk(stage):
        with armed.killed(third):
            stage.cluster.set_view(f"{third} left the set", lambda view: len(view.in_sync) == 2)
            with armed.kept_off(master), armed.kept_off(victim, wait=False):
                armed.wait_dead(stage.kill(victim))
                _restore(armed, victim, backup)
                # it counts as dead by now: nobody elects it for what it was
                stage.wait_for(SHOWN_S)
                armed.wait_dead(stage.kill(master))
                armed.open_gate(victim)
                if leads_within(stage, victim, ALONE_S):
                    raise NotAsItShouldBe(f"{victim} leads with the log of its backup")
        stage.cluster.whole()
    return f"{victim} came back first, with a backup of before, and did not lead"


def wait_left(stage: BrokerStage, broker_id: int, epoch: int) -> None:
    """Until a decision has left that member out of a set whose epoch was `epoch` because it lost
    something; it may be back by now.
    """

    def has_left() -> bool:
        wait_published(stage.cluster)
        altered = [
            change
            for one in proven_outcomes(stage.cluster.bootstrap)
            for change in one.changes
            if isinstance(change, SyncStateSetAltered)
        ]
        return any(
            broker_id in one.unclean_members for one in altered if one.sync_state_set_epoch > epoch
        )

    wait_until(has_left, f"replica {broker_id} is found to have less than it had", poll_s=0.2)


def _backup(armed: Armed, name: str, of_stopped: bool) -> Path:
    """A copy of its folder; more is acknowledged since then."""
    backup = armed.stage.home / f"{name}-{armed.stage.number}.backup"
    if of_stopped:
        with armed.stage.held(name):
            _copy(armed.store(name), backup)
        armed.stage.cluster.whole()
    else:
        _copy(armed.store(name), backup)
    armed.stage.flows()
    return backup


def _restore(armed: Armed, name: str, backup: Path) -> None:
    armed.empty(name)
    _copy(backup, armed.store(name))
    shutil.rmtree(backup)


def _copy(source: Path, target: Path) -> None:
    """With the holes of its files. What a broker that runs replaces or removes meanwhile may be
    missing, as in any such backup.
    """
    target.mkdir(exist_ok=True)
    subprocess.run(
        ["cp", "-a", "--sparse=always", f"{source}/.", str(target)],
        check=False,
        capture_output=True,
    )


LINES = (
    Line(
        "identity-alone",
        "a disk is replaced and only the identity put back, then the master dies",
        identity_alone,
        armed=True,
    ),
    Line(
        "backup-running",
        "a member goes back to a backup that was made while it ran, then the master dies",
        partial(backup_restored, False),
        armed=True,
    ),
    Line(
        "backup-first",
        "both members die, and one comes back alone with a backup that was made while it was "
        "stopped",
        backup_first,
        armed=True,
    ),
    Line(
        "backup-stopped",
        "a member goes back to a backup that was made while it was stopped, then the master dies",
        partial(backup_restored, True),
        armed=True,
    ),
)
