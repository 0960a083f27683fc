"""The replica of this process, from before it has an id until it stops.

Responsible for: opening the store and the epoch history, judging the last run, making core and
driver once the id is known, and answers about the replica that hold before and after. Refuses to
know: clients, controllers, name servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from brokers.clock import Clock
from brokers.ha.epoch_file import EpochFile
from brokers.ha.epochs import EpochHistory
from brokers.ha.transport import HaTransport, LinkOwner, Resolve, host_and_port
from brokers.membership.controller_messages import LogPosition
from brokers.process.config import BrokerConfig
from brokers.process.fixed_core import make_fixed_core
from brokers.process.held_position import Held, HeldPosition
from brokers.process.refused_ends import keep_refused
from brokers.remoting.addresses import split_address
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.core_port import Core
from brokers.replica.driver import ReplicaDriver
from brokers.replica.fixed.core import FixedCore
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus
from brokers.replica.hooks import ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.replica.waiters import Confirmation
from brokers.store.files.disk_space import Spare
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log import segments
from brokers.store.log.group_commit import Flushed, GroupCommit
from brokers.store.log.scan import LogWalk, end_of_valid_log
from brokers.store.recovery.boot import Boot, BootMarker
from brokers.store.recovery.checkpoint import CHECKPOINT_NAME, read_checkpoint
from brokers.store.store import MessageStore

# An event is not worth more reading than this.
LOOKED_BACK_BYTES = 4 * 1024 * 1024

_log = logging.getLogger("regent.broker.replica")


class LocalReplica:
    """Opens and recovers in the constructor. LogError, EpochFileError: one line with the way out,
    nothing stays open. `boot_id`: of the machine, None: as it says; `transport`: of HA links.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        *,
        boot_id: str | None = None,
        transport: Callable[[LinkOwner, Resolve], HaTransport] = HaTransport,
    ) -> None:
        self._clock, self._transport = clock or Clock(), transport
        store_dir = config.store_dir
        store_dir.mkdir(parents=True, exist_ok=True)
        log_folder = store_dir / "commitlog"
        has_data = log_folder.is_dir() and any(log_folder.iterdir())
        self._config = config
        self._marker = BootMarker(store_dir)
        self.boot = self._marker.examine(has_data, boot_id)
        self._held = HeldPosition(store_dir)
        by_another = read_checkpoint(store_dir / CHECKPOINT_NAME).flushed_offset is None
        self.loss: dict[str, object] | None = None
        self.store = MessageStore(store_dir, config.sizes, same_boot=self.boot.same_boot)
        try:
            self._epoch_file = _EpochFile(store_dir / "epochFileCheckpoint")
            self._epoch_file.spare = self.store.spare
            self._epochs, self._epoch_seen = self._epoch_file.load()
            self.boot = self._judged_by_content(self.boot)
            self._judge_by_held(by_another)
            if not self.boot.clean:
                self.boot = replace(self.boot, trusted_end=self._trusted_end(self.boot.trusted_end))
            self.store.spare.run(lambda: self._marker.begin(self.boot))
            self._begin_held()
            self.store.spare.refill()
        except BaseException:
            self.store.close(clean=False)
            raise
        self.store.records.next_file.ahead = True
        self.driver: ReplicaDriver | None = None
        self._failed: asyncio.Future[None] | None = None
        self._group_commit: GroupCommit | None = None
        self._not_followed: object = ""
        report = self.store.recovery
        _log.info(
            "store recovered: end %d, confirm %d, cut %d bytes; the start is %s (%s)",
            report.end_offset,
            report.confirm_offset,
            report.cut_bytes,
            "clean" if self.boot.clean else "unclean",
            self.boot.reason,
        )

    def _judged_by_content(self, boot: Boot) -> Boot:
        """An orderly last run says nothing about files that were damaged or removed since."""
        if boot.clean and self.store.recovery.missing_bytes:
            return replace(boot, clean=False, reason="log_is_short")
        if (
            boot.clean
            and boot.log_end is not None
            and self.store.recovery.end_offset > boot.log_end
        ):
            # which process did so, and how it ended, is not recorded
            return replace(boot, clean=False, reason="log_was_changed")
        if boot.clean and self._epoch_file.from_backup:
            return replace(boot, clean=False, reason="epochs_from_backup")
        return boot

    def _judge_by_held(self, by_another: bool) -> None:
        """What this id held before binds it (S15). `by_another`: a Java broker used the folder
        since, and may have cut the log.
        """
        held, end = self._held.held, self.store.log_end
        if held is None or by_another:
            return
        last = self._epochs.find(held.offset - 1) if 0 < held.offset <= end else None
        reason = "log_went_back" if held.offset > end else ""
        if (
            not reason
            and held.epoch >= 0
            and held.offset > 0
            and (last is None or last.epoch < held.epoch)
        ):
            reason = "epochs_went_back"
        if not reason:
            return
        self.loss = {
            "claimed_epoch": self._epochs.newest_epoch,
            "claimed_offset": end,
            "acknowledged_offset": held.offset,
            "why": reason,
        }
        _log.error(
            "the store went back: the log ends at %d, %d was held in epoch %d (%s)",
            end,
            held.offset,
            held.epoch,
            reason,
        )
        if self.boot.clean:
            self.boot = replace(self.boot, clean=False, reason=reason)

    def _begin_held(self) -> None:
        """Lost bytes are not held any more: the loss was reported, and the log goes on without
        them. From here on a cut lowers the position first.
        """
        held = self._held.held
        if held is not None and held.offset > self.store.log_end:
            self.store.spare.run(lambda: self._held.keep(Held(-1, self.store.log_end)))
        self.store.before_cut = self._held.cut

    def keep_held_job(self) -> Callable[[], None] | None:
        """What notes how far the log was durable and confirmed, to be called on any thread; None
        when it is not due.
        """
        return self._held.keep_job(self._held_now(), self._clock.now_ms())

    def _held_now(self) -> Held:
        offset = min(self.store.durable_offset, self.store.log_end)
        last = self.epochs.find(offset - 1) if offset else None
        return Held(-1 if last is None else last.epoch, offset)

    def _trusted_end(self, known: int | None) -> int:
        """Record border above which bytes may be torn: what was durable, and what an earlier
        unclean start could trust (bytes flushed since then are no better for it).
        """
        durable = self.store.recovery.durable_end
        limit = durable if known is None else min(known, durable)
        file_bytes = self._config.commit_log_file_bytes
        start = max(segments.file_start(limit, file_bytes), self.store.log_min)
        return (
            end_of_valid_log(self.store.read_log, start, limit, file_bytes)[0]
            if start < limit
            else limit
        )

    def make(self, broker_id: int) -> Core:
        """The core for this id: FENCED until the controller has spoken, or until its first tick
        where the configuration says its role. Call `run` with it next.
        """
        config, store = self._config, self.store
        if config.broker_id is not None:
            return make_fixed_core(config, self.boot, store)
        settings = ReplicaConfig(
            file_bytes=config.commit_log_file_bytes,
            ack_wait_shrink_ms=config.ack_wait_shrink_ms,
            relink_grace_ms=config.relink_grace_ms,
            ha_heartbeat_ms=config.ha_heartbeat_ms,
            ha_flow_bytes_per_s=config.ha_transfer_bytes_per_s if config.ha_flow_control else None,
            min_in_sync_replicas=config.min_in_sync_replicas,
            all_ack=config.all_ack,
            in_sync_replicas=config.in_sync_replicas,
            auto_in_sync_replicas=config.auto_in_sync_replicas,
            async_learner=config.async_learner,
            sync_from_last_file=config.sync_from_last_file,
        )
        for warning in settings.warnings():
            _log.warning("%s", warning)
        return ReplicaCore(
            settings,
            broker_id=broker_id,
            incarnation=self.boot.incarnation,
            clean=self.boot.clean,
            trusted_end=self.boot.trusted_end,
            epochs=self._epochs,
            epoch_seen=self._epoch_seen,
            log_end=store.log_end,
            log_min=store.log_min,
            confirm_offset=store.confirm_offset,
            none_of_seen=self._epoch_file.none_of_seen,
        )

    def begin(self, broker_id: int, hooks: ReplicaHooks, attach: Callable[[Core], None]) -> Core:
        """`make` and `run`; between them `attach`."""
        core = self.make(broker_id)
        attach(core)
        self.run(core, hooks)
        return core

    def run(self, core: Core, hooks: ReplicaHooks) -> str:
        """Listen for HA links and begin to tick; the address bound. OSError when it is taken."""
        told = partial(self._report, hooks.report)
        hooks = replace(
            hooks,
            on_storage_failed=self._disk_failed,
            on_broken=self._end_with,
            report=told,
            flush_soon=self._flush_soon,
            keep_refused=lambda ends: keep_refused(self.store.root, ends),
        )
        flush = self._flush if self._config.flush_disk == "sync" else None
        self.driver = ReplicaDriver(
            core,
            self.store,
            self._epoch_file,
            hooks,
            clock_ms=self._clock.now_ms,
            flush=flush,
            transport=self._transport,
        )
        host, port = split_address(self._config.ha_listen)
        bound = self.driver.listen(host, port)
        self.driver.start()
        return host_and_port(host, bound)

    async def stop(self) -> None:
        """No role and no links any more. Harmless before it ran."""
        if self.driver is not None:
            await self.driver.stop()

    def report_start(self, report: Callable[[str, Mapping[str, object]], None]) -> None:
        """What the start found, once there is an id to say it of."""
        found, core = self.store.recovery, self.core
        assert core is not None
        recovered = {
            "end_offset": found.end_offset,
            "cut_bytes": found.cut_bytes,
            "abnormal": found.abnormal,
        }
        started = {
            "clean": core.clean,
            "recovered_end_offset": found.end_offset,
            "cut_bytes": found.cut_bytes,
        }
        report("StoreRecovered", recovered)
        report("BrokerStarted", started)
        if self.loss is not None:
            report("LossNoticed", {"lost_broker_id": core.broker_id, **self.loss})

    def _report(
        self,
        report: Callable[[str, Mapping[str, object]], None],
        kind: str,
        fields: Mapping[str, object],
    ) -> None:
        """The core knows no store times, and nobody who reads what this process logs."""
        if kind == "LossNoticed":
            _log.error(
                "broker %s lost data: its log ends at %s, it had acknowledged %s (%s)",
                fields["lost_broker_id"],
                fields["claimed_offset"],
                fields["acknowledged_offset"],
                fields["why"],
            )
        if kind == "HandshakeResult" and fields["reason"] != self._not_followed:
            self._not_followed = fields["reason"]
            if self._not_followed:  # once for each reason
                _log.error("the master is not followed: %s", self._not_followed)
        if kind == "EpochAppended":
            fields = {
                **fields,
                "last_store_ms": self._last_store_ms(int(str(fields["start_offset"]))),
            }
        report(kind, fields)

    def _last_store_ms(self, below: int) -> int:
        """Store time of the last message below an offset near the log's end; -1 when it is not
        known without much reading.
        """
        store, newest = self.store, self.store.dispatcher.last_store_ms or -1
        start = store.dispatched_offset
        if not 0 <= below - start <= LOOKED_BACK_BYTES:
            return -1
        for record in LogWalk(
            store.read_log, start, below, self._config.commit_log_file_bytes, check_body=False
        ):
            newest = record.store_ms
        return newest

    # -- what holds before and after the id is known -----------------------------------------------

    @property
    def incarnation(self) -> str:
        return self.boot.incarnation

    @property
    def core(self) -> Core | None:
        return self.driver.core if self.driver else None

    @property
    def broker_id(self) -> int | None:
        return self.core.broker_id if self.core else None

    @property
    def epochs(self) -> EpochHistory:
        return self.driver.core.epochs if self.driver else self._epochs

    def ha_status(self) -> HaStatus:
        return self.driver.ha_status() if self.driver else HaStatus()

    def position(self) -> LogPosition:
        core = self.core
        if core is None:
            return LogPosition(
                self._epochs.newest_epoch,
                self.store.log_end,
                self.store.confirm_offset,
                self._epoch_seen,
            )
        set_epoch = core.set_epoch if core.is_master else -1
        # Acknowledgements end within records. An acknowledged position binds the next start (S15),
        # and a start cuts a record which came in part.
        confirmed = min(core.confirm_offset, self.store.dispatched_offset)
        return LogPosition(
            core.epochs.newest_epoch, core.log_end, confirmed, core.epoch_seen, set_epoch
        )

    def clean(self) -> bool:
        return self.driver.core.clean if self.driver else self.boot.clean

    def notice(self, notice: RoleNotice, *, disk_hangs: bool = False) -> None:
        if self.driver is not None:
            self.driver.notice(notice, disk_hangs=disk_hangs)

    def ha_address_told(self, master_address: str, ha_address: str, word: HaAddressSource) -> None:
        if self.driver is not None:
            self.driver.ha_address_told(master_address, ha_address, word)

    def follow(self, master_address: str, ha_address: str | None) -> None:
        """A slave of a set without controllers goes with this master from now on."""
        if self.driver is not None and isinstance(self.core, FixedCore):
            self.driver.step(self.core.follow, master_address, ha_address)

    def part(self, master_address: str) -> None:
        """Its master is gone: no link before `follow`."""
        if self.driver is not None and isinstance(self.core, FixedCore):
            self.driver.step(self.core.part, master_address)

    def alive_members(self, count: int | None) -> None:
        """How many of a set without controllers are registered; None: nobody says."""
        if isinstance(self.core, FixedCore):
            self.core.alive_members(count)

    def leads(self) -> bool:
        return self.driver is not None and self.driver.core.is_master

    def write_refusal(self) -> str | None:
        return self.driver.write_refusal() if self.driver else "this broker has no identity yet"

    def log_grew(self, end_offset: int) -> None:
        assert self.driver is not None
        self.driver.log_grew(end_offset)

    def confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Confirmation]:
        assert self.driver is not None
        return self.driver.confirmation(end_offset, timeout_ms)

    def wanted_offset(self) -> int | None:
        """From where linked slaves still copy, None without any."""
        slaves = self.ha_status().slaves
        return min(
            (slave.acked if slave.acked > 0 else self.store.log_min for slave in slaves),
            default=None,
        )

    def log_trimmed(self) -> None:
        """Old files are gone."""
        if self.driver is not None:
            self.driver.log_trimmed()

    def flushed(self, end_offset: int) -> asyncio.Future[Flushed]:
        """Returns when everything below `end_offset`, which is written, is on this disk: one flush
        for all waiters.
        """
        if self._group_commit is None:
            self._group_commit = GroupCommit(self.store.flush, self.storage_failed)
        return self._group_commit.request(end_offset, self._config.sync_flush_timeout_ms)

    def _flush(self, end_offset: int, told: Callable[[bool], None]) -> None:
        done = self.flushed(end_offset)
        done.add_done_callback(
            lambda _: told(not done.cancelled() and done.result() is Flushed.DURABLE)
        )

    def _flush_soon(self) -> None:
        if self.store.records.flushed_offset < self.store.log_end:
            self.flushed(self.store.log_end)

    def storage_failed(self, reason: str) -> None:
        """The disk refused: the next start is unclean, and this replica promises nothing more."""
        self._disk_failed(reason)
        if self.driver is not None:
            self.driver.storage_failed(reason)

    def _disk_failed(self, reason: str) -> None:
        self._marker.io_error()
        self._end_with(
            LogError(f"the disk failed: {reason}; the broker must start anew and counts as unclean")
        )

    def _end_with(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def failed(self) -> asyncio.Future[None]:
        """Raises once the replica cannot go on, LogError when the disk refused. The process has to
        end then: a recorded master whose process lives keeps its place, and only an unclean start
        takes a replica out of the set (S5).
        """
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

    def note_clean(self) -> None:
        """Keep on disk that an earlier loss was made good, once it was."""
        if self.clean():
            self._marker.caught_up()

    def close(self) -> None:
        """Flush and mark the run as ended; without the mark when the disk refuses."""
        log_end = self.store.log_end
        if self._group_commit is not None:
            self._group_commit.close()
        try:
            self.store.close()
        except DiskFull as error:  # the log is on disk; the run only looks like a killed one
            _log.error("the end of this run cannot be noted: %s", error)
            return
        except (LogError, OSError) as error:
            _log.error("the store cannot be closed cleanly: %s", error)
            self._marker.io_error()
            return
        disk_failed = (
            self._failed is not None and self._failed.done() and not self._failed.cancelled()
        )
        if self.store.io_error is None and not disk_failed:
            self._note_flushed_exit(log_end)

    def _note_flushed_exit(self, log_end: int) -> None:
        try:
            self.store.spare.run(lambda: self._held.keep(self._held_now()))
            self.store.spare.run(lambda: self._marker.flushed_exit(log_end))
        except OSError as error:  # the run only looks like a killed one
            _log.error("the end of this run cannot be noted: %s", error)


class _EpochFile(EpochFile):
    """Finds room on a full disk too: a mastership begins with its entry."""

    spare: Spare

    def save(self, history: EpochHistory, highest_seen: int, none_of_seen: bool = False) -> None:
        self.spare.run(lambda: super(_EpochFile, self).save(history, highest_seen, none_of_seen))
