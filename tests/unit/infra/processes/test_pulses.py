"""Who beats, by the word of the kernel."""

import os
import subprocess
import sys
import time

from infra.processes.pulses import Pulses

CHILD = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name = os.environ["NOTIFY_SOCKET"]
for text in sys.argv[1:]:
    link.sendto(text.encode(), chr(0) + name[1:])
"""


def child(pulses: Pulses, *texts: str) -> int:
    done = subprocess.Popen(
        [sys.executable, "-c", CHILD, *texts], env=pulses.environ(period_ms=2_000)
    )
    assert done.wait(60) == 0
    return done.pid


def test_a_beat_is_its_sender_s_and_is_heard_once() -> None:
    pulses = Pulses()
    first, second = child(pulses, "READY=1\nWATCHDOG=1"), child(pulses, "WATCHDOG=1", "WATCHDOG=1")
    assert pulses.beaten() == {first, second}
    assert pulses.beaten() == set()
    pulses.close()
    assert pulses.beaten() == set()


def test_other_words_are_no_beats() -> None:
    pulses = Pulses()
    child(pulses, "STATUS=WATCHDOG=1 is near", "MAINPID=1", "x" * 10_000)
    assert pulses.beaten() == set()
    pulses.close()


def test_a_child_hears_where_and_how_often(monkeypatch) -> None:
    monkeypatch.setenv("WATCHDOG_PID", "1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/of/somebody/else")
    pulses = Pulses()
    said = pulses.environ(period_ms=2_500)
    assert said["WATCHDOG_USEC"] == "2500000" and "WATCHDOG_PID" not in said
    assert said["NOTIFY_SOCKET"].startswith("@") and said["PATH"] == os.environ["PATH"]
    pulses.close()


def test_more_datagrams_than_anybody_reads_hold_up_nobody() -> None:
    pulses = Pulses()
    sender = subprocess.Popen(
        [sys.executable, "-c", CHILD, *["WATCHDOG=1"] * 3_000], env=pulses.environ(2_000)
    )
    deadline = time.monotonic() + 60
    while sender.poll() is None and time.monotonic() < deadline:
        pulses.beaten()
    assert sender.returncode == 0
    pulses.close()
