import os
import signal
import subprocess
import sys

from infra.processes.watchdog_link import WatchdogLink


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )


def test_a_dropped_group_survives_the_end_of_the_link() -> None:
    link, kept = WatchdogLink(), sleeper()
    link.start()
    link.add(kept.pid)
    link.drop(kept.pid)
    link.close()
    assert kept.poll() is None
    kept.kill()
    kept.wait()


def test_a_watchdog_that_was_killed_is_replaced_and_told_again() -> None:
    link, victim = WatchdogLink(), sleeper()
    link.start()
    link.add(victim.pid)
    first = link.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, os.WNOHANG)
    other = sleeper()
    while link.pid == first:  # the broken pipe shows once the killed process is gone
        link.add(other.pid)
    link.close()
    assert victim.wait(30) == -9 and other.wait(30) == -9
