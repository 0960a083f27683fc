import socket

import pytest

from infra.problems import Problem
from infra.processes import ports


def test_a_picked_block_is_free_and_below_the_range_of_outgoing_connections() -> None:
    first = ports.pick_block(5)
    assert first >= ports.PORT_FIRST and first + 5 <= ports.PORT_LAST
    assert all(ports.is_free(f"127.0.0.1:{port}") for port in range(first, first + 5))


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
