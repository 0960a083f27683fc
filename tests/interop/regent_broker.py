"""A broker of Regent that a scenario owns: the `regent broker` command with a folder of its own,
not supervised.

Responsible for: its configuration, loss-free and with the file sizes of the Java brokers beside it.
Refuses to know: what a scenario proves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.cluster import toml_text
from infra.cluster.plan import OWN_DISK
from infra.processes.ports import pick_block
from tests.interop.java_rocketmq import BROKER_SETTINGS, JavaWorld
from tests.interop.program import Replica

ROOT = Path(__file__).resolve().parents[2]
QUEUE_ENTRY_BYTES = 20
# Within a set a commit log file ends with a filler record: all files must be of one size.
SETTINGS: dict[str, Any] = {
    "commit_log_file_bytes": int(BROKER_SETTINGS["mappedFileSizeCommitLog"]),
    "consume_queue_file_entries": int(BROKER_SETTINGS["mappedFileSizeConsumeQueue"])
    // QUEUE_ENTRY_BYTES,
    "index_hash_slots": int(BROKER_SETTINGS["maxHashSlotNum"]),
    "index_entries_max": int(BROKER_SETTINGS["maxIndexNum"]),
    "min_in_sync_replicas": 2,
    "all_ack": True,
    "controller_heartbeat_timeout_ms": 3_000,
    **OWN_DISK,
}


class RegentBroker(Replica):
    """P for clients and controllers, P-2 the second port that Java slaves use, P+1 HA."""

    def __init__(
        self,
        world: JavaWorld,
        name: str,
        *,
        controllers: Iterable[str],
        name_servers: Iterable[str],
        broker_set: str,
        cluster: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        port = pick_block(4) + 2
        super().__init__(world, name, world.folder / name, f"127.0.0.1:{port}")
        self.home.mkdir(parents=True, exist_ok=True)
        self.settings: dict[str, Any] = {
            **SETTINGS,
            "cluster_name": cluster,
            "broker_name": broker_set,
            "listen": self.address,
            "ha_listen": f"127.0.0.1:{port + 1}",
            "store_dir": str(self.store),
            "controllers": list(controllers),
            "name_servers": list(name_servers),
            **(settings or {}),
        }

    def command(self) -> tuple[list[str], dict[str, str]]:
        config = self.home / "broker.toml"
        config.write_text(toml_text.dumps(self.settings), encoding="utf-8")
        (self.home / "logs").mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return (
            [
                sys.executable,
                "-m",
                "infra",
                "broker",
                "--config",
                str(config),
                "--log-file",
                str(self.home / "logs" / "broker.log"),
            ],
            {**os.environ, "PYTHONPATH": path},
        )
