"""Client groups: who is notified of what, and who is forgotten when."""

from brokers.service.clients.groups import CHANNEL_EXPIRES_MS, SUBSCRIPTION_EXPIRES_MS, ClientGroups
from brokers.service.clients.heartbeat import ClientHeartbeat, ConsumerData
from brokers.service.clients.known_clients import GREETED_WITHIN_MS
from brokers.service.clients.subscriptions import parse


def heartbeat(
    client: str,
    text: str = "*",
    version: int = 1,
    *topics: str,
    fingerprint: int = 0,
    bare: bool = False,
) -> ClientHeartbeat:
    subscriptions = tuple(parse(topic, text, version) for topic in topics or ("T",))
    data = ConsumerData(
        "g",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        () if bare else subscriptions,
    )
    return ClientHeartbeat(client, ("p",), (data,), fingerprint, bare)


def beat(
    groups: ClientGroups, connection: int, message: ClientHeartbeat, now_ms: int = 0
) -> tuple[str, ...]:
    return groups.on_heartbeat(connection, message, "JAVA", 479, now_ms).changed


def test_a_new_client_changes_its_group_once() -> None:
    groups = ClientGroups()
    assert beat(groups, 1, heartbeat("a")) == ("g",)
    assert beat(groups, 1, heartbeat("a")) == ()
    assert beat(groups, 2, heartbeat("b")) == ("g",)
    assert groups.client_ids("g") == ["a", "b"] and sorted(groups.connections_of("g")) == [1, 2]
    assert list(groups.producers["p"]) == [1, 2]


def test_line_15_a_newer_subscription_replaces_unheard_and_an_older_one_does_not() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a", "A", 5))
    assert beat(groups, 1, heartbeat("a", "B", 4)) == ()
    assert groups.subscription("g", "T") == parse("T", "A", 5)
    assert beat(groups, 1, heartbeat("a", "B", 6)) == ()
    assert groups.subscription("g", "T") == parse("T", "B", 6)


def test_a_topic_no_longer_listed_is_removed() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a", "*", 1, "T", "U"))
    assert beat(groups, 1, heartbeat("a", "*", 1, "T")) == ("g",)
    assert groups.subscription("g", "U") is None


def test_a_heartbeat_without_subscriptions_keeps_the_known_ones() -> None:
    groups = ClientGroups()
    result = groups.on_heartbeat(1, heartbeat("a", fingerprint=7), "JAVA", 479, 0)
    assert result.fingerprint_differed
    result = groups.on_heartbeat(1, heartbeat("a", fingerprint=7, bare=True), "JAVA", 479, 0)
    assert not result.fingerprint_differed and groups.subscription("g", "T") is not None


def test_a_closed_connection_leaves_everything_at_once() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a"))
    beat(groups, 2, heartbeat("b"))
    assert groups.on_connection_closed(1) == ("g",)
    assert groups.on_connection_closed(1) == ()
    assert groups.client_ids("g") == ["b"] and list(groups.producers["p"]) == [2]


def test_an_unregister_leaves_the_named_groups() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a"))
    assert groups.on_unregister(1, "a", "p", None) == ()
    assert (
        groups.on_unregister(1, "a", None, "g") == ("g",)
        and groups.on_unregister(1, "a", None, "unknown") == ()
    )
    assert groups.producers == {} and groups.client_ids("g") == []


def test_a_silent_client_expires_and_later_its_subscription() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a"), 0)
    assert groups.expire(CHANNEL_EXPIRES_MS, 0) == ()
    assert groups.expire(CHANNEL_EXPIRES_MS + 1, 0) == ("g",)
    assert groups.producers == {} and groups.subscription("g", "T") is not None
    assert groups.expire(SUBSCRIPTION_EXPIRES_MS + 1, 0) == ()
    assert groups.consumers == {}


def led_by_another(groups: ClientGroups, wall_ms: int = 0) -> ClientGroups:
    """A replica that nobody greeted, and that copied what `groups` knows, leads."""
    other = ClientGroups()
    other.known.adopt(groups.text, 1_000_000)
    other.lead(wall_ms)
    return other


def test_a_new_master_goes_by_what_the_last_one_knew_until_its_clients_greet_it() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a", "A || B", 5))
    beat(groups, 2, heartbeat("b", "A || B", 5))
    other = led_by_another(groups)
    assert other.client_ids("g") == ["a", "b"]
    assert other.subscription("g", "T") == parse("T", "A || B", 5)
    assert other.consume_from_where("g") == "CONSUME_FROM_LAST_OFFSET"
    # one of them greets: nothing has changed for the group but its subscription, now its own
    beat(other, 7, heartbeat("a", "A || B", 5))
    assert beat(other, 8, heartbeat("b", "A || B", 5)) == ()
    assert other.client_ids("g") == ["a", "b"]
    # from now on its connections tell
    assert other.on_connection_closed(7) == ("g",) and other.client_ids("g") == ["b"]


def test_who_does_not_greet_a_new_master_is_forgotten_and_the_others_hear_of_it() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a"))
    beat(groups, 2, heartbeat("b"))
    other = led_by_another(groups, 1_000)
    beat(other, 7, heartbeat("a"))
    assert other.expire(0, 1_000 + GREETED_WITHIN_MS - 1) == ()
    assert other.client_ids("g") == ["a", "b"]
    assert other.expire(0, 1_000 + GREETED_WITHIN_MS) == ("g",)
    assert other.client_ids("g") == ["a"] and not other.known.groups


def test_a_client_that_says_goodbye_to_a_master_it_never_greeted_is_gone() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a"))
    beat(groups, 2, heartbeat("b"))
    other = led_by_another(groups)
    assert other.on_unregister(9, "a", None, "g") == ("g",) and other.client_ids("g") == ["b"]


def test_a_client_that_is_gone_is_not_handed_on_for_ever_from_master_to_master() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("gone"))
    second = led_by_another(groups, 1_000)
    third = led_by_another(second, 1_000 + GREETED_WITHIN_MS // 2)
    assert third.client_ids("g") == ["gone"]
    assert third.expire(0, 1_000 + GREETED_WITHIN_MS) == ("g",) and third.client_ids("g") == []


def test_what_is_copied_stays_the_same_while_clients_only_repeat_their_greeting() -> None:
    groups = ClientGroups()
    beat(groups, 1, heartbeat("a", "A", 5), 0)
    text = groups.text
    beat(groups, 1, heartbeat("a", "A", 5), 30_000)
    assert groups.text is text
    beat(groups, 1, heartbeat("a", "B", 6), 60_000)
    assert groups.text != text
    assert led_by_another(groups).subscription("g", "T") == parse("T", "B", 6)
