"""The configuration of a name server, read from TOML and flags.

Responsible for: names, defaults, limits, one clear error for an unreadable or contradictory file.
Refuses to know: what the settings do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from brokers.remoting.connection import split_address
from events.config_file import ConfigError, load_config

__all__ = ["ConfigError", "NameServerConfig", "load"]


class NameServerConfig(BaseModel):
    """`listen` is the `host:port` that is bound; clients and brokers are told the name server's address by people."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = "127.0.0.1:9876"
    scan_interval_ms: int = Field(5_000, ge=50, le=600_000)
    idle_timeout_ms: int = Field(120_000, ge=1_000)
    partial_frame_timeout_ms: int = Field(30_000, ge=100)
    connections_max: int = Field(8_192, ge=1)

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        split_address(value)
        return value.strip()


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> NameServerConfig:
    """The TOML file (None: defaults) with `overrides` over it; overrides of None say nothing. Raises ConfigError."""
    return load_config(NameServerConfig, path, overrides)
