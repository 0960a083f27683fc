"""A broker set of real replicas (store, run marker, HA links over sockets) whose controller is a
real fold.

Responsible for: carrying registrations, with what was heard last of the start before, proposals and
elections to the fold and what it decided back. Knows no rule.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from brokers.membership.controller_messages import usual_ha_address
from brokers.process.replica import LocalReplica
from brokers.replica.effects import ProposeSyncSet, RoleChanged
from brokers.replica.hooks import AlterResult, ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.store.log.records import MessageFields, host_bytes
from events.envelope import ReplicaEvidence
from events.outcomes import Outcome
from tests.support.brokers import broker_config
from tests.support.control_history import History

HOST = host_bytes("127.0.0.1", 1)
IDENTITY = "brokerIdentity"


class FoldedSet:
    """`decided`: every outcome of a proposal, as (effect, outcome); `told`: every broker event, as
    (broker id, kind, fields).
    """

    def __init__(self, root: Path, *ids: int, **changes: object) -> None:
        """`changes`: of the brokers' configuration."""
        self.root = root
        self.history = History()
        self.replicas: dict[int, LocalReplica] = {}
        self.priorities: dict[int, int] = {}
        self.decided: list[tuple[ProposeSyncSet, Outcome]] = []
        self.told: list[tuple[int, str, dict[str, object]]] = []
        self._ha: dict[int, str] = {}
        self._heard: dict[int, dict[str, int]] = {}
        self._changes = changes
        for broker_id in ids:
            self.history.apply_id(broker_id)

    def folder(self, broker_id: int) -> Path:
        return self.root / f"broker-{broker_id}"

    # -- processes ---------------------------------------------------------------------------------

    def start(self, broker_id: int) -> LocalReplica:
        """A start of the process: what it says of itself goes into the log."""
        config = broker_config(
            self.folder(broker_id), ["127.0.0.1:1"], **{"min_in_sync_replicas": 2} | self._changes
        )
        replica = LocalReplica(config)
        (self.folder(broker_id) / IDENTITY).write_text(f"c#b#{broker_id}", "ascii")
        core = replica.make(broker_id)
        hooks = ReplicaHooks(
            self._no_matter,
            self._proposed(broker_id),
            lambda elect: None,
            self._queues_follow(replica),
            self._reported(broker_id),
        )
        self._ha[broker_id] = replica.run(core, hooks)
        self.replicas[broker_id] = replica
        position = replica.position()
        self.history.register(
            broker_id,
            replica.boot.incarnation,
            clean=replica.clean(),
            last_epoch=position.epoch,
            end_offset=position.max_offset,
            min_in_sync=2,
            **self._heard.get(broker_id, {}),
        )
        self.publish()
        return replica

    async def stop(self, broker_id: int, *, orderly: bool = True) -> None:
        last = self._seen(broker_id)
        self._heard[broker_id] = {
            "heard_epoch": last.epoch,
            "heard_offset": min(last.confirm_offset, last.max_offset),
        }
        replica = self.replicas.pop(broker_id)
        assert replica.driver is not None
        await replica.driver.stop()
        replica.close() if orderly else replica.store.close(clean=False)

    async def stop_all(self) -> None:
        for broker_id in list(self.replicas):
            await self.stop(broker_id)

    def copy_of(self, broker_id: int) -> Path:
        """A backup of its store folder."""
        return Path(shutil.copytree(self.folder(broker_id), self.root / f"copy-of-{broker_id}"))

    def put_back(self, broker_id: int, copy: Path) -> None:
        shutil.rmtree(self.folder(broker_id))
        shutil.copytree(copy, self.folder(broker_id))

    def put(self, broker_id: int, count: int) -> int:
        """The end of the log behind `count` messages."""
        replica = self.replicas[broker_id]
        assert replica.write_refusal() is None
        for _ in range(count):
            replica.log_grew(
                replica.store.put(
                    MessageFields("T", 0, b"x" * 100, b"", 1, HOST, HOST), 1
                ).end_offset
            )
        return replica.store.log_end

    # -- the controller ----------------------------------------------------------------------------

    def evidence(self) -> tuple[ReplicaEvidence, ...]:
        """As heartbeats tell it: of those that run."""
        return tuple(self._seen(one.broker_id) for one in self.history.set.replicas)

    def _seen(self, broker_id: int) -> ReplicaEvidence:
        replica = self.replicas.get(broker_id)
        priority = self.priorities.get(broker_id, 2_147_483_647)
        if replica is None:
            return ReplicaEvidence(
                broker_id, False, "probe_refused", -1, -1, -1, -1, priority, None
            )
        at = replica.position()
        return ReplicaEvidence(
            broker_id,
            True,
            "heartbeat",
            0,
            at.epoch,
            at.max_offset,
            at.confirm_offset,
            priority,
            replica.boot.incarnation,
        )

    def elect(self, asked_by: int = -1) -> Outcome:
        """`asked_by` -1: the controller saw the master die."""
        outcome = self.history.elect(asked_by, *self.evidence())
        self.publish()
        return outcome

    def publish(self) -> None:
        """1008 to all who run."""
        for replica in list(self.replicas.values()):
            replica.notice(self._notice())

    def _notice(self) -> RoleNotice:
        now = self.history.set
        master = now.master_broker_id
        ha_address = None if master is None else self._ha.get(master)
        return RoleNotice(
            master,
            None if master is None else f"h{master}:1",
            ha_address or usual_ha_address("127.0.0.1:1"),
            now.master_epoch,
            now.sync_state_set,
            now.sync_state_set_epoch,
            {one.broker_id: "127.0.0.1:1" for one in now.replicas},
            now.at_risk,
            source="fold",
        )

    def _queues_follow(self, replica: LocalReplica) -> Callable[[int], None]:
        def confirmed(offset: int) -> None:
            replica.store.dispatch_to(offset)

        return confirmed

    def _proposed(self, broker_id: int) -> Callable[[ProposeSyncSet, str], object]:
        async def propose(effect: ProposeSyncSet, command_id: str) -> AlterResult:
            outcome = self.history.alter(
                effect.members,
                *self.evidence(),
                master=broker_id,
                master_epoch=effect.master_epoch,
                set_epoch=effect.base_set_epoch,
                lost=effect.lost_members,
            )
            self.decided.append((effect, outcome))
            now = self.history.set
            return AlterResult(
                0 if outcome.accepted else 2013,
                now.sync_state_set,
                now.sync_state_set_epoch,
                now.master_epoch,
            )

        return propose

    def _reported(self, broker_id: int) -> Callable[[str, dict[str, object]], None]:
        return lambda kind, fields: self.told.append((broker_id, kind, fields))

    def as_of(self, outcome: Outcome) -> History:
        """The history up to this outcome, to go on with in another way."""
        then = History(formed=False)
        for record in self.history.records[: outcome.command_offset + 1]:
            then.append(record)
        then._ids = self.history._ids  # an id that was used is a repeat
        return then

    def losses(self) -> list[dict[str, object]]:
        return [fields for _, kind, fields in self.told if kind == "LossNoticed"]

    async def _no_matter(self, change: RoleChanged) -> None:
        """The role is read off the replica."""
