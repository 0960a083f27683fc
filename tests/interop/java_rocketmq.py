"""Processes of Apache RocketMQ 5.3.3, started as test peers: name server, controller, broker,
admin tool, client.

Responsible for: jars by lock, one folder per process (ROCKETMQ_HOME, user.home, store, log), small
heaps and files, free ports, starting, `kill -9`, pausing, restarting with the same store, and the
end of all of them with the run.
Refuses to know: what a scenario proves, and anything of Regent but how to spawn a child that cannot
outlive its parent.

    with JavaWorld(work_folder) as java:
        name_server = java.name_server()                          # .address
        controller = java.controller()                            # or java.controllers(3): DLedger
        group
        broker = java.broker("broker-0", controllers=[controller.address],
        name_servers=[name_server.address])
        java.wait_until(lambda: ..., "what", 30)
        done = java.mqadmin("getSyncStateSet", "-a", controller.address, "-b", "broker-a")    #
        .text .code

Each start_* returns when the process listens. A process has .address, .pid, .kill(), .pause(),
.resume(), .stop(), .start() (again, same folder), .out (the file with its stdout) and .logs() (the
end of its log files). Settings of a broker are a plain mapping over BROKER_SETTINGS; the name is
RocketMQ's own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from infra.jars import store as jar_store
from infra.jars.java import find_java
from infra.problems import Problem
from infra.processes import children
from infra.processes.ports import pick_block
from tests.interop.program import Program, Replica

HERE = Path(__file__).resolve().parent
VERSION = "5.3.3"
SERVER_LOCK = HERE / "rocketmq-server.lock"
MQADMIN_LIMIT_S = 60.0
POLL_S = 0.05
# HotSpot's own ways to be small: the machine runs a dozen of these beside Kafka
SMALL = (
    "-XX:+UseSerialGC",
    "-Xss512k",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:-UsePerfData",
    "-XX:+AlwaysActAsServerClassMachine",
)
BROKER_JVM = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=256m",
    # the disk of a test machine may be full of other things
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.97",
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.98",
)
OTHER_JVM = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=64m")
TOOL_JVM = ("-Xms64m", "-Xmx192m", "-XX:TieredStopAtLevel=1")
# Loss-free as `regent up` has it; small files so that rolling happens and disks stay empty.
BROKER_SETTINGS: dict[str, str] = {
    "enableControllerMode": "true",
    "brokerId": "-1",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    "inSyncReplicas": "2",
    "totalReplicas": "3",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": "4",
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "1000000",
    "maxHashSlotNum": "20000",
    "maxIndexNum": "80000",
    "mappedFileSizeTimerLog": "4194304",
    "diskMaxUsedSpaceRatio": "95",
    "haMaxTimeSlaveNotCatchup": "6000",
    "registerNameServerPeriod": "10000",
}
# Periods cut to a fifth: what an operator can set to be fast with the released software.
FAST_BROKER_SETTINGS: dict[str, str] = {
    "controllerHeartBeatTimeoutMills": "3000",
    "brokerHeartbeatInterval": "500",
    "syncBrokerMetadataPeriod": "1000",
    "checkSyncStateSetPeriod": "1000",
    "syncControllerMetadataPeriod": "2000",
    "haSendHeartbeatInterval": "1000",
}
FAST_CONTROLLER_SETTINGS: dict[str, str] = {
    "scanNotActiveBrokerInterval": "1000",
    "scanInactiveMasterInterval": "1000",
}

# One log file per process. Without it each reads all of the broker's settings from the jar and
# tells so on stdout.
LOGGING = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/logs/rocketmq.log</file>
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %t %logger{0} - %m%n</pattern></encoder>
  </appender>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqConsole" level="INFO" additivity="false">
    <appender-ref ref="STDOUT"/>
  </logger>
  <logger name="RocketmqTraffic" level="WARN"/>
  <logger name="RocketmqPop" level="WARN"/>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a finished tool said: exit code and all its output."""

    code: int
    text: str


def fetch_jars(say: Callable[[str], None]) -> Path:
    """The folder with the jars of the servers and tools."""
    folder = jar_store.cache_dir() / "rocketmq-server"
    fetched = jar_store.fetch_lock(SERVER_LOCK, folder, jar_store.base_urls, say)
    say(
        f"Apache RocketMQ {VERSION}: {len(jar_store.read_lock(SERVER_LOCK))} jars in {folder}, "
        f"{fetched} fetched"
    )
    return folder


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """A properties file; values hold nothing that would need an escape but the backslash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            f"{key}={str(value).replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items()
        ),
        encoding="utf-8",
    )


class JavaProcess(Program):
    """One Java program with a folder and an address of its own. Killed and started again, it finds
    its store.
    """

    def __init__(
        self,
        world: JavaWorld,
        name: str,
        main_class: str,
        address: str,
        jvm: Sequence[str],
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(world, name, world.folder / name, address)
        self.settings = dict(settings)
        self.environ: dict[str, str] = {}
        self._jars = world
        self._main_class = main_class
        self._jvm = tuple(jvm)

    def command(self) -> tuple[list[str], dict[str, str]]:
        config = self.home / "process.properties"
        write_properties(config, self.settings)
        command = [
            str(self._jars.java),
            *SMALL,
            *self._jvm,
            f"-Duser.home={self.home}",
            f"-Djava.io.tmpdir={self.home}",  # keys that it makes at each start and leaves
            f"-Drocketmq.home.dir={self.home}",
            "-cp",
            self._jars.class_path,
            self._main_class,
            "-c",
            str(config),
        ]
        return command, {
            **os.environ,
            "ROCKETMQ_HOME": str(self.home),
            "JAVA_TOOL_OPTIONS": "",
            **self.environ,
        }

    def dump_threads(self) -> None:
        """SIGQUIT: the threads' stacks go to its stdout file."""
        os.kill(self.pid, signal.SIGQUIT)


class JavaBroker(JavaProcess, Replica):
    """A broker: P for clients and controllers, P-2 the fast port, P+1 HA."""

    def move(self) -> str:
        """Another free address at the next start, same store; gives the new address."""
        self._listen(pick_block(4) + 2)
        return self.address

    def _listen(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.settings["listenPort"] = str(port)
        self.settings["haListenPort"] = str(port + 1)


class JavaWorld:
    """Every Java process of one run. Leaving the block ends them all and, unless `keep`, removes
    their folders.
    """

    def __init__(
        self, folder: Path, say: Callable[[str], None] = lambda _: None, *, keep: bool = False
    ) -> None:
        self.folder = folder
        self.say = say
        self.java = find_java().executable
        self.jars = fetch_jars(say)
        self._keep = keep
        self._processes: list[JavaProcess] = []
        logging = folder / "logging"
        logging.mkdir(parents=True, exist_ok=True)
        (logging / "rmq.logback.xml").write_text(LOGGING, encoding="utf-8")
        self.class_path = f"{logging}:{self.jars}/*"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End every process."""
        for process in reversed(self._processes):
            process.end()
        if not self._keep:
            for process in self._processes:
                shutil.rmtree(process.home, ignore_errors=True)
        self._processes.clear()

    # -- processes ---------------------------------------------------------------------------------

    def name_server(
        self,
        name: str = "java-namesrv",
        settings: Mapping[str, str] | None = None,
        *,
        start: bool = True,
    ) -> JavaProcess:
        """A Java name server on a free port."""
        port = pick_block(1)
        home = self.folder / name
        own = {
            "listenPort": str(port),
            "bindAddress": "127.0.0.1",
            "kvConfigPath": str(home / "kvConfig.json"),
            "configStorePath": str(home / "namesrv.properties"),
            **(settings or {}),
        }
        return self._add(
            JavaProcess(
                self,
                name,
                "org.apache.rocketmq.namesrv.NamesrvStartup",
                f"127.0.0.1:{port}",
                OTHER_JVM,
                own,
            ),
            start,
        )

    def controller(
        self,
        name: str = "java-controller",
        settings: Mapping[str, str] | None = None,
        *,
        start: bool = True,
    ) -> JavaProcess:
        """A DLedger controller of its own, one node."""
        return self.controllers(1, name, settings, start=start)[0]

    def controllers(
        self,
        count: int,
        name: str = "java-controller",
        settings: Mapping[str, str] | None = None,
        *,
        start: bool = True,
    ) -> list[JavaProcess]:
        """A DLedger group of controllers; returns when each listens (a leader takes some seconds
        more).
        """
        first = pick_block(count)
        peers = ";".join(f"n{i}-127.0.0.1:{first + i}" for i in range(count))
        found = []
        for i in range(count):
            label = name if count == 1 else f"{name}-{i}"
            home = self.folder / label
            own = {
                "controllerDLegerGroup": "interop",
                "controllerDLegerPeers": peers,
                "controllerDLegerSelfId": f"n{i}",
                "controllerStorePath": str(home / "store"),
                "configStorePath": str(home / ("controller.properties")),
                "mappedFileSize": "4194304",
                **(settings or {}),
            }
            found.append(
                JavaProcess(
                    self,
                    label,
                    "org.apache.rocketmq.controller.ControllerStartup",
                    f"127.0.0.1:{first + i}",
                    OTHER_JVM,
                    own,
                )
            )
        for process in found:
            self._add(process, False)
        if start:
            for process in found:
                process.start(wait=False)
            for process in found:
                process.wait_listening()
        return found

    def broker(
        self,
        name: str,
        *,
        controllers: Iterable[str],
        name_servers: Iterable[str],
        broker_set: str = "broker-a",
        cluster: str = "DefaultCluster",
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = BROKER_JVM,
        environ: Mapping[str, str] | None = None,
        start: bool = True,
    ) -> JavaBroker:
        """A broker in controller mode; returns when it listens, which is long before it has a
        role.
        """
        home = self.folder / name
        store = home / "store"
        own = {
            **BROKER_SETTINGS,
            "brokerClusterName": cluster,
            "brokerName": broker_set,
            "controllerAddr": ";".join(controllers),
            "namesrvAddr": ";".join(name_servers),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            **(settings or {}),
        }
        found = JavaBroker(self, name, "org.apache.rocketmq.broker.BrokerStartup", "", jvm, own)
        found.environ.update(environ or {})
        found._listen(pick_block(4) + 2)
        found.settings.update(settings or {})
        self._add(found, start)
        return found

    def adopt(self, process: JavaProcess) -> JavaProcess:
        """Start a program of another module's; it ends with this world."""
        return self._add(process, True)

    def _add(self, process: JavaProcess, start: bool) -> JavaProcess:
        process.home.mkdir(parents=True, exist_ok=True)
        self._processes.append(process)
        return process.start() if start else process

    # -- tools -------------------------------------------------------------------------------------

    def mqadmin(self, *words: str, limit_s: float = MQADMIN_LIMIT_S) -> Done:
        """Run stock mqadmin to its end. It exits 0 also when a command fails: judge the text."""
        home = self.folder / "mqadmin"
        home.mkdir(parents=True, exist_ok=True)
        command = [
            str(self.java),
            *SMALL,
            *TOOL_JVM,
            f"-Duser.home={home}",
            f"-Djava.io.tmpdir={home}",
            f"-Drocketmq.home.dir={home}",
            "-cp",
            self.class_path,
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            *words,
        ]
        environ = {**os.environ, "ROCKETMQ_HOME": str(home), "JAVA_TOOL_OPTIONS": ""}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environ,
                cwd=home,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Problem(
                f"mqadmin {words[0]} did not end within {limit_s:.0f} s", str(error.stdout or "")
            ) from None
        lines = [
            line
            for line in done.stdout.splitlines()
            if not line.startswith("Picked up JAVA_TOOL_OPTIONS")
        ]
        return Done(done.returncode, "\n".join(lines))

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float) -> float:
        """Seconds until the condition held. Problem, with the last words of every process, at the
        limit.
        """
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > limit_s:
                raise Problem(
                    f"waited in vain for {limit_s:.0f} s until {what}", "\n".join(self.last_words())
                )
            time.sleep(POLL_S)
        return time.monotonic() - began

    def dump_threads(self) -> None:
        """The stacks of every process's threads into its stdout file, for those who look after a
        failure.
        """
        for process in self._processes:
            if process.is_running:
                process.dump_threads()

    def last_words(self) -> list[str]:
        """The end of what every process wrote to its output."""
        return [
            (f"{one.name} | {line}")
            for one in self._processes
            for line in children.last_lines(one.out, 4)
        ]
