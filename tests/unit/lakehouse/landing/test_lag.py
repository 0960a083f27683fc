from lakehouse.landing import lag
from lakehouse.landing.lag import Lag, LagWatch


def test_nothing_is_behind_when_all_has_landed() -> None:
    watch = LagWatch()
    assert watch.note(0, {"t-0": 5}, {"t-0": 5}) == Lag({"t-0": 0}, {"t-0": 0})
    assert (Lag().all_records, Lag().longest_ms) == (0, 0)


def test_the_oldest_record_that_has_not_landed_ages_until_it_lands() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 5}, {"t-0": 5})
    assert watch.note(1_000, {"t-0": 8}, {"t-0": 5}).age_ms == {"t-0": 0}
    behind = watch.note(3_000, {"t-0": 9}, {"t-0": 5})
    assert (behind.records, behind.age_ms) == ({"t-0": 4}, {"t-0": 2_000})
    # Records 5 to 7 have landed; 8 was seen first at 3,000.
    assert watch.note(4_000, {"t-0": 9}, {"t-0": 8}).age_ms == {"t-0": 1_000}
    assert watch.note(5_000, {"t-0": 9}, {"t-0": 9}).age_ms == {"t-0": 0}


def test_a_partition_that_nothing_landed_of_counts_from_its_first_sighting() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 2, "t-1": 0}, {})
    behind = watch.note(700, {"t-0": 2, "t-1": 0}, {})
    assert (behind.all_records, behind.longest_ms) == (2, 700)


def test_a_quiet_log_does_not_age_what_comes_later() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 1}, {"t-0": 1})
    assert watch.note(3_600_000, {"t-0": 2}, {"t-0": 1}).longest_ms == 0


def test_sightings_are_bounded_and_the_oldest_is_kept() -> None:
    watch = LagWatch()
    for i in range(3 * lag.SIGHTINGS_MAX):
        behind = watch.note(i, {"t-0": i + 1}, {})
    assert behind.longest_ms == 3 * lag.SIGHTINGS_MAX - 1
    assert len(watch._seen["t-0"]) <= lag.SIGHTINGS_MAX
