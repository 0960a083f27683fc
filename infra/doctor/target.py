"""What is to be checked: addresses and settings out of configuration files. Refuses to know whether
they are right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from events.properties import parse
from events.topics import TOPICS
from infra.cli import process
from infra.cluster.data_folder import DataFolder
from infra.cluster.options import ACTING, MAJORITY
from infra.cluster.plan import ACTING_SETS
from infra.cluster.view import mode_of
from infra.doctor.commands import Commands
from infra.doctor.landing import PROCESS as LAND
from infra.doctor.landing import LandingPlace
from infra.doctor.log import REPORTS, Wish
from infra.problems import EXIT_USAGE, Problem
from processors.nameserver.config import EMBED
from processors.settings.config import PROPERTIES_SUFFIXES


@dataclass(frozen=True, slots=True)
class Place:
    """One address of a process: where it listens, and the address given to others. `setting` stands
    before `listen` and `advertise` in the names of its settings.
    """

    owner: str
    listen: str
    advertised: str
    process: str = ""
    setting: str = ""


@dataclass(slots=True)
class Target:
    """`starts_kafka`: this machine runs a local Kafka and Spark, so it needs Java; `limits`: the
    share of its disk, in percent, from which a broker's folder takes no message; `states`: folders
    of controllers; `folder`: of a local cluster; `acting_sets`: its sets without controllers;
    `by_majority`: its set is a majority group.
    """

    kafka: dict[str, str] = field(default_factory=dict)
    kafka_file: Path | None = None
    wish: Wish = REPORTS
    starts_kafka: bool = False
    controllers: dict[str, str] = field(default_factory=dict)
    """Name (or address, where only that is known) -> advertised address."""
    name_servers: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    limits: dict[Path, int] = field(default_factory=dict)
    states: list[Path] = field(default_factory=list)
    landing: LandingPlace | None = None
    tables: str = ""
    files: dict[str, tuple[str, Path]] = field(default_factory=dict)
    folder: DataFolder | None = None
    acting_sets: tuple[str, ...] = ()
    by_majority: bool = False

    def commands(self) -> Commands:
        """How this target is asked and started."""
        addresses = list(dict.fromkeys(self.controllers.values()))
        where = ("--controller", ";".join(addresses)) if addresses else ()
        return Commands(
            where=("--dir", str(self.folder.root)) if self.folder else where,
            kafka=self.kafka,
            kafka_file=self.kafka_file,
            files=self.files,
            local=self.folder.root if self.folder else None,
            runs=self.folder is not None and self.folder.is_running(),
            tables=self.tables,
            name_servers=tuple(self.name_servers),
        )

    def take_controller(self, config: Any, path: Path, verb: str = "controller") -> None:
        """What a controller's configuration says; `verb` starts it from the file."""
        self._take_kafka(config.kafka, path)
        self.wish = Wish(
            self.wish.few_copies or config.local_cluster,
            self.wish.self_made or config.local_cluster,
            self.wish.accept_unflushed or config.accept_unflushed_log,
        )
        name = config.controller_id
        self.files[name] = (verb, path)
        self.tables = self.tables or config.tables
        self.controllers |= {name: config.advertised, **config.peers}
        self.places.append(Place(name, config.listen, config.advertised, name))
        if config.http_listen:
            owner, told = f"{name} HTTP", config.http_advertised
            self.places.append(Place(owner, config.http_listen, told, name, "http-"))
        self.folders.append(config.data_dir)
        self.states.append(config.data_dir)

    def take_name_server(self, config: Any, path: Path) -> None:
        """What a name server's configuration says, and that of the controller in its process."""
        if config.embedded is not None:
            self.take_controller(config.embedded, path, "namesrv")
        self.files[config.listen] = ("namesrv", path)
        self.name_servers.append(config.listen)

    def take_broker(self, name: str, config: Any, path: Path) -> None:
        """What a broker's configuration says."""
        self._take_kafka(config.kafka or {}, path)
        if config.controllers:
            self.wish = replace(self.wish, there=TOPICS, fit=TOPICS)
        known = set(self.controllers.values())
        self.controllers |= {
            address: address for address in config.controllers if address not in known
        }
        self.name_servers += [
            address for address in config.name_servers if address not in self.name_servers
        ]
        self.files[name] = ("broker", path)
        self.places += [
            Place(name, config.listen, config.advertised, name),
            Place(f"{name} HA", config.ha_listen, config.ha_advertised, name, "ha-"),
        ]
        self.folders.append(config.store_dir)
        self.limits[config.store_dir] = config.disk_full_percent

    def take_landing(self, config: Any, path: Path, log: Path | None = None) -> None:
        """What a landing job's configuration says; `log`: the file that it logs to. It waits for
        every topic, also where nobody decides.
        """
        if config.without_controllers:
            self.kafka, self.kafka_file = dict(config.kafka), path
            self.wish = replace(self.wish, there=TOPICS)
        else:
            self._take_kafka(config.kafka, path)
            self.wish = replace(self.wish, there=TOPICS, fit=TOPICS)
        self.files[LAND] = ("land", path)
        self.tables = self.tables or str(config.tables)
        self.landing = LandingPlace(Path(config.work_dir or config.checkpoint_dir), log)

    def _take_kafka(self, settings: Mapping[str, str], path: Path) -> None:
        if settings and not self.kafka:
            self.kafka, self.kafka_file = dict(settings), path


def of_file(path: Path) -> Target:
    """The configuration file of a controller, a broker, a name server or a landing job; Problem
    when it is none of these.
    """
    target, kind = Target(), kind_of(path)
    config: Any = process.load_config(kind, path, {})
    if kind == "controller":
        target.take_controller(config, path)
    elif kind == "namesrv":
        target.take_name_server(config, path)
    elif kind == "land":
        target.take_landing(config, path)
    else:
        target.take_broker(path.stem, config, path)
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
            else tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
    mode = mode_of(options)
    acts, by_majority = mode == ACTING, mode == MAJORITY
    own_kafka = not options.get("kafka") and options.get("kafka_nodes", 1) > 0
    target = Target(
        starts_kafka=own_kafka,
        folder=folder,
        acting_sets=ACTING_SETS if acts else (),
        by_majority=by_majority,
    )
    for path in sorted(folder.config.glob("controller-*.toml")):
        target.take_controller(process.load_config("controller", path, {}), path)
    for path in sorted(folder.config.glob("*.toml")):
        if kind_of(path) == "broker":
            target.take_broker(path.stem, process.load_config("broker", path, {}), path)
    if options.get("land", True) and (land := folder.config_of(LAND)).exists():
        target.take_landing(process.load_config("land", land, {}), land, folder.log_of(LAND))
    if not target.files:
        raise Problem(
            f"{folder.root} has no configuration yet",
            "Start the cluster once: 'regent up'.",
            EXIT_USAGE,
        )
    target.folders = [folder.root, *target.limits]
    return target
