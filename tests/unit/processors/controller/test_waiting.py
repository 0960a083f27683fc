"""Commands on their way through the log."""

from brokers.remoting.command import RemotingCommand
from processors.controller.waiting import PendingCommand, PendingCommands, Purpose, Waiter


def command(number: int, issued_ms: int = 0, waiters: tuple[int, ...] = ()) -> PendingCommand:
    people = [Waiter(conn, f"peer:{conn}", RemotingCommand.request(1001)) for conn in waiters]
    return PendingCommand(bytes([number]) * 16, Purpose.REQUEST, issued_ms, 1, {}, people)


def test_a_repeat_of_an_id_joins_those_who_wait() -> None:
    pending = PendingCommands(100)
    pending.add(command(1, waiters=(1,)))
    pending.add(command(1, issued_ms=50, waiters=(2,)))
    found = pending.take(bytes([1]) * 16)
    assert found is not None and [waiter.conn_id for waiter in found.waiters] == [1, 2]
    assert len(pending) == 0


def test_the_deadline_is_counted_from_the_issue() -> None:
    pending = PendingCommands(100)
    pending.add(command(1, issued_ms=0))
    pending.add(command(2, issued_ms=50))
    assert pending.oldest_age_ms(60) == 60
    assert [one.command_id[0] for one in pending.expired(100)] == [1]
    assert pending.oldest_age_ms(100) == 50
    assert pending.get(bytes([1]) * 16) is None


def test_purposes_are_found() -> None:
    pending = PendingCommands(100)
    assert not pending.has(Purpose.REQUEST) and pending.oldest_age_ms(5) == 0
    pending.add(command(1))
    assert pending.has(Purpose.REQUEST) and not pending.has(Purpose.CLAIM) and not pending.is_full


def test_who_has_waited_elsewhere_before_waits_no_longer_than_the_deadline() -> None:
    commands = PendingCommands(2_500)
    early = Waiter(1, "a:1", RemotingCommand.request(1001), arrived_ms=1_000)
    fresh = Waiter(2, "b:1", RemotingCommand.request(1001), arrived_ms=3_000)
    pending = PendingCommand(b"1" * 16, Purpose.REQUEST, 3_000, 1, {}, [fresh])
    commands.add(pending)
    commands.join(pending, early)
    assert commands.impatient(3_499) == []
    assert commands.impatient(3_500) == [early]
    assert commands.impatient(3_501) == []
    assert commands.get(b"1" * 16) is pending and pending.waiters == [fresh]
    assert commands.expired(5_500) == [pending]
