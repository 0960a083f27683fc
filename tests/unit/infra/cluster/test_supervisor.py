"""The supervisor on real, quick processes: name servers. Runs in a process of its own, as it does
in life.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cli.down import stop_cluster
from infra.cluster.data_folder import DataFolder
from infra.problems import Problem
from infra.processes import children, status
from infra.processes.ports import pick_block

SCRIPT = """
import json, sys
from pathlib import Path
from infra.cluster.options import ClusterOptions
from infra.cluster.plan import ClusterPlan, ProcessSpec
from infra.cluster.data_folder import DataFolder
from infra.problems import Problem
from infra.cluster.supervisor import Supervisor
folder = DataFolder(Path(sys.argv[1]))
lock = folder.lock()
settings = json.loads(sys.argv[3])
specs = tuple(
    ProcessSpec(f"namesrv-{i}", "namesrv", {"listen": address, **settings}, (address,), address)
    for i, address in enumerate(sys.argv[2].split(","), start=1)
)
plan = ClusterPlan(specs, {"bootstrap.servers": "127.0.0.1:1"}, (), (), 0)
try:
    sys.exit(Supervisor(folder, plan, ClusterOptions(), lambda text: print(text, flush=True)).run())
except Problem as problem:
    print(f"regent: {problem.line()}", flush=True)
    sys.exit(problem.exit_code)
"""


class Running:
    """A supervisor over two name servers."""

    def __init__(self, root: Path, more: dict[str, object] | None = None) -> None:
        self.folder = DataFolder(root)
        self.folder.create("cluster", {}, "1")
        first = pick_block(2)
        self.addresses = [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
        self.output = root / "supervisor.out"
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(root),
            ",".join(self.addresses),
            json.dumps(more or {}),
        ]
        self.process = children.spawn(command, self.output)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, f"{what}; {self.output.read_text()}"
            time.sleep(0.01)

    def cluster(self) -> dict[str, Any]:
        return self.folder.cluster() or {"state": "none", "processes": []}

    def ready(self) -> "Running":
        self.until(lambda: self.cluster()["state"] == "ready", "never ready")
        return self

    def one(self, name: str = "namesrv-1") -> dict[str, Any]:
        found: dict[str, Any] = next(
            one for one in self.cluster()["processes"] if one["name"] == name
        )
        return found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    started = Running(tmp_path / "d")
    yield started.ready()
    children.stop(started.process, 10)


@pytest.mark.processes
def test_it_starts_all_and_down_stops_all(running: Running) -> None:
    assert all(status.ask_once(address, 30_000) for address in running.addresses)
    pids = [one["pid"] for one in running.cluster()["processes"]]
    stop_cluster(running.folder)
    assert running.process.wait(120) == 0
    assert not any(children.is_alive(pid) for pid in pids)
    assert running.cluster()["state"] == "stopped"
    assert [one["last_exit"] for one in running.cluster()["processes"]] == [0, 0]


@pytest.mark.processes
def test_a_killed_child_is_started_again_on_the_same_address(running: Running) -> None:
    before = running.one()
    os.kill(before["pid"], signal.SIGKILL)
    running.until(
        lambda: running.one()["restarts"] == 1 and running.one()["state"] == "ready",
        "not restarted",
    )
    assert running.one()["pid"] != before["pid"] and running.one()["address"] == before["address"]
    assert "namesrv-1 was killed by SIGKILL; starting it again" in running.output.read_text()


@pytest.mark.processes
def test_who_is_killed_on_request_stays_away_until_a_start_is_asked_for(running: Running) -> None:
    before = running.one()
    running.folder.ask({"action": "kill", "name": "namesrv-1"}, 60)
    assert (running.one()["state"], running.one()["last_exit"]) == ("held", -signal.SIGKILL)
    assert not children.is_alive(before["pid"])
    with pytest.raises(Problem, match="does not run"):
        running.folder.ask({"action": "kill", "name": "namesrv-1"}, 60)
    running.folder.ask({"action": "start", "name": "namesrv-1"}, 60)
    running.until(lambda: running.one()["state"] == "ready", "not started again")


@pytest.mark.processes
def test_nothing_outlives_its_kill_9(running: Running) -> None:
    pids = [one["pid"] for one in running.cluster()["processes"]]
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    running.until(
        lambda: not any(children.is_alive(pid) for pid in pids), "children outlive the supervisor"
    )
    assert not running.folder.is_running()


@pytest.mark.processes
def test_a_process_is_renewed_on_request_and_a_wish_for_an_earlier_one_ends_nobody(
    running: Running,
) -> None:
    old = running.one("namesrv-2")["pid"]
    renew = {"action": "renew", "name": "namesrv-2", "pid": old}
    running.folder.ask(renew, 30)

    def is_new(one: Any) -> bool:
        return one["state"] == "ready" and one["pid"] not in (None, old)

    running.until(lambda: is_new(running.one("namesrv-2")), "not renewed")
    new = running.one("namesrv-2")
    running.folder.ask(renew, 30)
    assert running.one("namesrv-2") == new and not new["leaving"] and new["restarts"] == 1


@pytest.mark.processes
def test_who_is_asked_to_end_is_known_as_leaving_until_it_has(running: Running) -> None:
    """A second SIGTERM would end a broker that still serves its clients."""
    one = running.one("namesrv-2")
    os.kill(one["pid"], signal.SIGSTOP)
    running.folder.ask({"action": "renew", "name": "namesrv-2", "pid": one["pid"]}, 30)
    assert running.one("namesrv-2")["leaving"]
    os.kill(one["pid"], signal.SIGCONT)
    running.until(lambda: running.one("namesrv-2")["restarts"] == 1, "not renewed")
    assert not running.one("namesrv-2")["leaving"]


@pytest.mark.processes
def test_a_process_can_be_held_and_started_on_request(running: Running) -> None:
    running.folder.ask({"action": "hold", "name": "namesrv-2"}, 30)
    assert running.one("namesrv-2")["state"] == "held" and running.one("namesrv-2")["pid"] is None
    running.folder.ask({"action": "start", "name": "namesrv-2"}, 30)
    running.until(lambda: running.one("namesrv-2")["state"] == "ready", "not started")
    with pytest.raises(Problem, match="runs already"):
        running.folder.ask({"action": "start", "name": "namesrv-2"}, 30)
    with pytest.raises(Problem, match="no process 'nobody'"):
        running.folder.ask({"action": "hold", "name": "nobody"}, 30)
    with pytest.raises(Problem, match="unknown request"):
        running.folder.ask({"action": "dance", "name": "namesrv-2"}, 30)


@pytest.mark.processes
def test_a_child_that_never_comes_up_ends_the_start_with_its_last_words(tmp_path: Path) -> None:
    started = Running(tmp_path / "d", {"no_such_setting": "x"})
    assert started.process.wait(120) == 1
    text = started.output.read_text()
    assert re.search(r"namesrv-\d \| regent:", text) and "giving up" in text
    assert re.match(
        r"regent: namesrv-\d does not come up: "
        r".*no_such_setting",
        text.splitlines()[-1],
    )


@pytest.mark.processes
def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    import socket

    started: Running | None = None
    with socket.create_server(("127.0.0.1", 0)) as server:
        folder = DataFolder(tmp_path / "d")
        folder.create("cluster", {}, "1")
        address = f"127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-c", SCRIPT, str(folder.root), address, "{}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert started is None and done.returncode == 1
    assert f"port in use: namesrv-1 wants to listen on {address}" in done.stdout
