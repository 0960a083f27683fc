"""Configuration of the landing job.

Responsible for reading and checking what a person wrote, in a file, in the environment
(`REGENT_LAND_` and the name of a setting; tables and lists as JSON) or in flags, of which the later
win. Refuses to know Spark.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from events.envelope import CLUSTER_ID_PATTERN
from lakehouse.errors import LakehouseError
from lakehouse.landing.log_losses import Gap, gap_of
from lakehouse.spark_session import SparkSettings
from lakehouse.tables.lake import Lake, lake_at, spark_path

OFFSETS_PER_BATCH_MAX = 100_000
JAVA_LOG = "java.log"
"""In the job's local folder."""
ENVIRONMENT_PREFIX = "REGENT_LAND_"

Config = TypeVar("Config", bound="SparkConfig")


class SparkConfig(BaseModel):
    """What Spark may use, by the names that the landing job and every other verb that starts Spark
    share.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    jars_dir: Path | None = None
    """Folder that holds the jars of Delta and of Spark's Kafka source; None: they come with
    spark_packages.
    """
    spark_packages: list[str] = Field(default_factory=list)
    """Maven coordinates that Spark fetches at its start, for example those of an object store."""
    spark_master: str | None = None
    """Master of a Spark cluster (spark://..., yarn, k8s://...); None: Spark runs within this
    job.
    """
    spark_conf: dict[str, str] = Field(default_factory=dict)
    """Settings of Spark as it spells them; they win over those of this release. Java shows them to
    all who may list processes.
    """
    java_home: Path | None = None
    """None: `JAVA_HOME` or the `java` on the path."""
    spark_cores: int = Field(default=2, ge=1, le=64)
    """Cores that the job takes, of this machine or of a standalone cluster."""
    driver_memory: str = Field(default="1g", pattern=r"^\d+[mg]$")

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _spark_texts(cls, value: Any) -> Any:
        return _texts_of(value)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What the environment says (`REGENT_LAND_SPARK_MASTER` ...). Raises `LakehouseError` with
        every wrong name.
        """
        return _checked(cls, _from_environment(cls, environment), "(environment)")


class LandConfig(SparkConfig):
    """Where the records come from, where the tables are, and what Spark may use."""

    kafka: dict[str, str]
    """Client settings as librdkafka spells them; `bootstrap.servers` is required."""
    cluster_id: str | None = None
    """Whose log it is; None: what record 0 says. Another cluster's log is refused."""
    without_controllers: bool = False
    """Whether broker events land before any controller has formed the cluster: of sets without
    controllers nothing else comes. cluster_id names it then.
    """
    tables: str
    """Where the tables are: a folder, or a URI of a file system that Spark and deltalake know
    (file:, s3a:, abfss:, gs:, hdfs:).
    """
    storage_options: dict[str, str] = Field(default_factory=dict)
    """What deltalake needs to reach an object store, as it spells it; without them it asks the
    environment (AWS_..., AZURE_...).
    """
    checkpoint_dir: str
    """Folder or URI for the progress of Spark's queries; every job needs its own. Losing it changes
    nothing that has landed.
    """
    work_dir: Path | None = None
    """Local folder for the status file and for Spark's temporary files; None: checkpoint_dir, which
    must be a folder then.
    """
    schemas_dirs: list[Path] = Field(default_factory=list)
    """More folders of schemas, laid out as those of a release: they explain records of newer ones,
    and may be filled while it runs.
    """
    decisions_trigger_ms: int = Field(default=300, ge=0, le=600_000)
    """Pause between batches of bronze and of decisions; 0 is as fast as it can."""
    details_trigger_ms: int = Field(default=2_000, ge=0, le=600_000)
    """The same for all other silver tables."""
    gold_every_s: int = Field(default=15, ge=0, le=86_400)
    """How often the gold tables are brought up to what has landed, seconds; 0: never, `regent lake
    gold` does it.
    """
    check_every_s: int = Field(default=60, ge=0, le=86_400)
    """How often the check looks for gaps and broken invariants in what has landed, seconds; 0:
    never, `regent lake check` does it.
    """
    maintain_every_s: int = Field(default=600, ge=0, le=86_400)
    """How often tables are cared for, seconds; 0: never, `regent lake maintain` does it."""
    time_travel_days: int = Field(default=30, ge=1, le=36_500)
    """Days back for which the care of tables keeps every version readable."""
    anchors_file: Path | None = None
    """File that gets a line of every thousandth record that landed, and each hour one of the last
    one: what `regent verify --anchors` holds the lake against. Best on another machine's disk.
    """
    anchors_command: list[str] = Field(default_factory=list)
    """Program and words that get the same lines on standard input; they are taken when it ends with
    0.
    """
    anchors_table: str | None = None
    """Folder or URI of a Delta table that gets the same, for example in a bucket with object
    lock.
    """
    anchors_storage_options: dict[str, str] = Field(default_factory=dict)
    """What deltalake needs to reach anchors_table."""
    anchors_every_s: int = Field(default=60, ge=1, le=86_400)
    """How often it is looked for records to anchor, seconds, where one of the three is named."""
    metrics_listen: str | None = None
    """host:port where Prometheus finds metrics (/metrics); None: nowhere."""
    niceness: int = Field(default=10, ge=0, le=19)
    """By how much the job and its Java process give way to other processes on their machine; 0: not
    at all.
    """
    offsets_per_batch: int = Field(default=60_000, ge=1, le=OFFSETS_PER_BATCH_MAX)
    """Records of a batch while the job is behind: to append many costs hardly more than a few. A
    batch of many bytes is taken in pieces.
    """
    accept_loss: list[str] = Field(default_factory=list)
    """TOPIC/PARTITION:FROM-TO, both offsets included: exactly these commands or outcomes are gone
    from the log before they landed; land on without them. Any other gap is refused.
    """
    lock_wait_ms: int = Field(default=60_000, ge=0)
    """How long to wait for the Java process of a killed predecessor to end."""

    @field_validator("kafka", "storage_options", "anchors_storage_options", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return _texts_of(value)

    @field_validator("kafka")
    @classmethod
    def _has_bootstrap(cls, value: dict[str, str]) -> dict[str, str]:
        if not value.get("bootstrap.servers"):
            raise ValueError("kafka needs bootstrap.servers")
        return value

    @field_validator("accept_loss")
    @classmethod
    def _names_gaps(cls, value: list[str]) -> list[str]:
        return [str(gap_of(one)) for one in value]

    @model_validator(mode="after")
    def _has_local_folder(self) -> Self:
        if self.work_dir is None and lake_at(self.checkpoint_dir).folder is None:
            raise ValueError("work_dir is needed when checkpoint_dir is not a local folder")
        return self

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.without_controllers and not re.fullmatch(CLUSTER_ID_PATTERN, self.cluster_id or ""):
            raise ValueError(
                "without_controllers needs a cluster_id, of 1 to 64 of A-Z a-z 0-9 . _ -: no "
                "record says whose log it is"
            )
        return self

    @model_validator(mode="after")
    def _has_jars(self) -> Self:
        if self.jars_dir is None and not self.spark_packages:
            raise ValueError(
                "jars_dir, or spark_packages with Delta and Spark's Kafka source, is needed"
            )
        return self

    @classmethod
    def load(
        cls,
        path: Path | None,
        overrides: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> LandConfig:
        """Read a TOML file, lay the environment and then `overrides` (None values left out) over
        it.

        Raises `LakehouseError` with the file's name and every wrong field.
        """
        values = _read_toml(path) if path is not None else {}
        told = _from_environment(cls, environment)
        for given in (told, overrides or {}):
            for name, value in given.items():
                below = values.get(name)
                if value is not None:
                    values[name] = (
                        {**below, **value}
                        if isinstance(value, dict) and isinstance(below, dict)
                        else value
                    )
        variables = {
            name: f"{ENVIRONMENT_PREFIX}{name.upper()}"
            for name in told
            if (overrides or {}).get(name) is None
        }
        return _checked(cls, values, str(path or "(flags)"), variables)

    @property
    def has_anchors(self) -> bool:
        """Whether anchors go anywhere."""
        return bool(self.anchors_file or self.anchors_command or self.anchors_table)

    @property
    def local_dir(self) -> Path:
        """Where the status file is, and what Spark throws away."""
        return self.work_dir or Path(lake_at(self.checkpoint_dir).root)

    @property
    def accepted_gaps(self) -> list[Gap]:
        """What `accept_loss` names."""
        return [gap_of(one) for one in self.accept_loss]

    @property
    def java_log(self) -> Path:
        """What Spark's Java process says."""
        return self.local_dir / JAVA_LOG

    def lake(self, cluster_id: str | None = None) -> Lake:
        """The lake it lands in."""
        return lake_at(self.tables, cluster_id, self.storage_options)

    def checkpoint_of(self, query: str) -> str:
        """Where Spark keeps the progress of a query."""
        return spark_path(f"{lake_at(self.checkpoint_dir).root}/{query}")

    def spark_settings(self, scratch_dir: Path) -> SparkSettings:
        """The Spark part of the configuration."""
        return SparkSettings(
            master=self.spark_master,
            conf=self.spark_conf,
            packages=tuple(self.spark_packages),
            jars_dir=self.jars_dir,
            scratch_dir=scratch_dir,
            java_home=self.java_home,
            cores=self.spark_cores,
            driver_memory=self.driver_memory,
            jvm_log=self.java_log,
            small_commits=True,
            object_store=any(
                lake_at(place).folder is None for place in (self.tables, self.checkpoint_dir)
            ),
        )


def _checked(
    kind: type[Config],
    values: Mapping[str, Any],
    source: str,
    variables: Mapping[str, str] | None = None,
) -> Config:
    """`variables`: settings that the environment gave, with the names of its variables."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(
            f"{_place_of(item['loc'], variables or {})}: {item['msg']}" for item in error.errors()
        )
        raise LakehouseError(f"configuration {source}: {wrong}") from error


def _place_of(loc: tuple[int | str, ...], variables: Mapping[str, str]) -> str:
    """Where a person finds what is wrong: the setting, or the variable that has set it."""
    first, *below = map(str, loc or ("file",))
    return ".".join((variables.get(first, first), *below))


def _from_environment(kind: type[SparkConfig], environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in kind.model_fields:
        text = environment.get(f"{ENVIRONMENT_PREFIX}{name.upper()}")
        if text is not None:
            found[name] = json.loads(text) if text[:1] in ("{", "[") and _is_json(text) else text
    return found


def _texts_of(value: Any) -> Any:
    return (
        {str(key): _setting_text(item) for key, item in value.items()}
        if isinstance(value, Mapping)
        else value
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _setting_text(item: object) -> str:
    # TOML's true must become the "true" that every Kafka client understands.
    return str(item).lower() if isinstance(item, bool) else str(item)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise LakehouseError(f"configuration {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LakehouseError(f"configuration {path} is not TOML: {error}") from error
