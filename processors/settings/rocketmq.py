"""RocketMQ's names for what is configured, in ours (RULES 11.1).

Responsible for: the table of names, and one clear error when two of them contradict each other.
Refuses to know: files, and whether the values that come out are usable (the model of the
configuration says).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from events.properties import dump
from processors.fold.rules import SETTING_PROCESS_READS
from processors.fold.state import ControllerState
from processors.settings import recorded
from processors.settings import recorded as settings_in_force

ANY_HOST = "0.0.0.0"
IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
PROM_PORT = "5557"
EXPORTERS: Mapping[str, str] = {"0": "DISABLE", "1": "OTLP_GRPC", "2": "PROM", "3": "LOG"}
JAVA_KERNELS = ("DLedger", "jRaft")
OUR_KERNEL = "Regent"
KAFKA_PREFIX = "kafka."

WITH_MEANING = frozenset(
    {
        "bindAddress",
        "configBlackList",
        "controllerDLegerGroup",
        "controllerDLegerPeers",
        "controllerDLegerSelfId",
        "controllerRequestThreadPoolQueueCapacity",
        "controllerStorePath",
        "controllerType",
        "jRaftControllerRPCAddr",
        "jRaftGroupId",
        "jRaftInitConf",
        "jRaftServerId",
        "listenPort",
        "metricsExporterType",
        "metricsLabel",
        "metricsPromExporterHost",
        "metricsPromExporterPort",
        "serverChannelMaxIdleTimeSeconds",
    }
)
WITHOUT_MEANING: Mapping[str, str] = {
    "rocketmqHome": "nothing is read from there",
    "configStorePath": "changes are recorded in the log",
    "controllerThreadPoolNums": "one loop serves all requests",
    "mappedFileSize": "Kafka keeps the log",
    "enableShutdownGracefully": "every stop is graceful",
    "shutdownWaitTimeSeconds": "every stop is bounded",
    "jraftConfig": "Kafka keeps the log",
    "jRaftElectionTimeoutMs": "leadership is claimed in the log",
    "jRaftScanWaitTimeoutMs": "a new leader always waits one heartbeat timeout",
    "jRaftSnapshotIntervalSecs": "see snapshot_every_offsets",
    "metricsGrpcExporterTarget": "metrics are served as Prometheus text",
    "metricsGrpcExporterHeader": "metrics are served as Prometheus text",
    "metricGrpcExporterTimeOutInMills": "metrics are served as Prometheus text",
    "metricGrpcExporterIntervalInMills": "metrics are served as Prometheus text",
    "metricLoggingExporterIntervalInMills": "metrics are served as Prometheus text",
    "metricsInDelta": "metrics are served as Prometheus text",
    "serverAsyncSemaphoreValue": "limits are built in",
    "serverCallbackExecutorThreads": "one loop serves all requests",
    "serverNettyWorkerGroupEnable": "there is no Netty here",
    "serverOnewaySemaphoreValue": "limits are built in",
    "serverPooledByteBufAllocatorEnable": "there is no Netty here",
    "serverSelectorThreads": "one loop serves all requests",
    "serverSocketBacklog": "limits are built in",
    "serverSocketRcvBufSize": "the system chooses",
    "serverSocketSndBufSize": "the system chooses",
    "serverWorkerThreads": "one loop serves all requests",
    "useEpollNativeSelector": "there is no Netty here",
    "writeBufferHighWaterMark": "limits are built in",
    "writeBufferLowWaterMark": "limits are built in",
}
NOT_SERVED: Mapping[str, str] = {
    "metricsInDelta": "counters count from the start of the process, as Prometheus wants them",
    "metricsGrpcExporterTarget": (
        "no metrics are sent to it; they are fetched as Prometheus text (http_listen)"
    ),
}
"""These settings have no effect here."""
STANDS_FOR: Mapping[str, str] = {
    "controllerDLegerSelfId": "controller_id",
    "controllerDLegerGroup": "cluster_id",
    "controllerStorePath": "data_dir",
    "listenPort": "listen",
    "controllerRequestThreadPoolQueueCapacity": "requests_max",
    "serverChannelMaxIdleTimeSeconds": "idle_timeout_ms",
    "kafka.bootstrap.servers": "kafka",
}
"""The name that people would look for, and our field, where one stands for the other."""
STARTUP_NAMES = WITH_MEANING | frozenset(WITHOUT_MEANING)
"""Every name that a controller reads when it starts, and never again."""


class Contradiction(ValueError):
    """Two names, or a name and its value, do not go together; the text is one line."""


@dataclass(slots=True)
class Translated:
    """`fields`: of our configuration. `notes`: one line per name without meaning. `warnings`: those
    among them that ask for what is not served. `shown`: for 1010, as given.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    def warn(self, line: str) -> None:
        """A note that nobody should miss."""
        self.notes.append(line)
        self.warnings.append(line)


def is_known(name: str) -> bool:
    """True for every name of RocketMQ's controller, and for `kafka.…`."""
    return (
        name in STARTUP_NAMES or name in settings_in_force.names() or name.startswith(KAFKA_PREFIX)
    )


def kafka_keys(given: Mapping[str, str]) -> dict[str, str]:
    """What stands there as `kafka.…`: librdkafka's keys."""
    return {
        name.removeprefix(KAFKA_PREFIX): value.strip()
        for name, value in given.items()
        if name.startswith(KAFKA_PREFIX)
    }


def translate(given: Mapping[str, str]) -> Translated:
    """Names and values as they stand in a file; names that are not known are left to the caller."""
    done = Translated()
    given = {name: value.strip() for name, value in given.items()}
    _settings(given, done)
    kernel = given.get("controllerType", JAVA_KERNELS[0])
    if kernel not in (*JAVA_KERNELS, OUR_KERNEL):
        raise Contradiction(
            f"controllerType is {kernel!r}; known are {', '.join((*JAVA_KERNELS, OUR_KERNEL))}"
        )
    if kernel == JAVA_KERNELS[1]:
        _members(_jraft(given), given, done)
    else:
        _members(_dledger(given), given, done)
    _metrics(given, done)
    for name, place in (
        ("controllerStorePath", "data_dir"),
        ("controllerRequestThreadPoolQueueCapacity", "requests_max"),
    ):
        if given.get(name):
            done.fields[place] = given[name]
    if given.get("serverChannelMaxIdleTimeSeconds"):
        done.fields["idle_timeout_ms"] = _number(given, "serverChannelMaxIdleTimeSeconds") * 1_000
    for name in sorted(given):
        if name in WITHOUT_MEANING:
            if name in NOT_SERVED and given[name].lower() not in ("", "false"):
                done.warn(f"{name} is not served: {NOT_SERVED[name]}")
            else:
                done.notes.append(f"{name} has no meaning here: {WITHOUT_MEANING[name]}")
            done.shown[name] = given[name]
    if "configBlackList" in given:
        done.shown["configBlackList"] = given["configBlackList"]
    return done


def _settings(given: Mapping[str, str], done: Translated) -> None:
    recorded: dict[str, str] = {}
    for name in sorted(settings_in_force.names() & given.keys()):
        canonical = settings_in_force.canonical_name(name)
        value = settings_in_force.canonical_value(given[name])
        if recorded.setdefault(canonical, value) != value:
            raise Contradiction(f"{canonical} is both {recorded[canonical]} and {value}")
        if canonical in settings_in_force.WITHOUT_EFFECT:
            done.notes.append(f"{name} has {settings_in_force.WITHOUT_EFFECT[canonical]}")
    if recorded:
        done.fields["settings"] = recorded
    if kafka := kafka_keys(given):
        done.fields["kafka"] = kafka


@dataclass(frozen=True, slots=True)
class _Members:
    """The group of controllers, whichever kernel named them."""

    group: str | None
    own: str | None
    addresses: Mapping[str, str]


def _dledger(given: Mapping[str, str]) -> _Members:
    addresses: dict[str, str] = {}
    for part in filter(
        None, (one.strip() for one in given.get("controllerDLegerPeers", "").split(";"))
    ):
        peer, dash, address = _peer(part)
        if not dash or not peer or ":" not in address:
            raise Contradiction(f"controllerDLegerPeers: {part!r} is not id-host:port")
        if peer in addresses:
            raise Contradiction(f"controllerDLegerPeers names {peer} twice")
        addresses[peer] = address
    own = given.get("controllerDLegerSelfId") or None
    if addresses and own is None:
        raise Contradiction("controllerDLegerPeers without controllerDLegerSelfId")
    if addresses and own not in addresses:
        raise Contradiction(
            f"controllerDLegerSelfId {own} is not among controllerDLegerPeers "
            f"{', '.join(addresses)}"
        )
    return _Members(given.get("controllerDLegerGroup") or None, own, addresses)


def _peer(part: str) -> tuple[str, str, str]:
    """`id-host:port`: hosts may hold dashes and ids of ours too, so the last dash counts where a
    plain IPv4 address follows it.
    """
    peer, dash, address = part.rpartition("-")
    return (
        (peer, dash, address) if IPV4.fullmatch(address.rpartition(":")[0]) else part.partition("-")
    )


def _jraft(given: Mapping[str, str]) -> _Members:
    ids = [one.strip() for one in given.get("jRaftInitConf", "").split(",") if one.strip()]
    calls = [
        one.strip() for one in given.get("jRaftControllerRPCAddr", "").split(",") if one.strip()
    ]
    if len(ids) != len(calls):
        raise Contradiction(
            f"jRaftInitConf names {len(ids)} controllers, jRaftControllerRPCAddr {len(calls)}"
        )
    own = given.get("jRaftServerId") or None
    if own is None and given.get("controllerDLegerSelfId"):
        raise Contradiction(
            "controllerType is jRaft, but it is DLedger's names that are given: say "
            "controllerType = DLedger, or leave it out"
        )
    if ids and own not in ids:
        raise Contradiction(f"jRaftServerId {own} is not among jRaftInitConf {', '.join(ids)}")
    named = {one: one.replace(":", "-") for one in [*ids, own or ""]}
    addresses = {named[one]: call for one, call in zip(ids, calls, strict=True)}
    return _Members(given.get("jRaftGroupId") or None, named[own] if own else None, addresses)


def _members(members: _Members, given: Mapping[str, str], done: Translated) -> None:
    if members.group:
        done.fields["cluster_id"] = members.group
    if members.own:
        done.fields["controller_id"] = members.own
    port = str(_number(given, "listenPort")) if given.get("listenPort") else None
    own_address = members.addresses.get(members.own or "")
    if own_address is not None:
        told = own_address.rpartition(":")[2]
        if port is not None and port != told:
            raise Contradiction(
                f"listenPort is {port}, but the own entry among the peers says {own_address}"
            )
        port = told
        done.fields["advertise"] = own_address
        done.fields["peers"] = {
            peer: at for peer, at in members.addresses.items() if peer != members.own
        }
    if port is not None:
        done.fields["listen"] = f"{given.get('bindAddress') or ANY_HOST}:{port}"


def _metrics(given: Mapping[str, str], done: Translated) -> None:
    asked = given.get("metricsExporterType", "DISABLE").upper()
    kind = EXPORTERS.get(asked, asked)
    if kind not in EXPORTERS.values():
        raise Contradiction(
            f"metricsExporterType is {asked!r}; known are {', '.join(EXPORTERS.values())}"
        )
    if kind == "PROM":
        host = given.get("metricsPromExporterHost") or ANY_HOST
        port = (
            _number(given, "metricsPromExporterPort")
            if given.get("metricsPromExporterPort")
            else int(PROM_PORT)
        )
        done.fields["http_listen"] = f"{host}:{port}"
    elif kind != "DISABLE":
        done.warn(
            f"metricsExporterType {kind} is not served: no metrics leave this process. PROM is "
            "served, and http_listen"
        )
    labels: dict[str, str] = {}
    for pair in filter(None, (one.strip() for one in given.get("metricsLabel", "").split(","))):
        name, colon, value = pair.partition(":")
        if colon and ":" not in value:
            labels[name] = value
        else:
            done.notes.append(f"metricsLabel {pair!r} is not name:value and left out, as Java does")
    if labels:
        done.fields["metrics_labels"] = labels


def metrics_names(http_listen: str, labels: Mapping[str, str]) -> dict[str, str]:
    """RocketMQ's names for where our HTTP front listens (empty: off), and for the labels of its
    series.
    """
    told = (
        {"metricsLabel": ",".join(f"{name}:{value}" for name, value in labels.items())}
        if labels
        else {}
    )
    if not http_listen:
        return {"metricsExporterType": "DISABLE", **told}
    host, _, port = http_listen.rpartition(":")
    return {
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": host,
        "metricsPromExporterPort": port,
        **told,
    }


def _number(given: Mapping[str, str], name: str) -> int:
    value = given[name]
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise Contradiction(f"{name} is {value!r}, not a number")
    return int(value)


BLACK_LIST = "configBlackList"
ALWAYS_BLACK = frozenset({BLACK_LIST, "configStorePath", "rocketmqHome"})
DEFAULT_BLACK_LIST = "configBlackList;configStorePath"
SECRET = "******"
_SECRET_PARTS = ("password", "secret", "jaas", "private", ".key", "credential", "token")


def shown(startup: Mapping[str, str], state: ControllerState) -> bytes:
    """Properties text, keys sorted. Never empty, and never with what lets others in."""
    values = {name: _masked(name, value) for name, value in startup.items()}
    values.setdefault(BLACK_LIST, DEFAULT_BLACK_LIST)
    values |= recorded.in_force(state)
    # Java's own name for it in this text.
    values["isProcessReadEvent"] = recorded.text(state, SETTING_PROCESS_READS)
    values.pop(SETTING_PROCESS_READS, None)
    return dump(values)


def _masked(name: str, value: str) -> str:
    lowered = name.lower()
    return SECRET if value and any(part in lowered for part in _SECRET_PARTS) else value


def touches_black_list(asked: Mapping[str, str], startup: Mapping[str, str]) -> bool:
    """True when one of the names may not be changed by anybody."""
    black = {name.strip() for name in startup.get(BLACK_LIST, DEFAULT_BLACK_LIST).split(";")}
    return any(name in ALWAYS_BLACK or name in black for name in asked)


def fixed_at_start(asked: Mapping[str, str], startup: Mapping[str, str]) -> list[str]:
    """The names with another value than the one this controller started with; unknown names are
    ignored.
    """
    return sorted(
        name
        for name, value in asked.items()
        if (name in startup or name in STARTUP_NAMES)
        and value.strip() != startup.get(name, "").strip()
    )
