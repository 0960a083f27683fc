"""Headers of what controllers report."""

from processors.liveness.fact_headers import NO_BROKER, FactHeaders

KEY = ("c", "b", 2)


def test_a_controller_stands_in_the_place_of_an_incarnation_under_no_brokers_id():
    header = FactHeaders("c1").next(KEY, 7)
    assert (header.cluster_name, header.broker_name, header.broker_id) == ("c", "b", NO_BROKER)
    assert (header.incarnation, header.at_ms, header.sequence) == ("c1", 7, 0)


def test_no_two_facts_have_one_id_and_the_same_start_gives_the_same_ones():
    first, second = FactHeaders("c1"), FactHeaders("c1")
    made = [first.next(KEY, 7) for _ in range(5)] + [FactHeaders("c2").next(KEY, 7)]
    assert len({one.event_id for one in made}) == 6 and {len(one.event_id) for one in made} == {16}
    assert [second.next(KEY, 7) for _ in range(5)] == made[:5]
