"""How the set of a broker replicates, and who gives a broker its place in it: controllers, its
configuration, or a majority; and how it changes from one of the first two to the other.

Refuses to know: what either does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.acting.messages import MASTER_ID, HaInfo, Place
from brokers.changeover.giving_up import Quiet
from brokers.changeover.order import Kind
from brokers.clock import Clock
from brokers.membership.controller_messages import Introduction
from brokers.membership.fixed_membership import FixedHooks, FixedMembership, FixedPlace
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.membership import Membership, MembershipHooks, MembershipTimers
from brokers.membership.namesrv_client import NameServers
from brokers.membership.place import PlaceInSet
from brokers.process.acting.calls import ActingCalls
from brokers.process.acting.tables import OwnTables
from brokers.process.changeover.change_over import ChangeOver, Here
from brokers.process.changeover.folder import lines_of, read_cut_off, read_record, remove_cut_off
from brokers.process.changeover.take_over import Around, Begun, TakeOver
from brokers.process.config import BrokerConfig
from brokers.process.majority.place import MajorityPlace
from brokers.process.majority.replica import MajorityReplica
from brokers.process.opening import port_refused
from brokers.process.replica import LocalReplica
from brokers.process.role_switch import RoleSwitch
from brokers.remoting.addresses import host_of, is_loopback
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.replica.replica_port import Replica
from brokers.replica.roles import RoleNotice
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles


def open_replica(config: BrokerConfig, clock: Clock | None = None) -> Replica:
    """The replica that the configuration says. LogError, EpochFileError, OSError; a folder of the
    other kind is refused.
    """
    if not config.by_majority:
        return LocalReplica(config, clock)
    where = config.store_dir, config.sizes, config.advertised
    return MajorityReplica(config.member, *where, clock)


def make_membership(
    config: BrokerConfig,
    replica: Replica,
    client: RemotingClient,
    clock: Clock,
    report: Callable[[str, Mapping[str, object]], None],
    on_identity: Callable[[int], None],
    on_notice: Callable[[RoleNotice], None],
    on_master: Callable[[str], None],
) -> PlaceInSet:
    """For `on_identity`, `on_notice`, `report` see MembershipHooks, for `on_master` FixedHooks."""
    if isinstance(replica, MajorityReplica):
        return _in_majority(config, replica, on_identity)
    assert isinstance(replica, LocalReplica)
    if config.broker_id is not None:
        place = FixedPlace(
            config.cluster_name,
            config.broker_name,
            config.broker_id,
            config.advertised,
            config.name_servers,
            None if config.enable_slave_acting_master else config.replica_poll_ms,
        )
        return FixedMembership(
            place, client, FixedHooks(on_identity, replica.alive_members, on_master)
        )
    me = Introduction(
        config.cluster_name,
        config.broker_name,
        config.advertised,
        config.ha_advertised,
        replica.boot.incarnation,
        config.min_in_sync_replicas if config.all_ack else 1,
    )
    timers = MembershipTimers(
        config.heartbeat_interval_ms,
        config.controller_heartbeat_timeout_ms,
        config.replica_poll_ms,
        config.election_priority,
        asks_for_elections=not config.async_learner,
    )
    hooks = MembershipHooks(on_identity, on_notice, replica.position, replica.clean, report)
    files = IdentityFiles(config.store_dir)
    return Membership(me, config.controllers, files, timers, hooks, clock)


def _in_majority(
    config: BrokerConfig, replica: MajorityReplica, on_identity: Callable[[int], None]
) -> MajorityPlace:
    member = config.member

    async def listen() -> None:
        try:
            await replica.listen()
        except OSError as error:
            raise port_refused(member.bound, error) from error

    return MajorityPlace(
        member, replica, config.advertised, on_identity, listen, config.replica_poll_ms
    )


def no_change_over(_connection: Connection, request: RemotingCommand) -> Answer:
    """19018 at a broker whose set cannot: its log is of another kind."""
    remark = (
        "this set replicates by majority, and a set replicates in one way: it does not change over"
    )
    return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)


def make_change_over(
    config: BrokerConfig,
    file: BrokerConfig,
    replica: Replica,
    roles: RoleView,
    client: RemotingClient,
    clock: Clock,
    is_ours: Callable[[str], bool],
    unfinished: Callable[[], int],
) -> ChangeOver:
    """`file`: what the broker's own file says; `is_ours(peer)`: it speaks from another host of the
    set; `unfinished()`: requests that are not answered.
    """
    fixed = config.broker_id is not None
    here = Here(
        config.cluster_name,
        config.broker_name,
        config.advertised,
        config.store_dir,
        Kind.FIXED if fixed else Kind.CONTROLLERS,
        lambda: config.broker_id if fixed else replica.broker_id,
        config.copies_wanted if fixed or not config.all_ack else config.min_in_sync_replicas,
        config.enable_slave_acting_master,
        tuple(config.name_servers),
        lines_of(file),
        read_record(config.store_dir),
        config.total_replicas if config.enable_slave_acting_master else 0,
    )

    def quiet(others: int) -> Quiet:
        core = replica.core
        acked = [one.acked for one in replica.ha_status().slaves]
        end = replica.store.log_end
        return Quiet(end, core.confirm_offset if core else -1, acked, others, unfinished())

    def may_order(peer: str) -> bool:
        is_here = is_loopback(peer) or host_of(peer) == host_of(config.advertised)
        return is_here or is_ours(peer)

    def is_whole() -> bool:
        linked = sum(one.acked >= 0 for one in replica.ha_status().slaves)
        enough = linked >= here.copies - 1 or not fixed  # controllers count members
        return enough and replica.write_refusal() is None

    hold_ms = config.hold_without_master_ms
    return ChangeOver(here, roles, client, clock, may_order, quiet, is_whole, hold_ms)


def make_take_over(
    config: BrokerConfig,
    replica: Replica,
    change_over: ChangeOver,
    others: tuple[RemotingClient, NameServers, PlaceInSet],
    tables: TableFiles,
    switch: RoleSwitch,
    clock: Clock,
) -> TakeOver:
    """What holds the first mastership behind a changeover. Of a set with fixed ids there is none:
    its master comes back by 7.3. Nor is there of a set that replicates by majority: it has none.
    """
    client, name_servers, membership = others
    folder = config.store_dir
    controlled = config.broker_id is None and not config.by_majority
    place = Place(config.cluster_name, config.broker_name, MASTER_ID, config.advertised)

    def log() -> tuple[list[tuple[int, int]], int]:
        core = replica.core if isinstance(replica, LocalReplica) else None
        end = replica.store.log_end if core is None else core.log_end
        return [(one.epoch, one.start_offset) for one in replica.epochs.entries], end

    calls = ActingCalls(place, name_servers, client, lambda: tables.topics.version)
    own = OwnTables(tables, timers=config.timer_wheel_enable)
    around = Around(
        config.advertised,
        lambda: membership.addresses().values(),
        change_over.look_at,
        lambda address: calls.push(address, HaInfo(comes_back=True)),
        calls.tables,
        own.now,
        own.take,
        log,
        switch.is_held,
        switch.resume,
    )
    begun = Begun(
        read_record(folder) if controlled else None,
        read_cut_off(folder) if controlled else (),
        lambda: remove_cut_off(folder),
    )
    made = TakeOver(begun, around, clock)
    switch.leads_after(made, made.held)
    return made
