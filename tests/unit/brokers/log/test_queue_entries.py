"""One entry of a queue."""

from brokers.log.queue_entries import ENTRY, ENTRY_BYTES, FILLER, Entry, is_kept, pack_entry


def test_an_entry_is_what_the_reference_says() -> None:
    assert pack_entry(6002, 220, 2598919).hex() == "0000000000001772" "000000dc" "000000000027a807"
    assert ENTRY.size == ENTRY_BYTES == len(FILLER)
    assert FILLER.hex() == "0000000000000000" "7fffffff" "0000000000000000"


def test_a_message_is_kept_from_the_start_of_the_log_on_and_filler_never() -> None:
    assert is_kept(Entry(100, 10, 0), 100) and not is_kept(Entry(99, 10, 0), 100)
    assert not is_kept(Entry(*ENTRY.unpack(FILLER)), 0)
