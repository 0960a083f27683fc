"""What the system grants, and how it is divided."""

import resource
import subprocess
import sys

import pytest

from brokers.remoting.descriptors import CONNECTIONS_MIN, KEPT_FOR_FILES, connections_within


@pytest.mark.parametrize(
    ("wanted", "open_files", "granted"),
    [
        (8192, 1024, 1024 - KEPT_FOR_FILES),
        (8192, 1 << 20, 8192),
        (8192, resource.RLIM_INFINITY, 8192),
        (2, 1024, 2),
        (8192, 256, CONNECTIONS_MIN),
    ],
)
def test_connections_leave_room_for_files(wanted: int, open_files: int, granted: int) -> None:
    assert connections_within(wanted, open_files) == granted


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    program = (
        "import resource; from brokers.remoting.descriptors import raise_open_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 600))\n"
        "print(raise_open_files(), *resource.getrlimit(resource.RLIMIT_NOFILE), raise_open_files())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["600", "600", "600", "600"]
