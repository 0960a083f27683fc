"""A member of a majority group as a broker's replica: `brokers.replica.replica_port.Replica`.

Responsible for: the member's log as the broker's store, what sends need of the member, what its
roles and commits mean for the broker, in their order. Refuses to know: clients, name servers,
configuration files.

Commits are told within the member's turn, roles behind it, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from brokers.clock import Clock
from brokers.ha.epochs import EpochHistory
from brokers.majority.entry import NONE
from brokers.majority.messages.leading import Leading, Proposal
from brokers.majority.messages.store import EntryMessageStore
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.wire.codes import Code
from brokers.process.majority.config import MemberConfig, broker_id_of
from brokers.process.majority.listener import MemberListener
from brokers.process.majority.member import MemberProcess, OpenedFolder
from brokers.process.majority.telling import Limited
from brokers.replica.core_port import CoreView
from brokers.replica.effects import RoleChanged
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus, SlaveSeen
from brokers.replica.hooks import BrokerTeller, ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.replica.waiters import Confirmation
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.store import StoreConfig

OF_THE_OTHER_KIND = ("brokerIdentity", "epochFileCheckpoint", "placeInSet")
"""Files that only a replica of an in-sync set has."""

_log = logging.getLogger("regent.majority")


class MajorityReplica:
    """Opens and recovers in the constructor. LogError: one line with the way out, nothing stays
    open. `root`: the store's folder; `broker_address`: where this broker serves clients;
    `address_of(member id)`: the same of another one, None while that is not known.
    """

    flushed = None

    def __init__(
        self,
        config: MemberConfig,
        root: Path,
        sizes: StoreConfig,
        broker_address: str,
        clock: Clock | None = None,
        *,
        boot_id: str | None = None,
    ) -> None:
        _refuse_other_kind(root)
        self._config, self._clock = config, clock or Clock()
        self._broker_address = broker_address
        self.address_of: Callable[[str], str | None] = lambda member_id: None
        self.role_heard: Callable[[Standing], None] = lambda standing: None
        self._opened = OpenedFolder(config, boot_id)
        try:
            kept = self._opened.kept
            self.store = EntryMessageStore(
                root, self._opened.folder, self._propose, sizes, same_boot=kept
            )
        except BaseException:
            self._opened.folder.close()
            raise
        self.member: MemberProcess | None = None
        self.core: MemberView | None = None
        self._leading: Leading | None = None
        self._heard: _Heard | None = None
        self._failed: asyncio.Future[None] | None = None
        found = self.store.recovery
        _log.info(
            "store recovered: end %d, committed %d, cut %d bytes; the start is %s (%s)",
            found.end_offset,
            found.confirm_offset,
            found.cut_bytes,
            "clean" if self._opened.boot.clean else "unclean",
            self._opened.boot.reason,
        )

    # -- life --------------------------------------------------------------------------------------

    def begin(
        self, broker_id: int, hooks: ReplicaHooks, attach: Callable[[CoreView], None]
    ) -> CoreView:
        """Time passes for it; others reach it behind `listen`."""
        self._heard = heard = _Heard(self, hooks)
        self.member = MemberProcess(
            self._config, self._opened, heard, self._clock, self._broker_address
        )
        self._leading = heard.leading = Leading(_Appends(self.member), self._clock.now_ms)
        self.core = MemberView(broker_id, self)
        attach(self.core)
        self.member.driver.start()
        return self.core

    async def listen(self) -> None:
        """OSError when the address is taken."""
        assert self.member is not None
        await self.member.server.start()

    def now_ms(self) -> int:
        """Of the clock that never goes back."""
        return self._clock.now_ms()

    def report_start(self, report: Callable[[str, Mapping[str, object]], None]) -> None:
        """What the start found."""
        found = self.store.recovery
        told = {"end_offset": found.end_offset, "cut_bytes": found.cut_bytes}
        report("StoreRecovered", {**told, "abnormal": found.abnormal})
        start = {"clean": self.clean(), "recovered_end_offset": found.end_offset}
        report("BrokerStarted", {**start, "cut_bytes": found.cut_bytes})

    async def stop(self) -> None:
        """It leaves the group for now; a leader that did not hand over before does it here."""
        if self.member is not None and self._heard is not None:
            await self.member.end()
            await self._heard.end()

    def close(self) -> None:
        """The store first, then its folder."""
        failed = self.member is not None and self.member.failed
        try:
            self.store.close(clean=not failed)
        except DiskFull as error:  # the log is on disk; the run only looks like a killed one
            _log.error("the end of this run cannot be noted: %s", error)
        except (LogError, OSError) as error:
            _log.error("the store cannot be closed cleanly: %s", error)
            failed = True
        try:
            self._opened.close(failed)
        except (LogError, OSError) as error:
            _log.error("the log cannot be closed cleanly: %s", error)

    def failed(self) -> asyncio.Future[None]:
        """Raises LogError once this member promises nothing any more."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

    def left(self, reason: str) -> None:
        """It has left its group."""
        if not self.failed().done():
            self.failed().set_exception(LogError(f"this member has left its group: {reason}"))

    # -- sends -------------------------------------------------------------------------------------

    def _propose(self, entries: Sequence[NewEntry]) -> Code:
        return Code.LEADER_NOT_READY if self._leading is None else self._leading.propose(entries)

    def leads(self) -> bool:
        return self._leading is not None and self._leading.leads()

    def write_refusal(self) -> str | None:
        if self._leading is None:
            return "this member does not run yet"
        return self._leading.write_refusal()

    def log_grew(self, _end_offset: int) -> None:
        """A member sends its entries by itself."""

    def confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Confirmation]:
        assert self._leading is not None
        return self._leading.confirmation(end_offset, timeout_ms)

    def storage_failed(self, reason: str) -> None:
        """The disk refused: the next start is unclean, and this member leaves its group."""
        if self.member is not None:
            self.member.driver.storage_failed(reason)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def incarnation(self) -> str:
        return self._opened.boot.incarnation

    @property
    def broker_id(self) -> int | None:
        return None if self.core is None else self.core.broker_id

    @property
    def epochs(self) -> EpochHistory:
        """None: terms stand in the entries."""
        return EpochHistory()

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where members reach each other, by member id, this one not among them."""
        own = self._config.self_id
        return {key: value for key, value in self._config.addresses.items() if key != own}

    @property
    def quorum(self) -> QuorumCore | None:
        return None if self.member is None else self.member.driver.core

    def addresses_changed(self) -> None:
        """Where a broker of the group serves is known now, or another address."""
        if self._heard is not None:
            self._heard.follows()

    def clean(self) -> bool:
        """It has everything that it acknowledged once."""
        return self._opened.folder.log.owed is None

    def followers(self) -> dict[str, tuple[int, bool]]:
        """See `QuorumCore.followers`."""
        return {} if self.quorum is None else self.quorum.followers(self._clock.now_ms())

    def ha_status(self) -> HaStatus:
        """Members that follow this leader; in sync where it knows what they hold."""
        found = []
        for peer, (match, follows) in self.followers().items():
            end = self._end_of(match)
            if follows:
                address, broker_id = self.addresses[peer], broker_id_of(peer)
                found.append(SlaveSeen(address, broker_id, end >= 0, end, end, 0))
        return HaStatus(tuple(found))

    def _end_of(self, index: int) -> int:
        """Where that entry ends; -1: it is not known which one."""
        log = self._opened.folder.log
        if index == log.last.index != NONE:
            return log.data.end_offset
        if not log.first_index <= index <= log.last.index or index == NONE:
            return -1
        record = log.index.record(index)
        return record.position + record.size

    def wanted_offset(self) -> int | None:
        """From where members that the leader hears of lack entries, or this one has made use of
        none yet.
        """
        quorum, log = self.quorum, self._opened.folder.log
        index = NONE if quorum is None else quorum.droppable(quorum.committed)
        if not 0 <= log.first_index <= index <= log.last.index:
            return self.store.log_min
        return log.index.record(index).position

    def log_trimmed(self) -> None:
        """The member reads where its log begins."""

    def note_clean(self) -> None:
        """The folder does, with what it owes."""

    def keep_held_job(self) -> None:
        """The folder keeps what its member promised."""

    # -- what only replicas of an in-sync set hear -------------------------------------------------

    def notice(self, notice: RoleNotice, *, disk_hangs: bool = False) -> None:
        """No controller has a say here."""

    def ha_address_told(self, master_address: str, ha_address: str, word: HaAddressSource) -> None:
        """There is no HA link."""


class MemberView:
    """A member as its broker knows it. An epoch is a term."""

    def __init__(self, broker_id: int, replica: MajorityReplica) -> None:
        self.broker_id = broker_id
        self._replica = replica

    @property
    def _standing(self) -> Standing:
        assert self._replica.quorum is not None
        return self._replica.quorum.standing

    @property
    def is_master(self) -> bool:
        return self._replica.leads()

    @property
    def clean(self) -> bool:
        return self._replica.clean()

    @property
    def master_epoch(self) -> int:
        return self._standing.term

    @property
    def master_id(self) -> int | None:
        leader = self._standing.leader_id
        return None if leader is None else broker_id_of(leader)

    @property
    def sync_state_set(self) -> tuple[int, ...]:
        """Who follows this leader now, itself among them."""
        if not self.is_master:
            return ()
        follow = [broker_id_of(key) for key, (_, yes) in self._replica.followers().items() if yes]
        return tuple(sorted((self.broker_id, *follow)))

    @property
    def acknowledging_members(self) -> tuple[int, ...]:
        """Who is told what of a table: those that follow, and whose brokers are known."""
        known = self._replica.address_of
        return tuple(
            broker_id_of(key)
            for key, (_, follows) in self._replica.followers().items()
            if follows and known(key)
        )

    @property
    def set_epoch(self) -> int:
        return self.master_epoch

    @property
    def confirm_offset(self) -> int:
        return self._replica.store.entries.committed_offset

    def joins_with_tables(self, has_tables: Callable[[int], bool]) -> None:
        """Who is in a majority is no decision."""


class _Appends:
    """`Leading`'s member."""

    def __init__(self, member: MemberProcess) -> None:
        self._driver = member.driver

    @property
    def core(self) -> QuorumCore:
        return self._driver.core

    def append(self, proposal: Proposal, entries: Sequence[NewEntry]) -> None:
        self._driver.append_now(proposal, entries)

    def storage_failed(self, reason: str) -> None:
        self._driver.storage_failed(reason)


class _Heard(MemberListener):
    """What a member does, as its broker's hooks hear it."""

    def __init__(self, replica: MajorityReplica, hooks: ReplicaHooks) -> None:
        self.leading: Leading | None = None
        self._replica, self._hooks = replica, hooks
        self._teller = BrokerTeller(hooks, lambda token, result: None)
        self._told: RoleChanged | None = None
        self._limit = Limited(replica.now_ms())

    async def end(self) -> None:
        """Who waits is answered, and nobody hears of roles any more."""
        if self.leading is not None:
            self.leading.role_changed()
        await self._teller.stop()

    def role_changed(self, standing: Standing) -> None:
        if self.leading is not None:
            self.leading.role_changed()
        _log.info(
            "%s of term %d, led by %s", standing.role.value, standing.term, standing.leader_id
        )
        self._replica.role_heard(standing)
        self.follows()

    def follows(self) -> None:
        """A slave, of whoever leads: of nobody while that is not known, or not ready yet."""
        quorum, core = self._replica.quorum, self._replica.core
        if quorum is None or core is None or quorum.ready:
            return
        standing = quorum.standing
        address = None
        if standing.role is Role.FOLLOWER and standing.leader_id is not None:
            address = self._replica.address_of(standing.leader_id)
        leader_id = None if address is None else core.master_id
        self._tell(RoleChanged("SLAVE", standing.term, leader_id, address, (), standing.term))

    def leader_ready(self, term: int) -> None:
        core, address = self._replica.core, self._replica._broker_address
        assert core is not None
        members = core.sync_state_set
        self._tell(RoleChanged("MASTER", term, core.broker_id, address, members, term))

    def _tell(self, change: RoleChanged) -> None:
        if change != self._told:
            self._told = change
            self._teller.role_changed(change)

    def committed(self, index: int) -> None:
        offset = self._replica.store.entries.committed_offset
        self._hooks.on_confirm(offset)
        if self.leading is not None:
            self.leading.committed(offset)

    def ticked(self) -> None:
        if self.leading is not None:
            self.leading.tick()

    def reported(self, kind: str, fields: Mapping[str, object]) -> None:
        _log.info("%s %s", kind, dict(fields))

    def happened(self, kind: str, fields: Mapping[str, object]) -> None:
        if self._limit.lets_through(self._replica.now_ms()):
            self._hooks.report(kind, fields)
        else:
            self._hooks.leave_out(kind)

    def left(self, reason: str) -> None:
        _log.error("this member has left its group: %s", reason)
        self._replica.left(reason)


def _refuse_other_kind(root: Path) -> None:
    """A set replicates in one way (D10); the log itself is looked for by the store."""
    found = next((name for name in OF_THE_OTHER_KIND if (root / name).exists()), None)
    if found is not None:
        raise LogError(
            f"{root} is the folder of a replica of an in-sync set ({found} is there): a set "
            "replicates in one way, so start this member of a majority group with an empty folder"
        )
