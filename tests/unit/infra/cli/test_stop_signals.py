import os
import signal

import pytest

from infra.cli.stop_signals import STOPPING, told_to_stop


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_says_stop_and_interrupts_nothing(number: int) -> None:
    with told_to_stop() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(5)


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with pytest.raises(KeyError), told_to_stop():
        assert [signal.getsignal(number) for number in STOPPING] != before
        raise KeyError
    assert [signal.getsignal(number) for number in STOPPING] == before
