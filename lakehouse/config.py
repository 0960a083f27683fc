"""Configuration of the landing job.

Responsible for reading and checking what a person wrote; refuses to know Spark.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lakehouse.errors import LakehouseError
from lakehouse.session import SparkSettings

OFFSETS_PER_BATCH_MAX = 100_000


class LandConfig(BaseModel):
    """Where the records come from, where the tables are, and what Spark may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kafka: dict[str, str]
    """Client settings as librdkafka spells them; `bootstrap.servers` is required."""
    cluster_id: str | None = None
    """Whose log it is; None: what record 0 says. Another cluster's log is refused."""
    tables_dir: Path
    checkpoint_dir: Path
    jars_dir: Path
    """Folder that holds the jars of Delta and of Spark's Kafka source."""
    java_home: Path | None = None
    """None: `JAVA_HOME` or the `java` on the path."""
    spark_cores: int = Field(default=2, ge=1, le=64)
    driver_memory: str = Field(default="1g", pattern=r"^\d+[mg]$")
    decisions_trigger_ms: int = Field(default=300, ge=0, le=600_000)
    """Pause between batches of bronze and of decisions; 0 is as fast as it can."""
    details_trigger_ms: int = Field(default=2_000, ge=0, le=600_000)
    """The same for all other silver tables."""
    offsets_per_batch: int = Field(default=20_000, ge=1, le=OFFSETS_PER_BATCH_MAX)
    lock_wait_ms: int = Field(default=60_000, ge=0)
    """How long to wait for the Java process of a killed predecessor to end."""

    @field_validator("kafka", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): _setting_text(item) for key, item in value.items()}
        return value

    @field_validator("kafka")
    @classmethod
    def _has_bootstrap(cls, value: dict[str, str]) -> dict[str, str]:
        if not value.get("bootstrap.servers"):
            raise ValueError("kafka needs bootstrap.servers")
        return value

    @classmethod
    def load(cls, path: Path | None, overrides: Mapping[str, Any] | None = None) -> LandConfig:
        """Read a TOML file and lay `overrides` (None values left out) over it.

        Raises `LakehouseError` with the file's name and every wrong field.
        """
        values = _read_toml(path) if path is not None else {}
        values.update({k: v for k, v in (overrides or {}).items() if v is not None})
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}"
                for item in error.errors()
            )
            raise LakehouseError(f"configuration {path or '(flags)'}: {wrong}") from error

    def spark_settings(self, scratch_dir: Path) -> SparkSettings:
        """The Spark part of the configuration."""
        return SparkSettings(
            jars_dir=self.jars_dir,
            scratch_dir=scratch_dir,
            java_home=self.java_home,
            cores=self.spark_cores,
            driver_memory=self.driver_memory,
            small_commits=True,
        )


def _setting_text(item: object) -> str:
    # TOML's true must become the "true" that every Kafka client understands.
    return str(item).lower() if isinstance(item, bool) else str(item)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LakehouseError(f"configuration {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LakehouseError(f"configuration {path} is not TOML: {error}") from error
