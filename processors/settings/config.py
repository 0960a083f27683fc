"""The configuration of a controller, read from TOML or RocketMQ's properties, and flags.

Responsible for: names, defaults, limits, one clear error for an unreadable or contradictory file.
Refuses to know: what the settings do, and what RocketMQ calls them (`settings.rocketmq`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from immutables import Map
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from brokers.remoting.addresses import ANY_HOSTS, split_address, written_address
from events.config_file import (
    ConfigError,
    checked,
    did_you_mean,
    kafka_texts,
    named_folder,
    read_bytes,
    read_toml,
)
from events.envelope import CLUSTER_ID_PATTERN
from events.properties import PropertiesRejected, parse
from processors.fold.rules import RULES_VERSION
from processors.fold.state import ControllerState
from processors.settings import recorded, rocketmq
from processors.settings.rocketmq import (
    KAFKA_PREFIX,
    OUR_KERNEL,
    STANDS_FOR,
    STARTUP_NAMES,
    Contradiction,
    is_known,
    metrics_names,
    translate,
)

__all__ = ["ConfigError", "ControllerConfig", "load"]

PROPERTIES_SUFFIXES = (".properties", ".conf")
_NAMES = (*STARTUP_NAMES, *recorded.names())
_Read = tuple[dict[str, Any], dict[str, str], list[str]]
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
OWN_LABELS = frozenset(
    {
        "address",
        "group",
        "peer_id",
        "otel_scope_name",
        "le",
        "cluster",
        "broker_set",
        "election_result",
        "request_type",
    }
)
"""Labels that RocketMQ's series have anyway."""


class ControllerConfig(BaseModel):
    """`listen` is the `host:port` that is bound, `advertise` the one given to brokers and other
    controllers.

    `http_listen` serves metrics, health and snapshots, and is off when empty; `http_advertise` is
    where others ask. `kafka` is handed to every Kafka client as it is (bootstrap.servers,
    security.protocol, sasl.*, ssl.*). `peers_http` says where other controllers give out snapshots;
    one is fetched at start when it saves folding more than `snapshot_fetch_gap` records.
    `local_cluster` allows one Kafka node and creates missing topics; `settings` are those that the
    first controller of an empty log writes into `ClusterFormed`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    controller_id: str = Field(
        pattern=(
            r"^[A-Za-z0-9."
            r"_-]{1,64}$"
        ),
        description="this controller's name, different from every peer's",
    )
    cluster_id: str = Field(
        "regent",
        pattern=CLUSTER_ID_PATTERN,
        description="the same for all controllers of a cluster",
    )
    listen: str = Field(
        "127.0.0.1:9878", description=("what is bound for brokers, mqadmin and other controllers")
    )
    advertise: str = Field(
        "", description=("where they are told to find it, when that is not --listen")
    )
    http_listen: str = Field(
        "", description=("serve /metrics, /healthz, /readyz, /loglevel, /snapshot here; empty: off")
    )
    http_advertise: str = Field(
        "", description=("where others find that, when it is not --http-listen")
    )
    metrics_labels: dict[str, str] = Field({}, description="a label for RocketMQ's series")
    peers: dict[str, str] = Field({}, description="another controller: id=host:port")
    peers_http: dict[str, str] = Field(
        {}, description=("where another controller gives out snapshots: id=host:port")
    )
    advertise_by_network: dict[str, str] = Field(
        {}, description=("who asks from this network is told this address: 10.0.0.0/8=host:port")
    )
    peer_networks: dict[str, str] = Field(
        {},
        description=(
            "another controller speaks from this network, not from the host of its address: "
            "id=10.0.0.0/8"
        ),
    )
    data_dir: Path = Field(description="folder of its own, for snapshots and Faust's notes")
    kafka: dict[str, str] = Field(description="any key of librdkafka, bootstrap.servers at least")
    local_cluster: bool = Field(False, description="allow one Kafka node, and make missing topics")
    accept_unflushed_log: bool = Field(
        False,
        description=(
            "take a Kafka that refuses flush.messages=1: the power of all its in-sync nodes may "
            "take decisions away"
        ),
    )
    tables: str = Field(
        "",
        description=(
            "folder or URI of the landed tables: a log that is shorter than they are at the start "
            "stops this controller; empty: not asked"
        ),
    )
    settings: dict[str, str] = Field(
        {},
        description=(
            "what the first controller of an empty log records; later: regent controller config set"
        ),
    )
    tick_ms: int = Field(25, ge=5, le=1_000, description="pause between two looks at what is due")
    request_deadline_ms: int = Field(
        2_500,
        ge=100,
        le=60_000,
        description=("a request is answered within this time, if only with: unknown"),
    )
    requests_max: int = Field(
        20_000,
        ge=1,
        le=1_000_000,
        description=("requests under way at once; more are answered: busy"),
    )
    snapshot_every_offsets: int = Field(5_000, ge=1, description="records between two snapshots")
    snapshot_fetch_gap: int = Field(
        20_000,
        ge=0,
        description=("fetch a peer's snapshot at the start when it saves this many records"),
    )
    snapshots_kept: int = Field(3, ge=1, le=100, description="how many snapshots are kept")
    watchdog_ms: int = Field(
        10_000, ge=1_000, description=("stop when records are there and none arrives for this long")
    )
    kafka_wait_ms: int = Field(30_000, ge=0, description="how long the start waits for Kafka")
    idle_timeout_ms: int = Field(
        120_000, ge=1_000, description=("a silent connection is closed after this time")
    )
    partial_frame_timeout_ms: int = Field(
        30_000,
        ge=100,
        description=("a connection that brings half a request is closed after this time"),
    )

    @field_validator("listen", "advertise", "http_listen", "http_advertise")
    @classmethod
    def _address(cls, value: str) -> str:
        return written_address(value) if value.strip() else ""

    @field_validator("data_dir", mode="before")
    @classmethod
    def _own_folder(cls, value: object) -> object:
        return named_folder(value)

    _notes: tuple[str, ...] = PrivateAttr(())
    _warnings: tuple[str, ...] = PrivateAttr(())
    _shown: Mapping[str, str] = PrivateAttr({})

    @field_validator("advertise_by_network")
    @classmethod
    def _networks(cls, value: dict[str, str]) -> dict[str, str]:
        for network, address in value.items():
            ip_network(network)
            written_address(address)
        return value

    @field_validator("peer_networks")
    @classmethod
    def _peer_networks(cls, value: dict[str, str]) -> dict[str, str]:
        for network in value.values():
            ip_network(network)
        return value

    @field_validator("peers", "peers_http")
    @classmethod
    def _addresses(cls, value: dict[str, str]) -> dict[str, str]:
        return {name: written_address(address) for name, address in value.items()}

    @field_validator("metrics_labels")
    @classmethod
    def _label_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not LABEL_NAME.fullmatch(name) or name in OWN_LABELS:
                raise ValueError(f"{name!r} cannot be the name of a label")
        return value

    @field_validator("kafka", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return kafka_texts(value)

    @model_validator(mode="after")
    def _whole(self) -> ControllerConfig:
        if not self.kafka.get("bootstrap.servers"):
            raise ValueError(
                "kafka needs bootstrap.servers (in properties: kafka.bootstrap.servers = HOST:PORT)"
            )
        for name, value in self.settings.items():
            why = recorded.why_invalid(name, value, RULES_VERSION)
            if why is not None:
                raise ValueError(f"{why}{did_you_mean(name, recorded.names())}")
        owners: dict[str, str] = {self.advertised: self.controller_id}
        for name, address in self.peers.items():
            owner = owners.setdefault(address, name)
            if owner != name:
                raise ValueError(f"peers: {owner} and {name} have one address, {address}")
        if split_address(self.advertised)[0] in ANY_HOSTS:
            raise ValueError(
                "advertise must say where others reach this controller (HOST:PORT): listen names "
                "every address"
            )
        return self

    @property
    def advertised(self) -> str:
        """The address given to others: `advertise`, else `listen`."""
        return self.advertise or self.listen

    @property
    def http_advertised(self) -> str:
        """Where others find metrics and snapshots: `http_advertise`, else the port of
        `http_listen`; empty when HTTP is off.
        """
        if self.http_advertise or not self.http_listen:
            return self.http_advertise
        host, port = split_address(self.http_listen)
        return (
            f"{split_address(self.advertised)[0]}:{port}" if host in ANY_HOSTS else self.http_listen
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say about the file when the process starts: names that were accepted and do
        nothing.
        """
        return self._notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the notes that say: the file asks for something, and does not get it."""
        return self._warnings

    def startup(self) -> dict[str, str]:
        """What was decided when this process started, under RocketMQ's names (for 1010 and
        `-p`).
        """
        host, port = split_address(self.listen)
        members = {self.controller_id: self.advertised, **self.peers}
        return {
            **self._shown,
            "bindAddress": host,
            "listenPort": str(port),
            "controllerType": OUR_KERNEL,
            "controllerDLegerGroup": self.cluster_id,
            "controllerDLegerSelfId": self.controller_id,
            "controllerDLegerPeers": ";".join(f"{one}-{members[one]}" for one in sorted(members)),
            "controllerStorePath": str(self.data_dir),
            "controllerRequestThreadPoolQueueCapacity": str(self.requests_max),
            "serverChannelMaxIdleTimeSeconds": str(self.idle_timeout_ms // 1000),
            **metrics_names(self.http_listen, self.metrics_labels),
            **{KAFKA_PREFIX + name: value for name, value in self.kafka.items()},
        }

    def text(self) -> str:
        """The whole in force before the log says more, as properties (`-p`)."""
        return rocketmq.shown(self.startup(), ControllerState(settings=Map(self.settings))).decode()


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> ControllerConfig:
    """The file (None: flags only) with `overrides` over it; overrides of None say nothing. Raises
    ConfigError.

    `*.properties` and `*.conf` are Java's properties, everything else TOML; both know RocketMQ's
    names and ours.
    """
    if path is None:
        return checked(ControllerConfig, None, {}, overrides, STANDS_FOR)
    if Path(path).suffix in PROPERTIES_SUFFIXES:
        return of_properties(read_bytes(path), path, overrides)
    return of_table(read_toml(path), path, overrides)


def of_table(
    tables: dict[str, Any], place: str | Path, overrides: Mapping[str, Any] | None = None
) -> ControllerConfig:
    """As `load`, from tables that were read already; `place` stands in what is said of them. Raises
    ConfigError.
    """
    return _checked(lambda: _toml(tables), place, overrides)


def of_properties(
    data: bytes, place: str | Path, overrides: Mapping[str, Any] | None = None
) -> ControllerConfig:
    """As `of_table`, from a properties text."""
    return _checked(lambda: _properties(data), place, overrides)


def _checked(
    read: Callable[[], _Read], place: str | Path, overrides: Mapping[str, Any] | None
) -> ControllerConfig:
    try:
        own, theirs, notes = read()
        done = translate(theirs)
    except (PropertiesRejected, Contradiction) as error:
        raise ConfigError(f"{place}: {error}") from None
    config = checked(
        ControllerConfig, place, _merged(place, own, done.fields), overrides, STANDS_FOR
    )
    config._notes, config._shown = (*notes, *done.notes), done.shown
    config._warnings = (*notes, *done.warnings)
    return config


def _toml(tables: dict[str, Any]) -> _Read:
    """(our fields, RocketMQ's names, notes); whatever is neither stays with ours, where it is
    refused.
    """
    own: dict[str, Any] = {}
    theirs: dict[str, str] = {}
    for name, value in tables.items():
        if (
            name not in ControllerConfig.model_fields
            and is_known(name)
            and isinstance(value, str | int)
        ):
            theirs[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            own[name] = value
    return own, theirs, []


def _properties(data: bytes) -> _Read:
    """As `_toml`; a table's entry is `table.key`. Unknown names are noted: files of RocketMQ often
    hold some.
    """
    own: dict[str, Any] = {}
    theirs: dict[str, str] = {}
    notes: list[str] = []
    for name, value in parse(data).items():
        table, dot, key = name.partition(".")
        if is_known(name):
            theirs[name] = value
        elif name in ControllerConfig.model_fields:
            own[name] = value.strip()
        elif dot and table in ControllerConfig.model_fields:
            own.setdefault(table, {})[key] = value.strip()
        else:
            notes.append(f"{name} is not known here{did_you_mean(name, _NAMES)}")
    return own, theirs, notes


def _merged(path: str | Path, own: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    merged = dict(own)
    for name, value in theirs.items():
        mine = merged.get(name)
        if isinstance(mine, dict) and isinstance(value, dict):
            value = _merged(path, mine, value)
        elif mine is not None and str(mine) != str(value):
            raise ConfigError(f"{path}: {name} is {mine}, and under RocketMQ's name {value}")
        merged[name] = value
    return merged
