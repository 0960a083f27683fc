import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infra.problems import Problem
from infra.processes import ports


def test_a_picked_block_is_free_and_below_the_range_of_outgoing_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ports.RANGE_VARIABLE, raising=False)
    first = ports.pick_block(5)
    assert first >= ports.PORT_FIRST and first + 5 <= ports.PORT_LAST
    assert all(ports.is_free(f"127.0.0.1:{port}") for port in range(first, first + 5))


def test_ports_are_picked_from_the_range_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ports.RANGE_VARIABLE, "20100-20104")
    assert {ports.pick_block(4) for _ in range(20)} <= {20100, 20101}
    with pytest.raises(Problem, match="no 6 free ports in a row"):
        ports.pick_block(6)


@pytest.mark.parametrize("named", ["20100", "x-y", "-5-6", "20104-20100", "1-70000", "²-³"])
def test_a_range_that_is_none_is_refused_by_name(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ports.RANGE_VARIABLE, named)
    with pytest.raises(Problem, match="REGENT_PORTS"):
        ports.pick_block(1)


def test_runs_of_tests_beside_one_another_pick_from_other_ranges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = (
        "import sys; from tests.support.own_ports import take_own_ports; take_own_ports(); "
        "import os; print(os.environ['REGENT_PORTS'], flush=True); sys.stdin.read()"
    )
    environment = {
        name: value for name, value in os.environ.items() if name != ports.RANGE_VARIABLE
    }
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", command],
            env={**environment, "REGENT_CACHE": str(tmp_path / "jars")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        taken = [run.stdout.readline().strip() for run in runs if run.stdout is not None]
    finally:
        for run in runs:
            run.communicate()
    assert len(set(taken)) == 2
    firsts = sorted(tuple(map(int, one.split("-"))) for one in taken)
    assert firsts[0][1] < firsts[1][0]


def test_a_port_that_somebody_listens_on_is_named_with_the_process_that_wants_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert not ports.is_free(address)
        with pytest.raises(Problem, match=f"port in use: broker-a-1 wants to listen on {address}"):
            ports.require_free("broker-a-1", address)


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ports.split_address(text)
