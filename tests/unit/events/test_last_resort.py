"""A process that was told to stop ends, whatever hangs in it."""

import signal
import subprocess
import sys
import time

import pytest

from events.last_resort import EXIT_STUCK

LIMIT_S = 120
PROCESS = """
import asyncio, logging, sys, threading, time
from events import last_resort

async def run():
    stopped = asyncio.Event()
    last_resort.on_stop_signals(stopped.set, last_resort.LastResort("c1", {limit_s}))
    {before}
    print("up", flush=True)
    await stopped.wait()
    print("told", flush=True)
    {after}
    return 0

logging.basicConfig()
sys.exit(asyncio.run(run()))
"""
HANGS = {
    "the way down": ("pass", "await asyncio.Event().wait()"),
    "the loop": (
        (
            "asyncio.get_running_loop().call_later(0, lambda: [time.sleep(0.01) for _ in "
            "range(60_000)])"
        ),
        "pass",
    ),
    ("a thread of the loop"): (
        "asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)",
        "pass",
    ),
    ("a thread that nobody ends"): (
        "threading.Thread(target=time.sleep, args=(600,)).start()",
        "pass",
    ),
}


def started(before: str, after: str, limit_s: float = 0.3) -> "subprocess.Popen[str]":
    code = PROCESS.format(before=before, after=after, limit_s=limit_s)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize(("before", "after"), HANGS.values(), ids=HANGS)
def test_a_stop_that_hangs_ends_with_one_line_and_a_code_of_its_own(
    before: str, after: str
) -> None:
    process = started(before, after)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == EXIT_STUCK and time.monotonic() - began >= 0.3
    (line,) = errors.splitlines()
    assert "c1 has not stopped within 0.3 s" in line and "code 71" in line


def test_it_ends_also_when_the_log_hangs() -> None:
    process = started("logging.root.handlers[0].acquire()", "await asyncio.Event().wait()")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, errors) == (EXIT_STUCK, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_comes_to_its_end_is_left_alone(number: signal.Signals) -> None:
    # even an orderly end takes what the machine lets it take
    process = started("pass", "pass", LIMIT_S / 2)
    process.send_signal(number)
    output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, output, errors) == (0, "told\n", "")
