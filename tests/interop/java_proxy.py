"""The proxy of Apache RocketMQ 5.3.3 in CLUSTER mode and its gRPC client, as test peers.

Responsible for: their jars by lock, the proxy's configuration, the client's class path.
Refuses to know: what a scenario proves.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from infra.jars import store
from infra.processes.ports import pick_block
from tests.interop.java_rocketmq import SMALL, JavaProcess
from tests.interop.stage import HERE, Stage, compiler

PROXY_LOCK = HERE / "rocketmq-proxy.lock"
GRPC_CLIENT_LOCK = HERE / "rocketmq-grpc-client.lock"
GRPC_PROGRAM = HERE / "GrpcClient.java"
MAIN_CLASS = "org.apache.rocketmq.proxy.ProxyStartup"
PROXY_JVM = ("-Xms64m", "-Xmx384m", "-XX:MaxDirectMemorySize=128m")
GRPC_CLIENT_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC")


class JavaProxy(JavaProcess):
    """gRPC at `address`, RocketMQ's own protocol one port above. Its settings are the proxy's own
    but for addresses and the name of the brokers' cluster.
    """

    def __init__(
        self, stage: Stage, name_servers: Sequence[str], cluster: str, name: str = "proxy"
    ) -> None:
        port = pick_block(2)
        settings = {
            "rocketMQClusterName": cluster,
            "namesrvAddr": ";".join(name_servers),
            "grpcServerPort": str(port),
            "remotingListenPort": str(port + 1),
        }
        super().__init__(stage.java, name, MAIN_CLASS, f"127.0.0.1:{port}", PROXY_JVM, settings)
        self._own_jars = fetched(stage, PROXY_LOCK)

    def command(self) -> tuple[list[str], dict[str, str]]:
        config = self.home / "rmq-proxy.json"
        numbers = {
            key: int(value) if value.isdigit() else value for key, value in self.settings.items()
        }
        config.write_text(json.dumps(numbers), encoding="utf-8")
        command, environ = super().command()
        path = command.index("-cp") + 1
        command[path] = f"{command[path]}:{self._own_jars}/*"
        return [*command[: path + 2], "-pc", str(config)], {
            **environ,
            "RMQ_PROXY_HOME": str(self.home),
        }


def fetched(stage: Stage, lock: Path) -> Path:
    """The folder with the jars of a lock of this folder."""
    folder = store.cache_dir() / lock.stem
    count = store.fetch_lock(lock, folder, store.base_urls, stage.say)
    stage.say(f"{lock.stem}: {len(store.read_lock(lock))} jars in {folder}, {count} fetched")
    return folder


def grpc_class_path(stage: Stage) -> str:
    """The gRPC client's jars and the program, which is compiled now."""
    jars, classes = fetched(stage, GRPC_CLIENT_LOCK), stage.work / "grpc-classes"
    classes.mkdir()
    words = [compiler(), "-cp", f"{jars}/*", "-d", str(classes), str(GRPC_PROGRAM)]
    subprocess.run(words, check=True)
    return f"{jars}/*:{classes}"


def grpc_words(stage: Stage, class_path: str) -> list[str]:
    """The words that start the program. Its library keeps logs in the home it is given."""
    home = stage.work / "grpc-home"
    home.mkdir(exist_ok=True)
    jvm = [*SMALL, *GRPC_CLIENT_JVM, f"-Duser.home={home}", f"-Drocketmq.log.root={home}"]
    return ["java", *jvm, "-cp", class_path, "GrpcClient"]
