"""The configuration of one local Kafka node, read from TOML and flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from brokers.remoting.addresses import written_address
from infra.problems import EXIT_USAGE, Problem


class KafkaConfig(BaseModel):
    """`listen` is bound, `advertise` is given to clients, `quorum` is for the other nodes (all
    `host:port`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_id: int = Field(1, ge=1, le=9)
    cluster: str = "regent"
    listen: str = "127.0.0.1:9092"
    advertise: str | None = None
    quorum: str = "127.0.0.1:9093"
    voters: dict[str, str] = Field(default_factory=dict)
    """Quorum address of every node by id; empty: this node alone."""
    data_dir: Path = Path("kafka")
    log_file: Path | None = None
    jars_dir: Path | None = None
    """None: the cache that `make setup` fills."""
    heap_mb: int = Field(256, ge=64, le=65_536)

    @field_validator("listen", "advertise", "quorum")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return value if value is None else written_address(value)


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> KafkaConfig:
    """The TOML file (None: defaults) with `overrides` over it; Problem with one line when it cannot
    be used.
    """
    values: dict[str, Any] = {}
    way_out = "Correct it; 'regent kafka --help' lists the settings."
    if path is not None:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Problem(
                f"configuration {path} cannot be read: {error}", way_out, EXIT_USAGE
            ) from error
    values.update({key: value for key, value in (overrides or {}).items() if value is not None})
    try:
        return KafkaConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Problem(
            f"configuration {path or '(flags)'}: {where}: {first['msg']}", way_out, EXIT_USAGE
        ) from error
