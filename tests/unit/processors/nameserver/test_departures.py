"""Who waits to leave: bounded, each once, in their order."""

from processors.nameserver.departures import Departure, Departures, Why


def departure(number, why=Why.LOST):
    return Departure("a", f"10.0.0.{number}:1", number, why)


def test_they_are_taken_in_their_order_and_once():
    found = Departures(3)
    assert all(found.add(departure(number)) for number in (2, 1, 2))
    assert found.take() == (departure(2), departure(1))
    assert found.take() == () and len(found) == 0


def test_one_without_room_is_told_so_and_the_others_stay():
    found = Departures(1)
    assert found.add(departure(1)) and not found.add(departure(2)) and found.add(departure(1))
    assert found.take() == (departure(1),)
    assert found.add(departure(2))


def test_another_reason_is_another_departure():
    found = Departures(2)
    assert found.add(departure(1)) and found.add(departure(1, Why.SILENT))
    assert len(found) == 2
