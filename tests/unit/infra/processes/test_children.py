import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from infra.processes import children

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while children.is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_dies_with_its_parent_even_after_kill_9(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, time; from infra.processes import children; child = "
        "children.spawn([sys.executable, '-c', 'import time; time.sleep(600)'], "
        f"pathlib.Path({str(tmp_path / 'out')!r})); print(child.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert children.is_alive(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until_gone(child)


def test_stop_ends_a_child_that_does_not_listen_together_with_what_it_started(
    tmp_path: Path,
) -> None:
    script = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "print(grandchild.pid, flush=True); time.sleep(600)"
    )
    output = tmp_path / "out"
    child = children.spawn([sys.executable, "-u", "-c", script], output)
    deadline = time.monotonic() + 30
    while not output.exists() or not output.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    grandchild = int(output.read_text())
    assert children.stop(child, 0.2) == -9
    wait_until_gone(grandchild)


def test_a_child_has_no_socket_of_its_parent(tmp_path: Path) -> None:
    """Else a port would stay open after its process died, and a probe would find it there."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as linked,
    ):
        child = children.spawn(SLEEP, tmp_path / "out", wants_input=True)
        try:
            mine = {os.readlink(f"/proc/self/fd/{one.fileno()}") for one in (listening, linked)}
            theirs = set()
            for path in Path(f"/proc/{child.pid}/fd").iterdir():
                # an interpreter that starts opens and closes files of its own
                with contextlib.suppress(FileNotFoundError):
                    theirs.add(os.readlink(path))
            assert len(mine) == 2 and theirs and not mine & theirs
        finally:
            assert child.stdin is not None
            child.stdin.close()
            children.stop_all([child], 0.0)


def test_the_stamp_tells_a_process_from_another_with_the_same_number(tmp_path: Path) -> None:
    child = children.spawn(SLEEP, tmp_path / "out")
    assert (
        children.start_stamp(child.pid)
        == children.start_stamp(child.pid)
        != children.start_stamp(os.getpid())
    )
    children.stop_all([child], 0.0)
    assert not children.is_alive(child.pid)
    assert children.start_stamp(child.pid) == ""


def test_last_lines_start_where_this_run_began(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\nolder\n")
    start = path.stat().st_size
    assert children.last_lines(path, 5, from_byte=start) == []
    with path.open("a") as file:
        file.write("one\ntwo\nthree\n")
    assert children.last_lines(path, 2, from_byte=start) == ["two", "three"]
    assert children.last_lines(tmp_path / "none", 2) == []


def test_a_stopped_process_stands_still_when_it_is_said_to(tmp_path: Path) -> None:
    child = children.spawn([sys.executable, "-c", "while True: pass"], tmp_path / "out")
    try:
        assert not children.until_stopped(child.pid, 0.05)
        os.kill(child.pid, signal.SIGSTOP)
        assert children.until_stopped(child.pid)
    finally:
        children.kill_group(child.pid)
        child.wait()
