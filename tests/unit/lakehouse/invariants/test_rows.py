from lakehouse.invariants.rows import Breach, CounterExample, changes_of, counter_example, subjects
from tests.support.control_history import NAME
from tests.support.judged_history import Voices, decided, sound_history

SOUND = decided(sound_history().records)
WORD = Voices().leads(1, 1).rows[0]


def test_a_row_concerns_the_sets_that_it_changes() -> None:
    assert [subjects(row) for row in (SOUND[0], SOUND[2], WORD)] == [(), (NAME,), (NAME,)]
    refused = next(row for row in SOUND if not row.outcome.accepted)
    assert subjects(refused) == ()
    assert len(changes_of(SOUND[2], NAME)) == 1
    assert changes_of(SOUND[2], "another") == ()


def test_a_counter_example_names_the_record_to_blame() -> None:
    assert counter_example("i", NAME, SOUND[2], Breach("x")) == CounterExample(
        "i", NAME, "regent.commands", 0, 2, "x"
    )
    assert counter_example("i", NAME, WORD, Breach("x")) == CounterExample(
        "i", NAME, "regent.broker-events", 0, 0, "x"
    )
    earlier = counter_example("i", NAME, SOUND[2], Breach("x", (3, 77)))
    assert (earlier.topic, earlier.partition, earlier.offset) == ("regent.broker-events", 3, 77)
