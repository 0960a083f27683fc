"""What is to be checked: addresses and settings out of configuration files. Refuses to know whether
they are right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.cli import process
from infra.cluster.data_folder import DataFolder
from infra.doctor.landing import LandingPlace
from infra.problems import EXIT_USAGE, Problem
from processors.nameserver.config import EMBED
from processors.settings.config import PROPERTIES_SUFFIXES
from processors.settings.properties import parse


@dataclass(frozen=True, slots=True)
class Place:
    """One address of a process: where it listens, and the address given to others."""

    owner: str
    listen: str
    advertised: str


@dataclass(slots=True)
class Target:
    """`starts_kafka`: this machine runs a local Kafka and Spark, so it needs Java."""

    kafka: dict[str, str] = field(default_factory=dict)
    local_cluster: bool = False
    accept_unflushed_log: bool = False
    starts_kafka: bool = False
    controllers: dict[str, str] = field(default_factory=dict)
    """Name (or address, where only that is known) -> advertised address."""
    name_servers: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    landing: LandingPlace | None = None

    def take_controller(self, config: Any) -> None:
        """What a controller's configuration says."""
        self.kafka = self.kafka or dict(config.kafka)
        self.local_cluster = self.local_cluster or config.local_cluster
        self.accept_unflushed_log = self.accept_unflushed_log or config.accept_unflushed_log
        self.controllers |= {config.controller_id: config.advertised, **config.peers}
        self.places.append(Place(config.controller_id, config.listen, config.advertised))
        if config.http_listen:
            self.places.append(
                Place(f"{config.controller_id} HTTP", config.http_listen, config.http_advertised)
            )
        self.folders.append(config.data_dir)

    def take_name_server(self, config: Any) -> None:
        """What a name server's configuration says, and that of the controller in its process."""
        if config.embedded is not None:
            self.take_controller(config.embedded)
        self.name_servers.append(config.listen)

    def take_broker(self, name: str, config: Any) -> None:
        """What a broker's configuration says."""
        self.kafka = self.kafka or dict(config.kafka or {})
        known = set(self.controllers.values())
        self.controllers |= {
            address: address for address in config.controllers if address not in known
        }
        self.name_servers += [
            address for address in config.name_servers if address not in self.name_servers
        ]
        self.places += [
            Place(name, config.listen, config.advertised),
            Place(f"{name} HA", config.ha_listen, config.ha_advertised),
        ]
        self.folders.append(config.store_dir)

    def take_landing(self, config: Any, start: str) -> None:
        """What a landing job's configuration says; `start`: the command that starts the job."""
        self.kafka = self.kafka or dict(config.kafka)
        self.landing = LandingPlace(Path(config.work_dir or config.checkpoint_dir), start)


def of_file(path: Path) -> Target:
    """The configuration file of a controller, a broker, a name server or a landing job; Problem
    when it is none of these.
    """
    target, kind = Target(), kind_of(path)
    config: Any = process.load_config(kind, path, {})
    if kind == "controller":
        target.take_controller(config)
    elif kind == "namesrv":
        target.take_name_server(config)
    elif kind == "land":
        target.take_landing(config, f"regent land --config {path}")
    else:
        target.take_broker(path.stem, config)
    return target


def kind_of(path: Path) -> str:
    """Whose configuration the file is."""
    if not path.exists():
        raise Problem(
            f"configuration {path} does not exist",
            "Name an existing file with --config.",
            EXIT_USAGE,
        )
    try:
        found: Mapping[str, Any] = (
            parse(path.read_bytes())
            if path.suffix in PROPERTIES_SUFFIXES
            else tomllib.loads(path.read_text(encoding="utf-8"))
        )
    except (ValueError, OSError) as error:
        raise Problem(f"configuration {path}: {error}", "Correct it.", EXIT_USAGE) from None
    if EMBED in found or "enable_controller_in_namesrv" in found:
        return "namesrv"
    if "checkpoint_dir" in found:
        return "land"
    return "broker" if "store_dir" in found or "broker_name" in found else "controller"


def of_folder(folder: DataFolder) -> Target:
    """Every process of a local cluster, whether it runs or not."""
    options = folder.require()["options"]
    target = Target(starts_kafka=not options.get("kafka"))
    for path in sorted(folder.config.glob("controller-*.toml")):
        target.take_controller(process.load_config("controller", path, {}))
    for path in sorted(folder.config.glob("*.toml")):
        if kind_of(path) == "broker":
            target.take_broker(path.stem, process.load_config("broker", path, {}))
    if options.get("land", True) and (land := folder.config_of("land")).exists():
        config = process.load_config("land", land, {})
        target.take_landing(config, f"regent up --dir {folder.root}")
    if not target.controllers:
        raise Problem(
            f"{folder.root} has no configuration yet",
            "Start the cluster once: 'regent up'.",
            EXIT_USAGE,
        )
    target.folders = [folder.root]
    return target
