"""What a person can get wrong at the command line: each gives one clear line with the way out, and
exit code 1 or 2.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from events import topics
from infra.cluster.data_folder import DataFolder
from infra.jars import java, store
from infra.kafka.server import LocalKafka
from infra.processes import children, status
from infra.processes.ports import pick_block
from processors.log.topics import settings_of
from tests.support.kafka_topics import delete_records, delete_topics
from tests.support.local_cluster import COMMAND, ROOT, regent, wait_until
from tests.support.small_disk import small_disk

pytestmark = [pytest.mark.processes]
# nobody listens on port 1
NO_KAFKA = "bootstrap.servers=127.0.0.1:1"
PROCESSES = ("kafka", "controller", "namesrv", "broker", "land")
# what each process cannot do without, so that the wrong line is the only fault of a file
NEEDED = {
    "kafka": "",
    "namesrv": "",
    "controller": 'controller_id = "c"\ndata_dir = "c"\n',
    "broker": 'store_dir = "b"\ncontrollers = ["127.0.0.1:1"]\n',
    "land": 'tables = "t"\ncheckpoint_dir = "c"\njars_dir = "j"\n',
}
KAFKA_TABLE = '[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n'
WITH_KAFKA = ("controller", "land")


LOG_IS_BROKEN = 70
"""A controller that finds its log cut or made anew ends as one that must not be started again by
itself.
"""


def refused(*words: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a verb that must fail: its exit code and the one line it says."""
    done = regent(*words, environ=environ)
    said = done.stderr.splitlines()
    assert done.returncode in (1, 2, LOG_IS_BROKEN), f"{words}: {done}"
    # processes that log to stderr may have said more before: the line that counts is the error
    lines = [
        line
        for line in said
        if line.startswith("regent: ") or " ERROR " in line or " CRITICAL " in line
    ]
    assert len(lines) == 1, f"{words}: {said}"
    assert "Traceback" not in done.stderr + done.stdout and "rdkafka" not in done.stderr
    if lines[0].startswith("regent: "):
        assert said == lines, f"{words} says more than one line: {said}"
    return done.returncode, lines[0]


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "says"), [
    (["strat"], "unknown command 'strat'.*(Did you mean|lists the verbs)"),
    (["up", "--replica", "3"], "up: unrecognized arguments: --replica.*regent up --help"),
    (["up", "--replicas", "many"], "up: argument --replicas: invalid int value: 'many'.*--help"),
    (["up", "--replicas", "10"], "--replicas 10 is out of range.*Use 0 to 9"),
    (["up", "--kafka-nodes", "2"], "--kafka-nodes 2 is no choice.*Use 1 or 3"),
    (["up", "--kafka", "security.protocol=SSL"], "--kafka needs bootstrap.servers"),
    (["state", "--at"], "state: argument --at: expected one argument.*--help"),
    (["broker", "--no-such"], "broker: .*--no-such.*regent broker --help"),
])  # fmt: skip
def test_unknown_words_are_wrong_usage(words: list[str], says: str, tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path / "none")] if words[0] == "up" else []
    code, line = refused(*words, *where)
    assert code == 2 and re.search(says, line), line
    assert not (tmp_path / "none").exists()


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", PROCESSES)
def test_an_unreadable_configuration_is_told_with_file_and_field(verb: str, tmp_path: Path) -> None:
    table = KAFKA_TABLE if verb in WITH_KAFKA else ""
    wrong_type = {
        "kafka": "node_id",
        "namesrv": "scan_interval_ms",
        "controller": "tick_ms",
        "broker": "flush_interval_ms",
        "land": "spark_cores",
    }[verb]
    texts = {
        "no-toml": (b"listen = = 3\n", "no-toml.toml.*line 1")
        if verb != "namesrv"
        else (b"\xff\xfe", "no-toml.toml.*utf-8"),
        "unknown": (f"{NEEDED[verb]}colour = 'red'\n{table}".encode(), "unknown.toml.*colour"),
        "type": (
            (f"{NEEDED[verb]}{wrong_type} = 'soon'\n{table}").encode(),
            f"type.toml.*{wrong_type}",
        ),
    }

    def check(name: str) -> None:
        text, says = texts[name]
        path = tmp_path / f"{name}.toml"
        path.write_bytes(text)
        code, line = refused(verb, "--config", str(path))
        assert code == 2 and re.search(says, line) and f"'regent {verb} --help'" in line, line

    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(check, texts))


def test_a_configuration_that_is_not_there_is_told(tmp_path: Path) -> None:
    code, line = refused("namesrv", "--config", str(tmp_path / "none.toml"))
    assert code == 2 and "none.toml does not exist" in line
    code, line = refused(
        "broker",
        "--listen",
        "somewhere",
        "--store-dir",
        str(tmp_path),
        "--controllers",
        "127.0.0.1:1",
    )
    assert (
        code == 2
        and "flags" in line
        and "'somewhere'" in line
        and "/dev/null" not in line
        and "None" not in line
    )


# -- Java and jars ---------------------------------------------------------------------------------


def environ_without_java(tmp_path: Path, home: str = "") -> dict[str, str]:
    if java.packaged_home(Path(sys.prefix)).exists():
        pytest.skip("this environment brings a Java of its own: there is no way to be without")
    return {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": home}


@pytest.mark.parametrize(
    "words", [["up", "--no-land"], ["up", "--detach"], ["demo"], ["kafka"]], ids=" ".join
)
def test_without_a_java_nothing_starts(words: list[str], tmp_path: Path) -> None:
    where = ["--data-dir" if words[0] == "kafka" else "--dir", str(tmp_path / "d")]
    code, line = refused(*words, *where, environ=environ_without_java(tmp_path))
    assert code == 1 and re.search(
        r"no usable Java 17\+ .*JAVA_HOME is not set.*Install Java 17 "
        r"or newer",
        line,
    ), line
    assert not (tmp_path / "d").exists() or not any((tmp_path / "d").iterdir())


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    program = tmp_path / "old" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    environ = environ_without_java(tmp_path, str(tmp_path / "old"))
    code, line = refused("up", "--dir", str(tmp_path / "d"), environ=environ)
    assert code == 1 and re.search(
        r"no usable Java 17\+ \(JAVA_HOME .*old: "
        r"version 11\)",
        line,
    ), line


@pytest.mark.parametrize("words", [["up", "--no-land"], ["kafka"]], ids=" ".join)
def test_a_jar_with_other_bytes_is_never_used(words: list[str], tmp_path: Path) -> None:
    for lock in store.LOCK_NAMES:
        (tmp_path / "jars" / lock).mkdir(parents=True)
        for jar in store.jars_of(lock).glob("*.jar"):
            (tmp_path / "jars" / lock / jar.name).symlink_to(jar)
    wrong = sorted((tmp_path / "jars" / "kafka").glob("*.jar"))[-1]
    wrong.unlink()
    wrong.write_bytes(b"PK\x03\x04 something else")
    where = ["--data-dir" if words[0] == "kafka" else "--dir", str(tmp_path / "d")]
    environ = {**os.environ, store.CACHE_VARIABLE: str(tmp_path / "jars")}
    code, line = refused(*words, *where, environ=environ)
    assert code == 1 and f"{wrong} has the wrong sha256" in line and "make setup" in line


# -- ports -----------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", pick_block(1)))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_in_use_is_named(taken: int, tmp_path: Path) -> None:
    address = f"127.0.0.1:{taken}"
    needs = {
        "kafka": ["--data-dir", str(tmp_path / "kafka"), "--quorum", f"127.0.0.1:{pick_block(1)}"],
        "namesrv": [],
        "controller": [
            "--controller-id",
            "c",
            "--data-dir",
            str(tmp_path / "controller"),
            "--kafka",
            NO_KAFKA,
        ],
        "broker": ["--store-dir", str(tmp_path / "broker"), "--controllers", "127.0.0.1:1"],
    }
    for verb, flags in needs.items():
        _, line = refused(verb, "--listen", address, *flags)
        assert (
            address in line
            and re.search("in use|cannot", line)
            and re.search("choose another|End what", line)
        ), line
    for more in ([], ["--detach"]):
        code, line = refused(
            "up",
            "--dir",
            str(tmp_path / f"up{len(more)}"),
            "--no-land",
            "--base-port",
            str(taken),
            *more,
        )
        assert code == 1 and re.search(f"port in use: .*127.0.0.1:{taken}.*--base-port", line), line


# -- data folders ----------------------------------------------------------------------------------


OLD = ("regent.json", '{"format": 0}', "of another version: 0, this release has 1")


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (["up", "--no-land"], OLD),
        (["up", "--detach"], OLD),
        (["status"], OLD),
        (["down"], OLD),
        (["demo"], OLD),
        (["up", "--no-land"], ("regent.json", '{"form', "cannot be read")),
        (["up", "--no-land"], ("regent.json", '{"format": 1}', "is not whole")),
        (["up", "--no-land"], ("thesis.txt", "dear", "holds other files")),
    ],
)
def test_a_folder_of_another_version_or_of_somebody_else_is_left_alone(
    words: list[str], content: tuple[str, str, str], tmp_path: Path
) -> None:
    file, text, says = content
    (tmp_path / file).write_text(text)
    code, line = refused(*words, "--dir", str(tmp_path))
    assert code == 1 and says in line and "Use another --dir" in line, line
    assert [path.name for path in tmp_path.iterdir()] == [file] and (
        tmp_path / file
    ).read_text() == text


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dear")
    for folder in ("file", "file/below"):
        code, line = refused("up", "--no-land", "--dir", str(tmp_path / folder))
        assert code == 1 and str(tmp_path / "file") in line, line


@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["foreground", "detached"])
def test_a_disk_without_room_is_told_before_anything_starts(
    more: list[str], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        disk.fill()
        code, line = refused("up", "--no-land", "--dir", str(disk.root / "d"), *more)
        assert code == 1, line
        assert f"the disk of {disk.root} has 0 MiB free" in line and "Make room" in line, line
        assert not (disk.root / "d").exists()


@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["foreground", "detached"])
def test_a_folder_that_can_only_be_read_is_told(more: list[str], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        disk.only_read()
        code, line = refused("up", "--no-land", "--dir", str(disk.root), *more)
        assert code == 1 and f"{disk.root} cannot be written" in line and "--dir" in line, line


def test_verbs_that_need_a_cluster_say_how_to_get_one(tmp_path: Path) -> None:
    for words in (["status"], ["down"], ["history", "broker-a"], ["state"], ["verify"]):
        code, line = refused(*words, "--dir", str(tmp_path / "none"))
        assert code == 2 and "no cluster in" in line and "'regent up'" in line, line


def test_a_folder_in_use_is_refused_and_its_holder_named(tmp_path: Path) -> None:
    """A cluster that still waits for its Kafka holds its folder as any other does."""
    folder = DataFolder(tmp_path / "d")
    silent = socket.create_server(("127.0.0.1", 0))
    kafka = f"bootstrap.servers=127.0.0.1:{silent.getsockname()[1]}"
    command = [
        *COMMAND,
        "up",
        "--no-land",
        "--dir",
        str(folder.root),
        "--kafka",
        kafka,
        "--controllers",
        "1",
    ]
    holder = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        # The word is written by whoever has the lock; to try the lock would keep it from whoever
        # takes it.
        wait_until(
            lambda: written(folder.root / "lock") == str(holder.pid), "the cluster holds its folder"
        )
        # It waits for its Kafka for 10 s only, and less may be left than the others need.
        holder.send_signal(signal.SIGSTOP)
        for words in (["up", "--no-land"], ["up", "--no-land", "--detach"]):
            code, line = refused(*words, "--dir", str(folder.root))
            says = (
                f"in use by a running cluster \\(supervisor pid {holder.pid}\\).*regent down --dir"
            )
            assert code == 1 and re.search(says, line), line
    finally:
        holder.kill()
        holder.wait()
        silent.close()
    code, line = refused("status", "--dir", str(folder.root))
    assert "is not running" in line and "regent up --dir" in line


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_what_a_crash_left_is_told_and_down_ends_it(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("cluster", {}, "0.1.0")
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        folder.write_cluster(
            {
                "state": "ready",
                "supervisor": {"pid": 2**22 + 1, "stamp": "0"},
                "processes": [
                    {
                        "name": "broker-a-1",
                        "kind": "broker",
                        "pid": left.pid,
                        "stamp": children.start_stamp(left.pid),
                    }
                ],
            }
        )
        code, line = refused("up", "--no-land", "--dir", str(folder.root))
        assert code == 1 and re.search(
            rf"leftover of a crash: broker-a-1 \(pid {left.pid}\).*regent "
            r"down --dir",
            line,
        ), line
        done = regent("down", "--dir", str(folder.root))
        assert done.returncode == 0 and "broker-a-1" in done.stdout
        assert left.wait(60) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


# -- Kafka and its topics --------------------------------------------------------------------------


def test_a_kafka_that_does_not_answer_is_told_with_its_address(tmp_path: Path) -> None:
    flags = ["--controller-id", "c", "--data-dir", str(tmp_path / "c"), "--kafka-wait-ms", "100"]
    code, line = refused(
        "controller", "--listen", f"127.0.0.1:{pick_block(1)}", *flags, "--kafka", NO_KAFKA
    )
    assert code == 1 and re.search(
        "Kafka at 127.0.0.1:1 is not reachable.*start it, or correct bootstrap.servers", line
    ), line
    code, line = refused("up", "--no-land", "--dir", str(tmp_path / "d"), "--kafka", NO_KAFKA)
    assert code == 1 and re.search(
        "Kafka not reachable at 127.0.0.1:1.*Check that it runs", line
    ), line


class Controller:
    """`regent controller` by hand against a Kafka whose topics the test makes and spoils."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.address = f"127.0.0.1:{pick_block(1)}"
        self.words = [
            "controller",
            "--controller-id",
            "c",
            "--listen",
            self.address,
            "--data-dir",
            str(folder / "c"),
            "--cluster-id",
            "spoilt",
            "--kafka",
            f"bootstrap.servers={bootstrap}",
            "--local-cluster",
        ]

    def make_topics(self, *, commands_partitions: int = 1, **commands_settings: str) -> None:
        """Make all three anew; the keywords (with _ for .) spoil the command topic."""
        delete_topics(self.admin, {spec.name for spec in topics.TOPICS}.__contains__)
        spoilt = {name.replace("_", "."): value for name, value in commands_settings.items()}
        asked = [
            NewTopic(
                spec.name,
                commands_partitions if spec is topics.COMMANDS else spec.partitions,
                1,
                config={**spec.created, **(spoilt if spec is topics.COMMANDS else {})},
            )
            for spec in topics.TOPICS
        ]
        for future in self.admin.create_topics(asked).values():
            future.result(20)

    def refused(self, wanted: int = 1) -> str:
        """Start it; the line with which it refuses, under that exit code."""
        code, line = refused(*self.words)
        assert code == wanted, line
        return line

    def run_once(self) -> None:
        """Start it, wait until it leads in the log that it has begun, stop it in order."""
        log = self.folder / "run.log"
        process = children.spawn([*COMMAND, *self.words], log, cwd=ROOT)
        try:
            wait_until(
                lambda: (status.ask_once(self.address) or {}).get("role") == "active", "it leads"
            )
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
        finally:
            children.stop(process, 0)


@pytest.mark.kafka
def test_topics_with_wrong_settings_and_logs_with_a_hole_stop_a_controller(
    own_kafka: LocalKafka, tmp_path: Path
) -> None:
    controller = Controller(tmp_path, own_kafka.bootstrap)
    controller.make_topics(commands_partitions=2)
    line = controller.refused()
    assert re.search(
        "regent.commands: 2 partitions where exactly 1 is needed: make it anew", line
    ), line

    controller.make_topics(retention_ms="1000", cleanup_policy="compact")
    line = controller.refused()
    assert re.search("regent.commands: .*retention.ms is 1000, set it to -1", line), line
    assert re.search("cleanup.policy is compact, set it to delete", line), line

    elsewhere = [word for word in controller.words if word != "--local-cluster"]
    controller.make_topics(flush_messages="1000")
    code, line = refused(*elsewhere)
    assert code == 1 and re.search(
        "flush.messages is 1000.*--entity-name regent.commands --add-config flush.messages=1", line
    ), line
    controller.run_once()  # A local cluster mends what an older release created without.
    assert (
        settings_of(controller.admin, [topics.COMMANDS_TOPIC])[topics.COMMANDS_TOPIC][
            "flush.messages"
        ]
        == "1"
    )

    delete_records(controller.admin, topics.COMMANDS_TOPIC, 1)
    line = controller.refused(LOG_IS_BROKEN)
    assert re.search(
        "regent.commands begins at offset 1: its beginning was deleted; .*restore it", line
    ), line

    controller.make_topics()
    line = controller.refused(LOG_IS_BROKEN)
    assert re.search("was cut or made anew; .*restore it.*or, for a new cluster, remove", line), (
        line
    )
