"""The command lines of the ways out: what a person can paste, with the flags that name this very
cluster.

Refuses to know when which of them helps.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

REGENT = "regent"
SECRET = ("password", "secret", "token")
"""What the name of a setting holds whose value is not printed."""


@dataclass(frozen=True, slots=True)
class Commands:
    """`where`: flags that name the controllers; `kafka`: settings of its clients, `kafka_file`: a
    file that holds them; `files`: the verb and the file of each process whose configuration is
    known; `local`: the data folder of a local cluster; `runs`: its supervisor does; `tables`: where
    the log lands, empty when that is not known.
    """

    where: tuple[str, ...] = ()
    kafka: Mapping[str, str] = field(default_factory=dict)
    kafka_file: Path | None = None
    files: Mapping[str, tuple[str, Path]] = field(default_factory=dict)
    local: Path | None = None
    runs: bool = False
    tables: str = ""
    name_servers: tuple[str, ...] = ()

    def controller(self, *words: str) -> str:
        """A verb for running controllers."""
        return shlex.join((REGENT, "controller", *words, *self.where))

    def topics(self, action: str, *flags: str) -> str:
        """`regent topics`, for this Kafka."""
        kafka = ("--config", str(self.kafka_file)) if self.kafka_file else kafka_flags(self.kafka)
        return shlex.join((REGENT, "topics", action, *kafka, *flags))

    def rebuild(self) -> str:
        """The first step of restoring the log, which only looks."""
        source = ("--from-delta", self.tables) if self.tables else ("--from-log",)
        kafka = ("--dir", str(self.local)) if self.local else kafka_flags(self.kafka)
        return shlex.join((REGENT, "controller", "rebuild", *source, *kafka, "--dry-run"))

    def start(self, process: str, *flags: str) -> str | None:
        """The command that starts this process, with `flags` over its file; None when its file is
        not known.
        """
        known = self.files.get(process)
        if known is None:
            return None
        return shlex.join((REGENT, known[0], "--config", str(known[1]), *flags))

    def look(self) -> str:
        """What runs here, or who leads there."""
        if self.local is None:
            return self.controller("status")
        return self.cluster("status") if self.runs else self.cluster("up", "--detach")

    def cluster(self, verb: str, *flags: str) -> str:
        """A verb of a local cluster."""
        return shlex.join((REGENT, verb, "--dir", str(self.local), *flags))

    def down(self) -> str:
        """Ends what a crash left of a local cluster, and starts it."""
        return f"{self.cluster('down')}; {self.cluster('up', '--detach')}"

    def anew(self) -> str:
        """Stops a local cluster, and starts it."""
        return f"{self.cluster('down')} && {self.cluster('up', '--detach')}"

    def revive(self, process: str) -> str:
        """What brings a silent process back: its supervisor's word, its own start, or a look at the
        others.
        """
        own = None if self.local is not None else self.start(process)
        return own or self.look()

    def why_nobody_leads(self) -> str:
        """Nearly always it is Kafka."""
        return self.topics("check") if self.kafka else self.look()

    def of_stranger(self, address: str) -> str:
        """What a controller of RocketMQ's own knows."""
        known = ("--namesrv", self.name_servers[0]) if self.name_servers else ()
        return self.controller("import", "--from", address, *known, "--dry-run")

    def history(self, verb: str, *words: str) -> str:
        """A verb that reads the tables."""
        flags = ("--dir", str(self.local)) if self.local else ("--tables", self.tables)
        return shlex.join((REGENT, *verb.split(), *words, *flags))


def kafka_flags(settings: Mapping[str, str]) -> tuple[str, ...]:
    """`--kafka KEY=VALUE` for each setting; what lets somebody in is left for the reader to fill
    in.
    """
    shown = {
        name: "..." if any(word in name for word in SECRET) else value
        for name, value in settings.items()
    }
    return tuple(word for name, value in shown.items() for word in ("--kafka", f"{name}={value}"))
