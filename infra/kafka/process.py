"""Turn this process into one Kafka node: write its files, then become the Java server.

There is no Python process around the server: its pid, its signals and its death are the
supervisor's to see.
"""

from __future__ import annotations

import os

from infra.jars import store
from infra.jars.java import find_java
from infra.kafka import server
from infra.kafka.config import KafkaConfig
from infra.processes.ports import require_free


def run(config: KafkaConfig) -> int:
    """Does not return when all is well; Problem when Java, a jar or a port is missing."""
    node = server.KafkaNode(
        config.node_id,
        config.data_dir.absolute(),
        config.listen,
        config.advertise or config.listen,
        config.quorum,
    )
    java, jars = find_java(), store.check("kafka", config.jars_dir)
    for address in (config.listen, config.quorum):
        require_free(f"kafka node {config.node_id}", address)
    voters = {int(i): address for i, address in config.voters.items()} or {
        config.node_id: config.quorum
    }
    log = (config.log_file or node.directory / "kafka.log").absolute()
    server.write_files(node, voters, config.cluster, log)
    command = server.java_command(node, java, jars, config.heap_mb)
    os.execv(command[0], command)
