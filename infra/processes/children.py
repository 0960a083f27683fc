"""Start a child process that cannot outlive its parent, and end it with all it started.

Refuses to know what the child does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
POLL_S = 0.02
STOPPED_WAIT_S = 5.0
STOPPED_STATES = ("T", "t")
"""Of `state_of`: by SIGSTOP, or by a debugger."""
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with(parent_pid: int) -> None:
    """Runs in the child before exec: SIGKILL when the parent dies. The setting survives exec."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # the parent died between fork and prctl
            os._exit(127)


def tied() -> Callable[[], None]:
    """A `preexec_fn`: the child is killed when this process ends, or the thread that starts it."""
    parent = os.getpid()
    return lambda: _die_with(parent)


def spawn(
    command: Sequence[str],
    output: Path,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    wants_input: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session and process group of its own; stdout and stderr go to `output`
    (appended).

    `wants_input` gives it a pipe as standard input, else it has none.

    Call it from a thread that lives as long as the process: Linux ties the death signal to the
    calling thread.
    """
    with output.open("ab") as sink:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE if wants_input else subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=dict(os.environ if environ is None else environ),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=tied(),  # noqa: PLW1509 one call that takes no lock
        )


def kill_group(group: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a whole process group; a group that is gone is no error."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def stop(child: subprocess.Popen[bytes], grace_s: float) -> int:
    """SIGTERM to the child, SIGKILL to its group after `grace_s`; gives the exit code. The group is
    always emptied.
    """
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
    kill_group(child.pid)
    return child.wait()


def stop_all(children: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """SIGTERM to all at once, one common grace, then SIGKILL to every group."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(POLL_S)
    for child in children:
        stop(child, 0.0)


def is_alive(pid: int) -> bool:
    """A process with that id exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return state_of(pid) != "Z"


def state_of(pid: int) -> str:
    """The kernel's letter for what a process does (proc(5): R, S, D, T, Z ...); '' where it does
    not say.
    """
    try:
        return _state_of(Path(f"/proc/{pid}"))
    except (OSError, IndexError):
        return ""


def start_stamp(pid: int) -> str:
    """A value that differs when the id was given to another process: boot-relative start time on
    Linux, else ''.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rsplit(")", 1)[-1].split()[19]
    except (OSError, IndexError):
        return ""


def last_lines(path: Path, count: int, bytes_max: int = 16_384, from_byte: int = 0) -> list[str]:
    """The last lines of a log file from `from_byte` on, for showing why a child died. Missing file:
    none.
    """
    try:
        with path.open("rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(from_byte, source.tell() - bytes_max))
            text = source.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]


def until_stopped(pid: int, wait_s: float = STOPPED_WAIT_S) -> bool:
    """Whether every thread of a process stands still after SIGSTOP: the signal returns before all
    of them do, and until then the process may answer.
    """
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        try:
            states = {_state_of(task) for task in Path(f"/proc/{pid}/task").iterdir()}
        except OSError:  # a thread ended meanwhile, or this system has no such folder
            states = set()
        if states == {"T"}:
            return True
        time.sleep(0.001)
    return False


def _state_of(task: Path) -> str:
    return (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
