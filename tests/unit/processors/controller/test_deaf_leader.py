"""A leader that hears few of the brokers hands over to one that hears them (design D8)."""

from processors.controller.deaf_leader import DEAF_FOR_MS, OFFER_AGAIN_MS, DeafLeader


def test_leadership_is_offered_to_whoever_hears_most_after_a_while_and_again_later() -> None:
    leader, heard = DeafLeader(), {"c2": 11, "c3": 18}
    assert leader.successor(5, heard, 0) is None
    assert leader.successor(5, heard, DEAF_FOR_MS - 1) is None
    assert leader.successor(5, heard, DEAF_FOR_MS) == "c3"
    assert leader.successor(5, heard, DEAF_FOR_MS + OFFER_AGAIN_MS - 1) is None
    assert leader.successor(5, heard, DEAF_FOR_MS + OFFER_AGAIN_MS) == "c3"


def test_half_of_them_is_enough_and_few_brokers_prove_nothing() -> None:
    for own, heard in ((9, {"c2": 18}), (0, {"c2": 10}), (0, {})):
        leader = DeafLeader()
        assert leader.successor(own, heard, 0) is None
        assert leader.successor(own, heard, 10 * DEAF_FOR_MS) is None


def test_hearing_again_ends_it() -> None:
    leader, heard = DeafLeader(), {"c2": 18}
    leader.successor(0, heard, 0)
    leader.successor(18, heard, DEAF_FOR_MS)
    assert leader.successor(0, heard, DEAF_FOR_MS + 1) is None
