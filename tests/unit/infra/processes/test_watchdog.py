import subprocess
import sys
import time

from infra.processes import children
from infra.processes.watchdog import groups_left


def test_only_groups_that_were_not_taken_back_are_left() -> None:
    assert groups_left(["+10\n", "+11\n", "-10\n", "nonsense\n", "+1\n", "+\n"]) == {11}


def test_when_its_input_ends_the_watchdog_kills_what_is_registered() -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    watchdog = subprocess.Popen(
        [sys.executable, "-m", "infra.processes.watchdog"], stdin=subprocess.PIPE
    )
    assert watchdog.stdin is not None
    watchdog.stdin.write(f"+{victim.pid}\n".encode())
    watchdog.stdin.close()
    assert watchdog.wait(30) == 0
    assert victim.wait(30) == -9
    assert not children.is_alive(victim.pid) or time.monotonic() < 0
