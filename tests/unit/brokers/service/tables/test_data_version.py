"""The version of a table."""

from brokers.service.tables.data_version import DataVersion


def test_a_change_moves_the_counter_and_takes_the_time() -> None:
    assert DataVersion(2, 10, 3).changed(20) == DataVersion(2, 20, 4)
    assert DataVersion(2, 10, 3).changed(20, 5) == DataVersion(5, 20, 4)


def test_it_reads_what_it_writes_and_takes_nonsense_for_zero() -> None:
    version = DataVersion(1, 2, 3)
    assert DataVersion.from_wire(version.to_wire()) == version
    assert DataVersion.from_wire(None) == DataVersion()
    assert DataVersion.from_wire({"counter": "x"}) == DataVersion()
