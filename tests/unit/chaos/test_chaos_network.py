"""A network of one's own: what is cut is silent, in that direction only, and heals."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.network import way_in
from tests.support.local_cluster import ROOT

PROGRAM = """
import socket, sys
from pathlib import Path
from infra.processes import children
from tests.chaos.network import CLIENTS, Network
from tests.support.local_cluster import wait_until

home = Path(sys.argv[1])
network = Network(home, ["one", "two"])
places = network.places()
ECHO = (
    "import socket; s = socket.create_server((%r, 7000)); print('up', flush=True)\\n"
    "while True: c, _ = s.accept(); c.sendall(c.recv(9))"
)
HOST = places["one"]["host"]
echo = children.spawn([*places["one"]["prefix"], sys.executable, "-c", ECHO % HOST], home / "echo")
wait_until(lambda: b"up" in (home / "echo").read_bytes(), "it listens")
ASK = "import socket; s = socket.create_connection((%r, 7000), %r); s.sendall(b'x'); s.recv(9)"
LONG_S, SHORT_S = 30.0, 0.5

def heard(place, within_s):
    code = [*network.prefix(place), sys.executable, "-c", ASK % (HOST, within_s)]
    return children.spawn(code, home / "ask").wait() == 0

def are_heard(two, clients):
    # An open way has as long as a busy machine needs; a cut one stays silent however long.
    wanted = {"two": two, CLIENTS: clients}
    return all(heard(place, LONG_S if open else SHORT_S) == open for place, open in wanted.items())

assert are_heard(True, True)
with network.cut(["one"], ["two"]), network.cut(["one"], ["two"]):
    assert are_heard(False, True)
    with network.apart(["one"], [CLIENTS]):
        assert are_heard(False, False)
    assert are_heard(False, True)
assert are_heard(True, True)
network.end()
print("as it should be")
"""


def test_a_way_is_cut_in_one_direction_for_as_long_as_it_is_asked_for(tmp_path: object) -> None:
    way = way_in()
    if way is None:
        pytest.skip("this user may not make network namespaces")
    done = subprocess.run(
        [*way, sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "as it should be\n", done.stderr
