"""What a local cluster consists of: its processes, their addresses and their configuration, as
data.

Refuses to know how a process is started and whether it runs. The configuration's meaning is the
packages' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.cluster.options import ACTING_REPLICAS_MIN, REPLICAS_MAX, ClusterOptions
from infra.cluster.placement import place_of
from infra.problems import EXIT_USAGE, Problem
from infra.processes.ports import pick_block

BROKER_SET = "broker-a"
ACTING_SETS = (BROKER_SET, "broker-b")
"""What is due leaves a set without a master through another one, so there are two."""
MASTER_ID = 0
CLUSTER_NAME = "regent"
OWN_DISK = {
    "disk_max_used_percent": 100,
    "disk_clean_forcibly_percent": 100,
    "disk_full_percent": 100,
}
"""One's own machine may be fuller than a broker's disk should be, and by other things than
messages.
"""
# RocketMQ allots 1 GiB at once; on a laptop small files show rolling and recovery, and cost nothing
COMMIT_LOG_FILE_BYTES = 16 * 1024 * 1024
CONSUME_QUEUE_FILE_ENTRIES = 30_000
PORTS_PER_BROKER = 4
MAJORITY_TIMES = {
    "majority_heartbeat_ms": 300,
    "majority_heartbeats_missed_max": 4,
    "majority_vote_pause_min_ms": 50,
    "majority_vote_pause_max_ms": 300,
}
"""DLedger's are 2 s, 3, and 0.3 to 1 s: six seconds and more without a leader that was killed."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process: `kind` is the verb of the command line that runs it, `config` what its file
    holds.

    `address` answers REGENT_PROCESS_STATUS (None for Kafka and the landing job); `listens` must be
    free at start; `prefix` stands before the command that starts it.
    """

    name: str
    kind: str
    config: dict[str, Any]
    listens: tuple[str, ...]
    address: str | None = None
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All processes in the order of their start, and what clients need to know."""

    processes: tuple[ProcessSpec, ...]
    kafka: dict[str, str]
    controllers: tuple[str, ...]
    name_servers: tuple[str, ...]
    base_port: int

    def of_kind(self, kind: str) -> tuple[ProcessSpec, ...]:
        return tuple(spec for spec in self.processes if spec.kind == kind)

    def start_groups(self, kind: str) -> list[tuple[ProcessSpec, ...]]:
        """Those that may start beside one another, in order. Brokers of controllers one by one, so
        that ids follow names; where nobody elects, masters first: a slave that comes before its
        master acts; members of a majority group together, for none serves alone.
        """
        specs = self.of_kind(kind)
        if kind != "broker" or all(is_of_majority(spec) for spec in specs):
            return [specs]
        if not all(is_fixed(spec) for spec in specs):
            return [(spec,) for spec in specs]
        masters = tuple(spec for spec in specs if spec.config["broker_id"] == MASTER_ID)
        return [masters, tuple(spec for spec in specs if spec not in masters)]


def is_fixed(spec: ProcessSpec) -> bool:
    """A broker whose configuration says who it is."""
    return "broker_id" in spec.config


def is_of_majority(spec: ProcessSpec) -> bool:
    """A broker that is a member of a majority group."""
    return "majority_self_id" in spec.config


@dataclass(slots=True)
class _Ports:
    """Hands out ports in a row from one block, so that a cluster's addresses are easy to
    remember.
    """

    host: str
    advertise_host: str
    next_port: int
    places: Mapping[str, Mapping[str, Any]]

    def take(self, kind: str, name: str) -> tuple[str, str]:
        """To bind, and to tell others, for that process."""
        port, self.next_port = self.next_port, self.next_port + 1
        host = place_of(self.places, kind, name).host
        return f"{host or self.host}:{port}", f"{host or self.advertise_host}:{port}"


def ports_needed(options: ClusterOptions) -> int:
    """Name server, controllers, Kafka, brokers including the ones that may be added later, and HTTP
    of controllers and landing job.
    """
    return _ports_before_http(options) + options.controllers + 1


def _ports_before_http(options: ClusterOptions) -> int:
    brokers = len(ACTING_SETS) * options.replicas if options.acts else REPLICAS_MAX
    return 1 + options.controllers + 2 * options.kafka_nodes + PORTS_PER_BROKER * brokers


def make_plan(
    folder: DataFolder, cluster_id: str, options: ClusterOptions, java_home: Path, jars: Path
) -> ClusterPlan:
    """The whole cluster. With base_port 0 a free block is picked."""
    options.check()
    first = options.base_port or pick_block(ports_needed(options), options.host)
    ports = _ports_from(first, options)
    name_server = _name_server(folder, ports)
    names = [f"controller-{i}" for i in range(1, options.controllers + 1)]
    controllers = [ports.take("controller", name) for name in names]
    http_ports = _ports_from(first + _ports_before_http(options), options)
    http = [http_ports.take("controller", name) for name in names]
    kafka_specs = [] if options.kafka else _kafka(folder, cluster_id, options, ports)
    kafka = dict(options.kafka) or (
        {"bootstrap.servers": ",".join(s.config["advertise"] for s in kafka_specs)}
        if kafka_specs
        else {}
    )
    advertised = tuple(advertise for _, advertise in controllers)
    if not options.controllers and kafka:
        # why a master left, and who was shown in its place, only name servers see
        name_server.config["kafka"] = kafka
    plan = [
        *kafka_specs,
        *_controllers(folder, cluster_id, options, names, controllers, http, kafka),
        name_server,
    ]
    if options.land:
        plan.append(
            _land(
                folder,
                cluster_id,
                kafka,
                java_home,
                jars,
                http_ports.take("land", "land")[0],
                without_controllers=not options.controllers,
            )
        )
    name_servers = (name_server.config["listen"],)
    if options.by_majority:
        plan += _majority_set(folder, options, ports, name_servers, kafka)
    elif options.acts:
        plan += _acting_sets(folder, options, ports, name_servers, kafka)
    else:
        plan += [
            _broker(folder, number, ports, advertised, name_servers, kafka, options.min_in_sync)
            for number in range(1, options.replicas + 1)
        ]
    return ClusterPlan(
        tuple(_placed(spec, options) for spec in plan),
        kafka,
        advertised,
        (f"{ports.advertise_host}:{first}",),
        first,
    )


def broker_spec(
    folder: DataFolder, options: ClusterOptions, plan: ClusterPlan, number: int
) -> ProcessSpec:
    """One more broker of the set, for a running cluster. Its ports were set aside by the plan."""
    if options.by_majority:
        raise Problem(
            "the members of a majority group never change",
            "Start another cluster with more of them: 'regent up --replication majority "
            "--replicas 5'.",
            EXIT_USAGE,
        )
    if options.acts:
        raise Problem(
            "a set without controllers has the replicas that its brokers were told",
            "Start another cluster with more of them: 'regent up --mode acting --replicas N'.",
            EXIT_USAGE,
        )
    if not 1 <= number <= REPLICAS_MAX:
        raise Problem(
            f"no place for replica {number}", f"A local set has at most {REPLICAS_MAX}.", EXIT_USAGE
        )
    kafka_ports = 0 if options.kafka else 2 * options.kafka_nodes
    first = plan.base_port + 1 + options.controllers + kafka_ports + PORTS_PER_BROKER * (number - 1)
    return _placed(
        _broker(
            folder,
            number,
            _ports_from(first, options),
            plan.controllers,
            plan.name_servers,
            plan.kafka,
            options.min_in_sync,
        ),
        options,
    )


def _ports_from(first: int, options: ClusterOptions) -> _Ports:
    return _Ports(options.host, options.advertise_host or options.host, first, options.places)


def _placed(spec: ProcessSpec, options: ClusterOptions) -> ProcessSpec:
    place = place_of(options.places, spec.kind, spec.name)
    return replace(spec, config={**spec.config, **place.config}, prefix=place.prefix)


def _name_server(folder: DataFolder, ports: _Ports) -> ProcessSpec:
    listen, _ = ports.take("namesrv", "namesrv-1")
    config = {"listen": listen, "data_dir": str(folder.data_of("namesrv-1"))}
    return ProcessSpec("namesrv-1", "namesrv", config, (listen,), listen)


def _kafka(
    folder: DataFolder, cluster_id: str, options: ClusterOptions, ports: _Ports
) -> list[ProcessSpec]:
    names = [f"kafka-{i}" for i in range(1, options.kafka_nodes + 1)]
    taken = [(ports.take("kafka", name), ports.take("kafka", name)) for name in names]
    voters = {str(i): quorum[0] for i, (_, quorum) in enumerate(taken, start=1)}
    return [
        ProcessSpec(
            f"kafka-{i}",
            "kafka",
            {
                "node_id": i,
                "cluster": cluster_id,
                "listen": serve[0],
                "advertise": serve[1],
                "quorum": quorum[0],
                "data_dir": str(folder.data_of(f"kafka-{i}")),
                "log_file": str(folder.log_of(f"kafka-{i}")),
                "voters": voters,
            },
            (serve[0], quorum[0]),
        )
        for i, (serve, quorum) in enumerate(taken, start=1)
    ]


def _controllers(
    folder: DataFolder,
    cluster_id: str,
    options: ClusterOptions,
    names: list[str],
    addresses: list[tuple[str, str]],
    http: list[tuple[str, str]],
    kafka: dict[str, str],
) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            name,
            "controller",
            {
                "controller_id": name,
                "listen": listen,
                "advertise": advertise,
                "data_dir": str(folder.data_of(name)),
                "cluster_id": cluster_id,
                "local_cluster": not options.kafka and options.kafka_nodes == 1,
                "http_listen": http_listen,
                "http_advertise": http_advertise,
                "tables": str(folder.tables) if options.land else "",
                "peers": {n: a[1] for n, a in zip(names, addresses, strict=True) if n != name},
                "peers_http": {n: a[1] for n, a in zip(names, http, strict=True) if n != name},
                "kafka": kafka,
            },
            (listen, http_listen),
            listen,
        )
        for name, (listen, advertise), (http_listen, http_advertise) in zip(
            names, addresses, http, strict=True
        )
    ]


def _land(
    folder: DataFolder,
    cluster_id: str,
    kafka: dict[str, str],
    java_home: Path,
    jars: Path,
    metrics: str,
    *,
    without_controllers: bool,
) -> ProcessSpec:
    config = {
        "cluster_id": cluster_id,
        "without_controllers": without_controllers,
        "tables": str(folder.tables),
        "checkpoint_dir": str(folder.landing / "checkpoints"),
        "work_dir": str(folder.landing),
        "jars_dir": str(jars),
        "java_home": str(java_home),
        "kafka": kafka,
        "anchors_file": str(folder.anchors),
        "metrics_listen": metrics,
    }
    return ProcessSpec("land", "land", config, (metrics,))


def _acting_sets(
    folder: DataFolder,
    options: ClusterOptions,
    ports: _Ports,
    name_servers: tuple[str, ...],
    kafka: dict[str, str],
) -> list[ProcessSpec]:
    """Two sets of a fixed master (id 0) and its slaves, as RocketMQ's clusters without a controller
    are set up for slaves that act (OPERATING.md).
    """
    every = {
        "in_sync_replicas": options.min_in_sync,
        "total_replicas": options.replicas,
        "enable_slave_acting_master": True,
        "enable_remote_escape": True,
        "slave_read_enable": True,
        # by a majority, which two replicas have only while both live
        "lock_in_strict_mode": options.replicas > ACTING_REPLICAS_MIN,
        "compatible_with_old_name_servers": False,
    }
    return [
        _broker_process(
            folder,
            f"{name}-{broker_id}",
            name,
            ports,
            name_servers,
            kafka,
            {"broker_id": broker_id, **every},
        )
        for name in ACTING_SETS
        for broker_id in range(options.replicas)
    ]


def _majority_set(
    folder: DataFolder,
    options: ClusterOptions,
    ports: _Ports,
    name_servers: tuple[str, ...],
    kafka: dict[str, str],
) -> list[ProcessSpec]:
    """One set whose members elect their leader. Broker ids follow names: that of member n0 is 1."""
    names = [f"{BROKER_SET}-{number}" for number in range(1, options.replicas + 1)]
    members = {}
    for number, name in enumerate(names):
        # the last port of each broker, which no other kind needs
        at = ports.next_port + PORTS_PER_BROKER * (number + 1) - 1
        members[name] = replace(ports, next_port=at).take("broker", name)
    peers = ";".join(f"n{at}-{told}" for at, (_, told) in enumerate(members.values()))
    group = {"replication": "majority", "majority_peers": peers, **MAJORITY_TIMES}
    return [
        _broker_process(
            folder,
            name,
            BROKER_SET,
            ports,
            name_servers,
            kafka,
            {**group, "majority_self_id": f"n{number}", "majority_listen": members[name][0]},
        )
        for number, name in enumerate(names)
    ]


def _broker(
    folder: DataFolder,
    number: int,
    ports: _Ports,
    controllers: tuple[str, ...],
    name_servers: tuple[str, ...],
    kafka: dict[str, str],
    min_in_sync: int,
) -> ProcessSpec:
    name = f"{BROKER_SET}-{number}"
    own = {"controllers": list(controllers), "min_in_sync_replicas": min_in_sync, "all_ack": True}
    return _broker_process(folder, name, BROKER_SET, ports, name_servers, kafka, own)


def _broker_process(
    folder: DataFolder,
    name: str,
    broker_set: str,
    ports: _Ports,
    name_servers: tuple[str, ...],
    kafka: dict[str, str],
    own: dict[str, Any],
) -> ProcessSpec:
    """`own`: how it comes by its role, and what it promises."""
    # Java slaves ask for topics two ports below the one that is advertised
    second, _ = ports.take("broker", name)
    ha_listen, ha_advertise = ports.take("broker", name)
    listen, advertise = ports.take("broker", name)
    of_member, _ = ports.take("broker", name)
    config = {
        "cluster_name": CLUSTER_NAME,
        "broker_name": broker_set,
        "listen": listen,
        "advertise": advertise,
        "ha_listen": ha_listen,
        "ha_advertise": ha_advertise,
        "store_dir": str(folder.data_of(name)),
        "name_servers": list(name_servers),
        "commit_log_file_bytes": COMMIT_LOG_FILE_BYTES,
        "consume_queue_file_entries": CONSUME_QUEUE_FILE_ENTRIES,
        "recall_message_enable": True,
        "kafka": kafka or None,
        **own,
        **OWN_DISK,
    }
    more = (of_member,) if own.get("majority_self_id") else ()
    return ProcessSpec(name, "broker", config, (listen, ha_listen, second, *more), listen)
