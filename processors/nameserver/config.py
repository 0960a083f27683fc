"""The configuration of a name server, read from TOML or properties and flags.

Responsible for: names, defaults, limits, the controller that may live in the same process
(`enableControllerInNamesrv`, document 000), one clear error for an unreadable or contradictory
file.
Refuses to know: what the settings do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from brokers.remoting.addresses import written_address
from events.config_file import ConfigError, checked, kafka_texts, read_bytes, read_toml
from events.properties import PropertiesRejected, dump, parse
from processors.nameserver.names import NAMES
from processors.settings import config as controller_config
from processors.settings.config import PROPERTIES_SUFFIXES, ControllerConfig
from processors.settings.rocketmq import kafka_keys

__all__ = ["ConfigError", "NameServerConfig", "load"]

EMBED = "enableControllerInNamesrv"
ANY_HOST = "0.0.0.0"
KV_PATH = "kvConfigPath"
KAFKA_WAIT_MS = 10 * 365 * 86_400_000
"""A name server serves without Kafka: the controller inside waits for it as long as it takes."""


class NameServerConfig(BaseModel):
    """`listen` is the `host:port` that is bound; clients and brokers are told the name server's
    address by people.

    With `enable_controller_in_namesrv` a controller runs in the same process, on its own port;
    `controller` holds what its own file would hold.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = Field(
        "127.0.0.1:9876", description=("what is bound for clients, brokers and mqadmin")
    )
    scan_interval_ms: int = Field(
        5_000,
        ge=50,
        le=600_000,
        description=("pause between two looks for brokers that fell silent"),
    )
    data_dir: str | None = Field(
        None,
        description=(
            "folder of what outlives a restart: keys and values, settings changed at run time; "
            "without it neither can be changed"
        ),
    )
    order_message_enable: bool = Field(
        False, description="routes say which queues ordered producers use (orderMessageEnable)"
    )
    return_order_topic_config: bool = Field(
        True, description="brokers hear of ordered topics (returnOrderTopicConfigToBroker)"
    )
    enable_all_topic_list: bool = Field(
        True, description="the list of all topics is served (enableAllTopicList)"
    )
    enable_topic_list: bool = Field(
        True, description="lists of a cluster's and of unit topics are served (enableTopicList)"
    )
    need_wait_for_service: bool = Field(
        False, description="no routes at first, so that all brokers are there (needWaitForService)"
    )
    wait_for_service_s: int = Field(
        45, ge=0, le=86_400, description="for how long (waitSecondsForService)"
    )
    support_acting_master: bool = Field(
        True,
        description=(
            "a set that wants it (enableSlaveActingMaster) and has no master is shown with its "
            "smallest slave as master, for reading (supportActingMaster)"
        ),
    )
    notify_min_broker_id_changed: bool = Field(
        False,
        description=(
            "members of a set are told of another smallest id at once (notifyMinBrokerIdChanged)"
        ),
    )
    departures_max: int = Field(
        3_000,
        ge=1,
        le=1_000_000,
        description=("brokers that leave and wait for it at once (unRegisterBrokerQueueCapacity)"),
    )
    delete_topic_with_registration: bool = Field(
        False,
        description=(
            "topics that a master no longer registers are gone (deleteTopicWithBrokerRegistration)"
        ),
    )
    idle_timeout_ms: int = Field(
        120_000, ge=1_000, description=("a silent connection is closed after this time")
    )
    partial_frame_timeout_ms: int = Field(
        30_000,
        ge=100,
        description=("a connection that brings half a request is closed after this time"),
    )
    connections_max: int = Field(8_192, ge=1, description="connections at once")
    kafka: dict[str, str] = Field(
        {},
        description=(
            "any key of librdkafka: the log that gets facts of sets without controllers; without "
            "it none are told (a controller inside: its own)"
        ),
    )
    enable_controller_in_namesrv: bool = Field(
        False, description=("run a controller in this process too")
    )
    controller: dict[str, Any] = Field(
        {}, description=("what the file of that controller would hold")
    )
    _embedded: ControllerConfig | None = PrivateAttr(None)

    @field_validator("kafka", mode="before")
    @classmethod
    def _kafka_texts(cls, value: Any) -> Any:
        return kafka_texts(value)

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        return written_address(value)

    @property
    def embedded(self) -> ControllerConfig | None:
        """The controller that runs in this process; None when there is none."""
        return self._embedded

    @property
    def facts_kafka(self) -> Mapping[str, str]:
        """Where facts of sets without controllers go; empty: nowhere."""
        return self.kafka or ({} if self._embedded is None else self._embedded.kafka)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say at the start about what its controller was given."""
        return () if self._embedded is None else self._embedded.notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the notes that nobody should miss."""
        return () if self._embedded is None else self._embedded.warnings


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> NameServerConfig:
    """The file (None: defaults) with `overrides` over it; overrides of None say nothing. Raises
    ConfigError.

    `*.properties` and `*.conf` are Java's properties, where name server and controller share one
    list of names.
    """
    if path is not None and Path(path).suffix in PROPERTIES_SUFFIXES:
        return _of_properties(path, overrides)
    config = _checked(path, {} if path is None else read_toml(path), overrides)
    if config.enable_controller_in_namesrv:
        inner = controller_config.of_table(config.controller, f"{path or 'flags'}: controller")
        config._embedded = _waiting(inner)
    return config


def _of_properties(path: str | Path, overrides: Mapping[str, Any] | None) -> NameServerConfig:
    """`listenPort` and `bindAddress` are the name server's; the controller's address is its own
    entry among its peers.
    """
    try:
        values = parse(read_bytes(path))
    except PropertiesRejected as error:
        raise ConfigError(f"{path}: {error}") from None
    own: dict[str, Any] = {
        name: (values[name] if name == "data_dir" else values.pop(name)).strip()
        for name in (EMBED, *NameServerConfig.model_fields)
        if name in values
    }
    # the controller in this process may have a setting of the same name, and keeps its files in the
    # same folder
    own |= {ours: values[theirs].strip() for theirs, ours in NAMES.ours.items() if theirs in values}
    if (kept := values.pop(KV_PATH, "").strip()) and "data_dir" not in own:
        own["data_dir"] = str(Path(kept).parent)
    if kafka := kafka_keys(values):
        own["kafka"] = kafka
    port, host = values.pop("listenPort", "").strip(), values.pop("bindAddress", "").strip()
    if port or host:
        own["listen"] = f"{host or ANY_HOST}:{port or '9876'}"
    config = _checked(path, own, overrides)
    if config.enable_controller_in_namesrv:
        config._embedded = _waiting(
            controller_config.of_properties(dump(values), f"{path}: controller")
        )
    return config


def _checked(
    path: str | Path | None, fields: dict[str, Any], overrides: Mapping[str, Any] | None
) -> NameServerConfig:
    if EMBED in fields:
        fields["enable_controller_in_namesrv"] = fields.pop(EMBED)
    return checked(
        NameServerConfig, path, fields, overrides, {EMBED: "enable_controller_in_namesrv"}
    )


def _waiting(config: ControllerConfig) -> ControllerConfig:
    patient = config.model_copy(update={"kafka_wait_ms": KAFKA_WAIT_MS})
    patient._notes = config._notes
    patient._warnings = config._warnings
    patient._shown = config._shown
    return patient
