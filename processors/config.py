"""The configuration of a controller, read from TOML and flags.

Responsible for: names, defaults, limits, one clear error for an unreadable or contradictory file.
Refuses to know: what the settings do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from brokers.remoting.connection import split_address
from events.config_file import ConfigError, kafka_texts, load_config
from processors.state import setting_is_valid

__all__ = ["ConfigError", "ControllerConfig", "load"]


class ControllerConfig(BaseModel):
    """
    `listen` is the `host:port` that is bound, `advertise` the one brokers and other controllers are told.

    `kafka` is handed to every Kafka client as it is (bootstrap.servers, security.protocol, sasl.*, ssl.*).
    `peers_http` says where other controllers give out snapshots; one is fetched at start when it saves folding more
    than `snapshot_fetch_gap` records. `local_cluster` allows one Kafka node and creates missing topics; `settings` are those that the first
    controller of an empty log writes into `ClusterFormed`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    controller_id: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    cluster_id: str = Field("regent", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    listen: str = "127.0.0.1:9878"
    advertise: str = ""
    peers: dict[str, str] = {}
    peers_http: dict[str, str] = {}
    data_dir: Path
    kafka: dict[str, str]
    local_cluster: bool = False
    settings: dict[str, str] = {}
    tick_ms: int = Field(25, ge=5, le=1_000)
    request_deadline_ms: int = Field(2_500, ge=100, le=60_000)
    snapshot_every_offsets: int = Field(5_000, ge=1)
    snapshot_fetch_gap: int = Field(20_000, ge=0)
    snapshots_kept: int = Field(3, ge=1, le=100)
    watchdog_ms: int = Field(10_000, ge=1_000)
    kafka_wait_ms: int = Field(30_000, ge=0)
    idle_timeout_ms: int = Field(120_000, ge=1_000)
    partial_frame_timeout_ms: int = Field(30_000, ge=100)

    @field_validator("listen", "advertise")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            split_address(value)
        return value.strip()

    @field_validator("peers", "peers_http")
    @classmethod
    def _addresses(cls, value: dict[str, str]) -> dict[str, str]:
        for address in value.values():
            split_address(address)
        return value

    @field_validator("kafka", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return kafka_texts(value)

    @model_validator(mode="after")
    def _whole(self) -> ControllerConfig:
        if not self.kafka.get("bootstrap.servers"):
            raise ValueError("kafka needs bootstrap.servers")
        for name, value in self.settings.items():
            if not setting_is_valid(name, value):
                raise ValueError(f"settings: {name} = {value!r} is not a setting that rules read")
        return self

    @property
    def advertised(self) -> str:
        """The address others are told: `advertise`, else `listen`."""
        return self.advertise or self.listen


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> ControllerConfig:
    """The TOML file (None: flags only) with `overrides` over it; overrides of None say nothing. Raises ConfigError."""
    return load_config(ControllerConfig, path, overrides)
