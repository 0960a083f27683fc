"""The configuration of a name server, read from TOML and flags.

Responsible for: names, defaults, limits, one clear error for an unreadable or contradictory file.
Refuses to know: what the settings do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from brokers.remoting.connection import split_address


class ConfigError(ValueError):
    """The configuration cannot be used; the text says where and why, in one line."""


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
    fields: dict[str, Any] = {}
    if path is not None:
        try:
            fields = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
    fields.update({key: value for key, value in (overrides or {}).items() if value is not None})
    try:
        return NameServerConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path or 'flags'}: {place}: {first['msg']}") from None
