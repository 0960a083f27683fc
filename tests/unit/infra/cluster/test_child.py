import subprocess
import sys

from infra.cluster.child import Child
from infra.cluster.plan import ProcessSpec


def ended(code: str) -> Child:
    process = subprocess.Popen([sys.executable, "-c", code])
    process.wait()
    return Child(
        ProcessSpec("n", "namesrv", {"listen": "h:1"}, ("h:1",), "h:1"),
        process,
        0.0,
        last_exit=process.returncode,
    )


def test_it_says_in_words_how_it_ended() -> None:
    assert ended("raise SystemExit(3)").how_it_ended() == "ended with exit code 3"
    assert ended("import os; os.kill(os.getpid(), 9)").how_it_ended() == "was killed by SIGKILL"


def test_an_ended_process_is_shown_without_a_pid() -> None:
    shown = ended("pass").public()
    assert shown["pid"] is None and shown["address"] == "h:1" and shown["last_exit"] == 0
